"""Where data sets come from: a folder that was given, else the hub."""

import os
from pathlib import Path
from typing import Any

from looprop.errors import DataError

HUB = {"sst2": "stanfordnlp/sst2", "imdb": "stanfordnlp/imdb", "mnist": "ylecun/mnist"}
HUB_SPLITS = {"dev": "validation"}
FOLDER_HINT = "give a folder that holds sst2/, imdb/ and mnist/ as `folder` or in the environment variable LOOPROP_DATA"


def data_folder(folder: str | Path | None = None) -> Path | None:
    """The folder given, else that of LOOPROP_DATA, else None."""
    given = folder or os.environ.get("LOOPROP_DATA") or None
    if given is None:
        return None
    path = Path(given).expanduser()
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; {FOLDER_HINT}")
    return path


def hub_rows(name: str, split: str) -> Any:
    """The rows of a data set on the hub through the package `datasets`, or an error that
    names both ways to get them.
    """
    try:
        import datasets

        return datasets.load_dataset(HUB[name], split=HUB_SPLITS.get(split, split))
    except Exception as error:  # whatever goes wrong online, the way out is the same
        reason = (str(error).strip() or "no reason given").splitlines()[0]
        raise DataError(
            f"{name}/{split}: no folder was given and the hub did not give {HUB[name]} ({type(error).__name__}: "
            f"{reason}); "
            f"{FOLDER_HINT}, or go online with the package `datasets` installed"
        ) from error
