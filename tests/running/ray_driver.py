"""A driver in a process of its own: `python ray_driver.py ADDRESS MODEL RUN LOGS COUNT SECONDS`."""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from evaluation.tiny import many_tasks
from looprop.models.loading import load_adapter
from looprop.running.engines import get_engine
from looprop.running.missing import run_missing
from looprop.running.store import open_store
from running.slow_work import slow_work


def main() -> None:
    """Work through some tasks on a cluster."""
    address, model, run, logs, count, seconds = sys.argv[1:]
    work = partial(slow_work, load_adapter(model), folder=Path(logs), seconds=float(seconds))
    with open_store(run, {"test": "ray"}) as store:
        run_missing(store, many_tasks(int(count)), work, engine=get_engine("ray", address=address), progress=False)
        store.finish()


if __name__ == "__main__":
    main()
