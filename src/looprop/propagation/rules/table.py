"""The rule of each operation, as a change to its backward pass. The equations stand in reference.py.

The files of this folder are found by themselves; each says with `@rule(...)` which operations its functions are for.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

import looprop.propagation.rules
from looprop.propagation.call import Rule
from looprop.propagation.rules.base import ENTERED

for _file in iter_modules(looprop.propagation.rules.__path__):
    if _file.name != "table":
        import_module(f"looprop.propagation.rules.{_file.name}")

RULES: Mapping[str, Rule] = MappingProxyType(ENTERED)
