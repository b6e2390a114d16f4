"""The methods, one file each: a subject in, one score per feature out."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.methods.base import Attribution, Method
    from looprop.methods.default import DefaultMethodWarning
    from looprop.methods.names import method_names
    from looprop.methods.propagating import propagate
    from looprop.methods.registry import make_method, method_class, register

# Imported when first used: the names of the methods are read without torch.
_HOMES = {
    "Attribution": "looprop.methods.base",
    "DefaultMethodWarning": "looprop.methods.default",
    "Method": "looprop.methods.base",
    "make_method": "looprop.methods.registry",
    "method_class": "looprop.methods.registry",
    "method_names": "looprop.methods.names",
    "propagate": "looprop.methods.propagating",
    "register": "looprop.methods.registry",
}

__all__ = [
    "Attribution",
    "DefaultMethodWarning",
    "Method",
    "make_method",
    "method_class",
    "method_names",
    "propagate",
    "register",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
