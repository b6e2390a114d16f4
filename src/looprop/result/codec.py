"""Dataclasses as plain data and back: the annotations of a class decide what is written, what is accepted, and the JSON
schema. NaN is written as null.

Why not a library: msgspec takes no null for a number and cannot refuse unknown fields of a dataclass; cattrs makes no
JSON schema. Both would need hooks of about this length.
"""

import contextlib
import math
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from looprop.errors import DataError, InputError
from looprop.files import check_schema, plain

T = TypeVar("T")
Count = Annotated[int, "at least 0"]
Positive = Annotated[int, "at least 1"]
Vector = Annotated[NDArray[np.float64], "a list"]
Matrix = Annotated[NDArray[np.float64], "a list of lists"]


@dataclass(frozen=True)
class Form:
    """One annotation: in words, as JSON schema, and how a value is read; `read(value, place)` raises a DataError."""

    words: str
    schema: Mapping[str, Any]
    read: Callable[[Any, str], Any]


@dataclass(frozen=True)
class Entry:
    """A field that is written: its name in Python, its form, and whether it must be there."""

    field: str
    form: Form
    required: bool


@cache
def entries(kind: Any) -> dict[str, Entry]:
    """The entries of the plain data of a class, by name."""
    hints, found = get_type_hints(kind, include_extras=True), {}
    names, apart = getattr(kind, "NAMES", {}), getattr(kind, "APART", ())
    for field in fields(kind):
        if field.name not in apart:
            required = field.default is MISSING and field.default_factory is MISSING
            found[names.get(field.name, field.name)] = Entry(field.name, form_of(hints[field.name]), required)
    return found


def to_data(result: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain data, under the name and version of its schema if it has one."""
    kind: Any = type(result)
    head = {"schema": kind.SCHEMA, "version": kind.VERSION} if hasattr(kind, "SCHEMA") else {}
    return head | {name: _plain(getattr(result, entry.field), name) for name, entry in entries(kind).items()}


def _plain(value: Any, name: str) -> Any:
    if is_dataclass(value):
        return to_data(value)
    return [_plain(item, name) for item in value] if isinstance(value, list | tuple) else plain(value, name)


def from_data(kind: type[T], data: Any, place: str = "", **apart: Any) -> T:
    """The inverse of `to_data`; anything else raises a DataError that names the field. place: where the data stand in
    others. apart: those fields that are kept in files of their own.
    """
    made: Any = kind
    called = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
    if hasattr(kind, "SCHEMA"):
        check_schema(data, made.SCHEMA, made.VERSION)
    elif not isinstance(data, Mapping):
        raise DataError(f"the {called} must be an object, got {type(data).__name__}")
    known, besides = entries(made), {"schema", "version", *getattr(kind, "DERIVED", ())}
    if unknown := sorted(str(name) for name in data if name not in known and name not in besides):
        raise DataError(f"unknown in the {called}: {', '.join(map(repr, unknown))}; known: {', '.join(known)}")
    if missing := [name for name, entry in known.items() if entry.required and name not in data]:
        raise DataError(f"missing in the {called}: {', '.join(map(repr, missing))}")
    try:
        read = {entry.field: entry.form.read(data[name], place + name) for name, entry in known.items() if name in data}
        return kind(**read, **apart)
    except FormError as error:
        raise error if place else DataError(f"the {called} is {error}") from None
    except InputError as error:
        raise error if isinstance(error, DataError) else DataError(f"the {called} is not whole: {error}") from error


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a class."""
    known, head = entries(kind), {}
    if hasattr(kind, "SCHEMA"):
        head = {"schema": {"const": kind.SCHEMA}, "version": {"const": kind.VERSION}}
    return {
        "type": "object",
        "properties": head | {name: entry.form.schema for name, entry in known.items()},
        "required": [*head, *(name for name, entry in known.items() if entry.required)],
        "additionalProperties": False,
    }


class FormError(DataError):
    """A value that its annotation does not allow."""

    def __init__(self, place: str, words: str, value: Any) -> None:
        super().__init__(f"not in the form of its schema: {place} must be {words}, got {repr(value)[:60]}")


def form_of(hint: Any) -> Form:
    origin, inside = get_origin(hint), get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if origin is Literal:
        return _single(" or ".join(map(repr, inside)), {"enum": list(inside)}, lambda value: value in inside)
    if origin in (Union, types.UnionType):
        return _union([form_of(one) for one in inside])
    if origin in (list, tuple, Sequence):
        count = len(inside) if origin is tuple and inside[-1] is not ... else None
        return _several(form_of(inside[0]), tuple if origin is tuple else list, count)
    if origin is Mapping:
        return _single("an object", {"type": "object"}, lambda value: isinstance(value, Mapping))
    if isinstance(hint, type) and is_dataclass(hint):
        return Form("an object", schema_of(hint), lambda value, place: from_data(hint, value, f"{place}."))
    raise TypeError(f"no form is known for {hint}")


def _single(
    words: str, schema: Mapping[str, Any], holds: Callable[[Any], bool], made: Callable[[Any], Any] | None = None
) -> Form:
    def read(value: Any, place: str) -> Any:
        if not holds(value):
            raise FormError(place, words, value)
        return value if made is None else made(value)

    return Form(words, schema, read)


def _several(item: Form, made: Callable[[Iterable[Any]], Any], count: int | None = None) -> Form:
    """A list of values of one form, of a fixed length if `count` says so."""
    words = "a list" if count is None else f"a list of {count}"
    length = {} if count is None else {"minItems": count, "maxItems": count}

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, list | tuple) or len(value) != (len(value) if count is None else count):
            raise FormError(place, words, value)
        return made(item.read(one, f"{place}[{i}]") for i, one in enumerate(value))

    return Form(words, {"type": "array", "items": item.schema, **length}, read)


