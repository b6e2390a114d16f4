"""What all results do: to plain data and back, to files by their ending, to pandas."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from looprop.files import read_json
from looprop.result.codec import from_data, to_data
from looprop.result.writers import Record, columns_of, write

if TYPE_CHECKING:
    import pandas


class Result:
    """A dataclass that is saved under the name and version of its schema.

    DERIVED: entries of the plain data that are written for readers and computed anew when they are read.
    """

    SCHEMA: ClassVar[str]
    VERSION: ClassVar[int] = 1
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the name and version of the schema; NaN becomes None."""
        return to_data(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **apart: Any) -> Self:
        """The inverse of `to_dict`; anything else raises a DataError that says what is wrong. apart: the fields that
        are not in the plain data.
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
