"""What a reader takes away: the explorer as one page that needs no server, and the Python lines that give its numbers.

The page still strikes out what was stored.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from looprop.errors import InputError
from looprop.serving.asked import features_of, target_of
from looprop.serving.requests import Question
from looprop.workbench import Workbench

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
FIELDS = {"about": dict, "panels": list}
SCRIPTS = ("tools.js", "drawing.js", "rows.js", "saving.js", "panel.js", "explorer.js")
"""In the order in which they are read."""


def explorer_page() -> str:
    """The page that a server sends."""
    loaded = "\n".join(f'<script src="{name}"></script>' for name in SCRIPTS)
    return asset("explorer.html").replace("<!-- scripts -->", loaded, 1)


def standalone_page(data: Mapping[str, Any]) -> str:
    """The explorer's page with its style, script and data inside."""
    if set(data) != set(FIELDS) or any(not isinstance(data[name], kind) for name, kind in FIELDS.items()):
        raise InputError(f"a page is made of {' and '.join(FIELDS)}")
    page = asset("explorer.html")
    page = page.replace("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">', 1)
    page = page.replace('<link rel="stylesheet" href="explorer.css">', f"<style>\n{asset('explorer.css')}</style>", 1)
    stored = f'<script type="application/json" id="stored">{as_script(data)}</script>'
    code = "\n".join(asset(name) for name in SCRIPTS)
    return page.replace("<!-- scripts -->", f"{stored}\n<script>\n{code}</script>", 1)


def as_script(data: Any) -> str:
    """JSON that nothing in it can end, or be taken for markup.

    >>> as_script({"a": "</script><!--"})
    '{"a": "\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    try:
        text = json.dumps(data, allow_nan=False)  # everything outside ASCII is escaped
    except ValueError as error:  # JSON has 1e999, which is read as infinity
        raise InputError("a page holds a number that is too large") from error
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """A file of the page."""
    return files("looprop.serving").joinpath("assets", name).read_text(encoding="utf-8")


EMBEDDED = "embedded"
"""The name of the model that comes with the package."""


def python_lines(
    question: Question,
    bench: Workbench,
    methods: Sequence[str],
    struck: Sequence[int] = (),
    *,
    uploaded: bool = False,
    trusted: bool = False,
) -> str:
    """A program that ends with `explanations` and, where something is struck out, with `change`.

    uploaded: the image came from the page, and its file is the reader's. trusted: the model may run its own code.
    """
    loaded = "" if question.model == EMBEDDED else repr(question.model)
    if trusted:
        loaded += ", trust_remote_code=True" if loaded else "trust_remote_code=True"
    imports = ["import looprop"]
    options = [f"features={features_of(question)!r}"]
    if question.image:
        imports.append("from PIL import Image")
        note = "  # the file that was given to the page" if uploaded else ""
        item = [f"item = Image.open({question.image!r}).convert('RGB'){note}"]
    elif question.answer:
        part = f"[{question.part}]" if question.part else ""
        item = [f"item = model.answer({question.text!r}, max_new_tokens={question.answer}){part}"]
    else:
        item = [f"item = {question.text!r}"]
    target = None if question.answer else target_of(bench, question)
    if target is not None:
        options.append(f"target={target!r}")
    given = ", ".join(options)
    names = ", ".join(map(repr, methods))
    lines = [
        f"model = looprop.load({loaded})",
        *item,
        f"explanations = looprop.Explanations(model.explain(item, name, {given}) for name in [{names}])",
    ]
    if struck:
        imports.insert(0, "import numpy as np")
        lines += [
            f"value = model.set_function(item, {given})",
            "keep = np.ones((2, len(explanations[0].features)), dtype=bool)",
            f"keep[1, {sorted(struck)!r}] = False",
            "change = float(np.diff(value(keep))[0])",
        ]
        if question.answer:
            without = ", ".join(map(str, sorted(struck)))
            lines.append(f"print(item.without({without}, features={question.features!r}).text)")
    return "\n".join([*imports, "", *lines, ""])