def _union(forms: list[Form]) -> Form:
    null = [form for form in forms if form.words == "null"]
    others = [form for form in forms if form.words != "null"]
    words = " or ".join(form.words for form in others)
    schemas = [form.schema for form in (*null, *others)]
    names = [form.schema.get("type") for form in (*others, *null)]
    flat = [name for own in names for name in (own if isinstance(own, list) else [own])]  # a number may be null itself
    simple = all(schema.keys() == {"type"} for schema in schemas)

    def read(value: Any, place: str) -> Any:
        if value is None and null:
            return None
        if len(others) == 1:
            return others[0].read(value, place)
        for form in others:
            with contextlib.suppress(FormError):
                return form.read(value, place)
        raise FormError(place, words, value)

    return Form(words, {"type": list(dict.fromkeys(flat))} if simple else {"oneOf": schemas}, read)


def _is_whole(value: Any, least: int = -(2**63) + 1) -> bool:
    return type(value) is int and least <= value < 2**63


def _is_number(value: Any) -> bool:
    # JSON as Python reads it has infinity, and whole numbers larger than any float.
    if isinstance(value, float):
        return not math.isinf(value)
    return value is None or (type(value) is int and abs(value) <= sys.float_info.max)


def _array(rows: Iterable[Any]) -> NDArray[np.float64]:
    found = list(rows)
    if len({np.shape(row) for row in found}) > 1:
        raise DataError("the rows of a matrix must have the same length")
    return np.array(found, dtype=np.float64)


_NUMBER = _single("a number", {"type": ["number", "null"]}, _is_number, lambda v: math.nan if v is None else float(v))
SIMPLE: dict[Any, Form] = {
    str: _single("a text", {"type": "string"}, lambda value: isinstance(value, str)),
    bool: _single("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool)),
    int: _single("a whole number", {"type": "integer"}, _is_whole),
    Count: _single("a whole number >= 0", {"type": "integer", "minimum": 0}, lambda value: _is_whole(value, 0)),
    Positive: _single("a whole number >= 1", {"type": "integer", "minimum": 1}, lambda value: _is_whole(value, 1)),
    float: _NUMBER,
    Vector: _several(_NUMBER, _array),
    Matrix: _several(_several(_NUMBER, _array), _array),
    type(None): _single("null", {"type": "null"}, lambda value: value is None),
}
