"""Packed files, unpacked no further than the limit: a few kilobytes can hold any number of zeros."""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from looprop.errors import DataError
from looprop.limits import UNPACKED_BYTES

# A row of a table counts with so many bytes beside its texts: rows without any cost memory, too.
ROW = 64
# At most so many rows of a Parquet file are unpacked at once.
ROWS_AT_ONCE = 1024


class Unpacked(io.RawIOBase):
    """The bytes of a gzip file, which raises where they become too many."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self.file = gzip.open(path)  # noqa: SIM115 - closed with this

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self.file.readinto(buffer)
        self.count += read
        check_unpacked(self.path, self.count)
        return read

    def close(self) -> None:
        self.file.close()
        super().close()


def check_unpacked(path: Path, count: int) -> None:
    """Raise where a file has unpacked to too much."""
    UNPACKED_BYTES.check(count, f"{path} unpacks to too much", DataError)


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file: of every column that holds single values.

    One value of a dictionary may stand in any number of rows, so that what the file says of its size is no bound. As
    many rows are unpacked at once as stay within the limit even if each is as large as the largest column.
    """
    import pyarrow.parquet
    import pyarrow.types

    with pyarrow.parquet.ParquetFile(path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        chunks = [group.column(j).total_uncompressed_size for group in groups for j in range(group.num_columns)]
        check_unpacked(path, sum(chunks))
        bound = UNPACKED_BYTES.value
        at_once = ROWS_AT_ONCE if bound is None else max(1, min(ROWS_AT_ONCE, bound // max([1, *chunks])))
        flat = [field.name for field in file.schema_arrow if not pyarrow.types.is_nested(field.type)]
        count = 0
        for batch in file.iter_batches(batch_size=at_once, columns=flat):
            for row in batch.to_pylist():
                count += ROW + sum(len(value) for value in row.values() if isinstance(value, str | bytes))
                check_unpacked(path, count)
                yield row
