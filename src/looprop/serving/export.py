"""A page of its own from what the explorer showed: it needs no server, and still strikes out single features."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from looprop.errors import InputError

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
FIELDS = {"about": dict, "panels": list}


def standalone_page(data: Mapping[str, Any]) -> str:
    """The explorer's page with its style, script and data inside."""
    if set(data) != set(FIELDS) or any(not isinstance(data[name], kind) for name, kind in FIELDS.items()):
        raise InputError(f"a page is made of {' and '.join(FIELDS)}")
    page = _asset("explorer.html")
    page = page.replace("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">', 1)
    page = page.replace('<link rel="stylesheet" href="explorer.css">', f"<style>\n{_asset('explorer.css')}</style>", 1)
    stored = f'<script type="application/json" id="stored">{as_script(data)}</script>'
    inside = f"{stored}\n<script>\n{_asset('explorer.js')}</script>"
    return page.replace('<script src="explorer.js"></script>', inside, 1)


def as_script(data: Any) -> str:
    """JSON that nothing in it can end, or be taken for markup.

    >>> as_script({"a": "</script><!--"})
    '{"a": "\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, allow_nan=False)  # everything outside ASCII is escaped
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files("looprop.serving").joinpath("assets", name).read_text(encoding="utf-8")
