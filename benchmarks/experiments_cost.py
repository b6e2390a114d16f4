"""What the layer-wise study costs beside the baselines: 18 plans on 6 layers share leave-one-out and the values of the
curves.

    python -m benchmarks.experiments_cost            # 60 sentences of SST-2 dev, embedded model; needs LOOPROP_DATA

CPU time of each whole run, in one process and in turns of 20 sentences. The bar: `layers` costs less than 4 times
`baselines`.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.common import RESULTS, machine, write_json
from looprop.study import reproduce

BAR = 4.0
TURNS = 3


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write JSON; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--data", default="sst2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS / "experiments_cost.json")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    cpu = {"baselines": 0.0, "layers": 0.0}
    # Another seed draws other sentences; both experiments get the same ones in each turn.
    for seed in range(TURNS):
        for experiment in cpu:
            with tempfile.TemporaryDirectory() as folder:
                start = time.process_time()
                reproduce(
                    experiment,
                    data=given.data,
                    limit=given.limit // TURNS,
                    seed=seed,
                    out=Path(folder) / "run",
                    progress=False,
                )
                cpu[experiment] += time.process_time() - start
    ratio = cpu["layers"] / cpu["baselines"]
    print(
        f"layers {cpu['layers']:.1f} s, baselines {cpu['baselines']:.1f} s of CPU time on {given.limit} sentences: "
        f"{ratio:.2f} times"
    )
    write_json(given.output, {"bar": BAR, "sentences": given.limit, "cpu": cpu, "ratio": ratio, **machine()})
    return int(ratio >= BAR)


if __name__ == "__main__":
    sys.exit(main())
