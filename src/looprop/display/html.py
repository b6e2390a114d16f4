"""The shell of every page and of notebook output: style, script, header, cards, facts.
Nothing comes from the network.
"""

import html
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from looprop.display.colour import DARK, LIGHT
from looprop.display.data import visible

# The browser itself refuses whatever is not written in the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def escape(text: str) -> str:
    """Text as HTML, safe inside elements and quoted attributes, control and direction characters made visible.

    >>> escape('<script>"&')
    '&lt;script&gt;&quot;&amp;'
    """
    return html.escape(visible(text), quote=True)


@cache
def style() -> str:
    """The style sheet, with the colours of the scale filled in."""
    text = _asset("looprop.css")
    for name, scale in (("light", LIGHT), ("dark", DARK)):
        for part in ("negative", "zero", "positive", "text"):
            text = text.replace(f"@{name}.{part}@", getattr(scale, part))
    return text


@cache
def script() -> str:
    return _asset("looprop.js")


def _asset(name: str) -> str:
    return files("looprop.display").joinpath("assets", name).read_text(encoding="utf-8")


def page(title: str, body: str, *, subtitle: str = "", words: bool = False, footer: str = "") -> str:
    """A whole page. `title`, `subtitle` and `footer` are plain text, `body` is HTML; `words` adds the token/word
    switch.
    """
    switch = word_switch() if words else ""
    below = f'<p class="subtitle">{escape(subtitle)}</p>' if subtitle else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · looprop</title>\n<style>\n{style()}</style>\n</head>\n"
        '<body class="looprop"><main>\n<header><div class="titles"><span '
        f'class="brand">looprop</span><h1>{escape(title)}</h1>{below}</div>'
        f'<div class="controls">{switch}<button type="button" id="theme">Theme</button></div></header>\n'
        f"{body}\n<footer>{escape(footer)}</footer>\n</main>\n<script>\n{script()}</script>\n</body>\n</html>\n"
    )


def fragment(body: str) -> str:
    """Output for a notebook cell: the same look, no script, no effect on anything around it."""
    return f'<div class="looprop fragment"><style>{style()}</style>{body}</div>'


def card(body: str, *, title: str = "") -> str:
    """A section of a page; `title` is plain text, `body` is HTML."""
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    return f'<section class="card">{heading}{body}</section>\n'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Pairs of a name and a value, as plain text."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{items}</dl>' if items else ""


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def word_switch() -> str:
    """Merges the pieces of words; a check box, so that it works without a script."""
    return '<label class="switch"><input type="checkbox" class="word-switch">Whole words</label>'
