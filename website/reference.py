"""The API reference: one page per public room, made of signatures and docstrings by Sphinx's autodoc."""

import inspect
import pprint
from importlib import import_module
from pathlib import Path
from typing import get_origin

from looprop.result import Result
from website.docstrings import as_rst, inline
from website.public import docstring_of, first_sentence, home_of, is_described, public_modules


def page_of(module: str) -> str:
    """The name of a room's page."""
    return module.partition(".")[2] or "looprop"


def links() -> dict[str, str]:
    """What docstrings call public names, and where these are described.

    All by their whole name; classes also by their own, the top's first, of the others those that only one room has. A
    small `load` may be a method or a parameter of whatever the docstring is about.
    """
    modules = public_modules()
    found = {f"{module}.{name}": f"{module}.{name}" for module, names in modules.items() for name in names}
    classes = [(name, place) for place in found if (name := place.rpartition(".")[2])[0].isupper()]
    own = [name for name, _ in classes]
    top = {name: place for name, place in classes if place == f"looprop.{name}"}
    return found | {name: place for name, place in classes if own.count(name) == 1} | top


def entry(module: str, name: str) -> list[str]:
    """What the page of a room says of one of its names."""
    value, home = getattr(import_module(module), name), home_of(module, name)
    rooms = [room for room, names in public_modules().items() if name in names and home_of(room, name) == home]
    first = "looprop" if "looprop" in rooms else min(rooms, key=lambda room: (not home.startswith(room), room))
    if module != first:
        return [f".. py:data:: {module}.{name}", "   :no-index:", "", f"   The same as :py:obj:`{first}.{name}`.", ""]
    if inspect.isclass(value):
        options = [] if issubclass(value, BaseException) else ["   :members:"]
        if issubclass(value, BaseException | Result):  # what all of them do is said of their base
            options.append("   :show-inheritance:")
        return [f".. autoclass:: {module}.{name}", *options, ""]
    if is_described(value):
        return [f".. autofunction:: {module}.{name}", ""]
    return constant(module, name)


def constant(module: str, name: str) -> list[str]:
    """A constant with its value, or an alias with what it stands for."""
    value = getattr(import_module(module), name)
    shown = pprint.pformat(value, width=10_000).replace("typing.", "")
    text = as_rst(docstring_of(module, name).splitlines(), (), links())
    if get_origin(value) is not None:
        head = [f".. py:type:: {module}.{name}", f"   :canonical: {shown}"]
    else:
        head = [f".. py:data:: {module}.{name}", *([f"   :value: {shown}"] if len(shown) <= 100 else [])]
    return [*head, "", *(f"   {line}".rstrip() for line in text), ""]


def room_page(module: str) -> str:
    """The page of a room: what it is for, a table of its names, and each of them."""
    names = sorted(public_modules()[module], key=lambda name: (name.lower(), name))
    described = inspect.getdoc(import_module(module)) or ""
    lines = [module, "=" * len(module), "", *as_rst(described.splitlines(), (), links())]
    lines += [".. list-table::", "   :widths: 30 70", ""]
    for name in names:
        sentence = inline(first_sentence(docstring_of(module, name)), links())
        lines += [f"   * - :py:obj:`~{module}.{name}`", f"     - {sentence}"]
    lines.append("")
    for name in names:
        lines += entry(module, name)
    return "\n".join(lines) + "\n"


def write_reference(folder: Path) -> list[str]:
    """The pages of all rooms in a folder; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for module in public_modules():
        (folder / f"{page_of(module)}.rst").write_text(room_page(module), encoding="utf-8")
    return [page_of(module) for module in public_modules()]
