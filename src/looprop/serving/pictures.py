"""Pictures that a page may ask about: those named on the command line, and those given to the page as bytes."""

import base64
import hashlib
import io
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from looprop.errors import InputError

LARGEST_PICTURE = 4 * 2**20
"""Bytes of a file."""
MOST_PIXELS = 16_000_000
"""A small file can hold more than memory does."""
MOST_SLENDER = 100
"""The longer side by the shorter: a processor that resizes the shorter side makes the other so many times as long."""
FORMATS = ("PNG", "JPEG", "WEBP")
KEPT = 8
"""Pictures given to the page, the latest."""


class Pictures:
    """Pictures by name. Those of the command line stay; of those given to the page the latest do."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        self._given = {name: _checked(_bytes_of(Path(name))) for name in given}
        self._uploaded: OrderedDict[str, bytes] = OrderedDict()

    @property
    def names(self) -> list[str]:
        """The pictures of the command line."""
        return list(self._given)

    def add(self, encoded: Any) -> str:
        """Take a picture from the page, in base64; its name says nothing but which bytes it has."""
        if not isinstance(encoded, str) or len(encoded) > 4 * LARGEST_PICTURE // 3 + 4:
            raise InputError(f"a picture must be base64 of at most {LARGEST_PICTURE:,} bytes")
        try:
            data = base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise InputError("a picture must be base64") from error
        name = f"picture-{hashlib.sha256(_checked(data)).hexdigest()[:12]}"
        self._uploaded[name] = data
        self._uploaded.move_to_end(name)
        while len(self._uploaded) > KEPT:
            self._uploaded.popitem(last=False)
        return name

    def read(self, name: str) -> Any:
        """The picture of a name, in colour."""
        data = self._given.get(name) or self._uploaded.get(name)
        if data is None:
            raise InputError(f"unknown picture {name[:60]!r}: name it on the command line, or give it to the page anew")
        try:
            return _opened(data).convert("RGB")
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises on files that are cut off
            raise InputError("the picture cannot be read: its data are damaged") from error


def _bytes_of(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"{path} is no file: --image takes pictures ({', '.join(FORMATS)})")
    if path.stat().st_size > LARGEST_PICTURE:
        raise InputError(f"{path} has more than {LARGEST_PICTURE:,} bytes")
    return path.read_bytes()


def _checked(data: bytes) -> bytes:
    """Raise for a picture of a size or depth that cannot be shown, of which only the head is read; return the bytes."""
    picture = _opened(data)
    width, height = picture.size
    if width * height > MOST_PIXELS:
        raise InputError(f"a picture may have {MOST_PIXELS:,} pixels, this one has {width:,} x {height:,}")
    if max(width, height) > MOST_SLENDER * min(width, height):
        raise InputError(f"a picture may be {MOST_SLENDER} times as long as wide, this one has {width:,} x {height:,}")
    if picture.mode.startswith(("I", "F")):  # in colour nearly all of it would be white
        raise InputError("a picture of 16 bits a pixel loses its shades: save it with 8 bits")
    return data


def _opened(data: bytes) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"this is no picture that can be read: {', '.join(FORMATS)}") from error
