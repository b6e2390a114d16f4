"""Our docstrings as reStructuredText: sentences, formulas, `name: what it is` of parameters and fields, examples.

We write docstrings for people who read code: code in single backticks, parameters one after the other. Here each
paragraph of parameters becomes a list, and whatever reStructuredText would take for a sign of its own is escaped.
"""

import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

DRAWN = set("├└│")
SIGNS = re.compile(r"([\\*|_])")


def escaped(text: str) -> str:
    return SIGNS.sub(r"\\\1", text)


def known_names(value: Any) -> set[str]:
    """The names that a docstring of this function or class may describe: its parameters, fields and attributes."""
    try:
        found = set(inspect.signature(value).parameters)
    except (TypeError, ValueError):  # nothing that can be called, or written in C
        found = set()
    if inspect.isclass(value):
        found |= set(dir(value)).union(*(getattr(base, "__annotations__", ()) for base in value.__mro__))
    return found - {"self"}


def inline(text: str, links: Mapping[str, str]) -> str:
    r"""Running text: code in backticks, with a link where it is a public name; all else is taken literally.

    >>> inline("at most `n_max` of `Plan`s, |f| * 2", {"Plan": "looprop.Plan"})
    'at most ``n_max`` of :py:obj:`~looprop.Plan`\\ s, \\|f\\| \\* 2'
    """
    parts = []
    pieces = text.split("`")
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            parts.append(escaped(piece))
        elif piece:
            before = "\\ " if parts and parts[-1][-1:].isalnum() else ""
            after = "\\ " if pieces[place + 1 :] and pieces[place + 1][:1].isalnum() else ""
            code = f":py:obj:`~{links[piece]}`" if piece in links else f"``{piece}``"
            parts.append(before + code + after)
    return "".join(parts)


def entries(paragraph: str, known: Collection[str]) -> list[tuple[str, str]]:
    """The parameters that a paragraph describes, with what it says of each; none if it is no such paragraph.

    >>> entries("a: the first. b, c: the others; note: no name", {"a", "b", "c"})
    [('a', 'the first.'), ('b, c', 'the others; note: no name')]
    >>> entries("Note: b: is none", {"b"})
    []
    """
    if not known:
        return []
    name = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    start = re.compile(rf"(?:^|(?<=[.;?)\]]\s))((?:{name})(?:(?:, | and )(?:{name}))*): ", re.MULTILINE)
    found = list(start.finditer(paragraph))
    if not found or found[0].start():
        return []
    ends = [match.start() for match in found[1:]] + [len(paragraph)]
    texts = (paragraph[match.end() : end] for match, end in zip(found, ends, strict=True))
    return [(match[1], " ".join(text.split())) for match, text in zip(found, texts, strict=True)]


def blocks(lines: list[str]) -> Iterator[list[str]]:
    """The paragraphs of a docstring."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def as_rst(lines: list[str], known: Collection[str], links: Mapping[str, str]) -> list[str]:
    """A docstring's lines as reStructuredText."""
    found: list[str] = []
    described = False
    for block in blocks(lines):
        parameters = entries("\n".join(block), known)
        if block[0].startswith(">>> "):
            found += block
        elif block[0].startswith("    ") or DRAWN & set("".join(block)):
            found += ["::", "", *(line if block[0].startswith("    ") else f"    {line}" for line in block)]
        elif parameters:
            # One list, also where a blank line parts some parameters from others.
            found = found[:-1] if described else [*found, ":Parameters:"]
            for names, text in parameters:
                terms = ", ".join(f"**{escaped(name)}**" for name in re.split(r", | and ", names))
                found.append(f"    * {terms}: {inline(text, links)}")
        else:
            found += inline("\n".join(block), links).split("\n")
        described = bool(parameters)
        found.append("")
    return found
