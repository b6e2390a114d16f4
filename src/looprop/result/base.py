"""What all results do: to plain data and back, to files by their ending, to pandas."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from looprop.files import check_folder_place, check_place, read_json
from looprop.result.codec import from_data, to_data
from looprop.result.writers import Record, columns_of, endings, write

if TYPE_CHECKING:
    import pandas


class Result:
    """A dataclass that is saved under the name and version of its schema.

    NAMES: of fields that plain data call otherwise. APART: fields that are kept in files of their own. DERIVED: entries
    of the plain data that are written for readers, and computed anew when they are read.
    """

    SCHEMA: ClassVar[str]
    VERSION: ClassVar[int] = 1
    NAMES: ClassVar[Mapping[str, str]] = {}
    APART: ClassVar[tuple[str, ...]] = ()
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the name and version of the schema; NaN becomes None."""
        return to_data(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **apart: Any) -> Self:
        """The inverse of `to_dict`; anything else raises a DataError that says what is wrong. apart: the fields of
        `APART`.
        """
        return from_data(cls, data, **apart)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one file in the format of its ending, all of it or nothing; returns the path. A wrong ending raises an
        InputError that lists those there are.
        """
        return write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote as .json."""
        return cls.from_dict(read_json(path))

    def records(self) -> Sequence[Record]:
        """The rows of its table, as plain values by column: what .csv and .parquet hold."""
        raise NotImplementedError

    def to_pandas(self) -> "pandas.DataFrame":
        """The records as a pandas table; whole numbers of which some are unknown are of type Int64."""
        import pandas

        columns = columns_of(self.records())
        some_unknown = {name for name, values in columns.items() if set(map(type, values)) == {int, type(None)}}
        return pandas.DataFrame(
            {name: pandas.array(v, dtype="Int64") if name in some_unknown else v for name, v in columns.items()}
        )


class FolderResult(Result):
    """A result that is saved as one file, or whole in a folder, which can be loaded again."""

    @classmethod
    def is_one_file(cls, path: str | os.PathLike[str]) -> bool:
        """Is that the name of a single file, and not of a folder?"""
        return Path(path).suffix.lower() in endings(cls)

    @classmethod
    def check_place(cls, path: str | os.PathLike[str]) -> None:
        """Raise now if `save` could not write there later."""
        (check_place if cls.is_one_file(path) else check_folder_place)(path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one file if the name has an ending of one: a page (.html), the rows (.csv, .parquet) or everything else
        (.json). Any other name is a folder, which is made if need be, holds all of it and can be loaded again. Returns
        the path.
        """
        if self.is_one_file(path):
            return super().save(path)
        place = Path(path)
        check_folder_place(place)
        place.mkdir(parents=True, exist_ok=True)
        self.fill(place)
        return place

    def fill(self, folder: Path) -> None:
        """Write everything into a folder."""
        raise NotImplementedError
