"""What a file says of an explanation, checked before it is believed. (docs/schema/explanation.schema.json)"""

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from looprop.errors import DataError
from looprop.explanation_check import Check


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    # Whole numbers in JSON may be larger than any float.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and not (isinstance(value, int) and abs(value) > sys.float_info.max))


def _whole(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)


def _span(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and len(value) == 2 and all(map(_place, value)))


def _place(value: Any) -> bool:
    return value is not None and _whole(value)


def _target(value: Any) -> bool:
    return isinstance(value, str) or _place(value) or (value is not None and _span(value))


def _named(value: Any) -> bool:
    return isinstance(value, Mapping)


def _each(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


# Of every field what it must hold, and how that is checked.
_FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "features": ("a list of texts", _each(_text)),
    "scores": ("one number per feature", _each(_number)),
    "method": ("a text", _text),
    "output": ("a number", _number),
    "target": ("a class, two of them, or a text", _target),
    "label": ("a text", _text),
    "text": ("a text", _text),
    "offsets": ("a list of spans", _each(_span)),
    "special": ("a list of true and false", _each(_flag)),
    "word_ids": ("a list of whole numbers", _each(_whole)),
    "residual": ("a number", _number),
    "cost": ("a number", _number),
    "seconds": ("a number", _number),
    "model": ("a text", _text),
    "options": ("an object", _named),
    "details": ("an object", _named),
    "outside_scale": ("a list of true and false", _each(_flag)),
}


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an explanation as it takes them; a DataError names the one that is not in its form."""
    found = dict(values)
    for name, value in values.items():
        what, holds = _FORMS.get(name, ("", lambda _: True))
        if not holds(value):
            raise DataError(
                f"the explanation is not in the form of its schema: {name} must be {what}, got {repr(value)[:60]}"
            )
    found["scores"] = [_float(score) for score in values["scores"]]
    found["output"] = _float(values["output"])
    found["offsets"] = [None if span is None else (span[0], span[1]) for span in values.get("offsets", [])]
    if values.get("check") is not None:
        found["check"] = Check.from_dict(values["check"], len(values["features"]))
    if isinstance(values["target"], list):
        found["target"] = (values["target"][0], values["target"][1])
    return found


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)
