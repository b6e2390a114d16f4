"""What the maps of an image cost one by one, as `bilinear` computes them, and in blocks, as `readings` does.

The same work on both sides: leave-one-out, integrated gradients and AttnLRP in both orders of a network of RQ1, and
their correlations; no removal curves. A network with random weights, images of noise: neither changes the cost.

    python -m benchmarks.readings_cost

The bar: at most a fifth of the CPU time, the same correlations to 1e-6 (with 2,000 steps on the one side).
"""

import torch
from experiments.readings.measuring import BlockTask, measure_block
from experiments.readings.reading import Reading

from benchmarks.common import RESULTS, machine, take_turns, write_json
from looprop.evaluation.setup import Setup
from looprop.running.parts import Row
from looprop.study.kinds.networks.pairs import LEFT, RIGHT, PairTask, measure_pair
from looprop.study.kinds.networks.training import SIDE

IMAGES = 40
BAR = 1 / 5
SETUP = Setup(("loo", "ig", "attnlrp[epsilon=1e-6]"), ("loo-r", "loo-r-paper"))
EXACT = Setup(("loo", "ig[steps=2000]", "attnlrp[epsilon=1e-6]"), ("loo-r", "loo-r-paper"))


def mean(rows: list[Row], method: str, side: str, column: str) -> float:
    """Over images, of the rows of `bilinear`."""
    values = [row[column] for row in rows if row["method"].startswith(method) and row["network"] == side]
    return sum(values) / len(values)


def largest_difference(rows: list[Row], block: list[Row]) -> float:
    """Between the means of both sides."""
    wanted = {
        "l-r": ("attnlrp", LEFT, "l-r"),
        "kv-first": ("attnlrp", LEFT, "loo-r"),
        "qk-first": ("attnlrp", RIGHT, "loo-r"),
        "ig": ("ig", LEFT, "loo-r"),
    }
    found = {row["pair"]: row for row in block if row["epsilon"] < 1e-3}
    differences = []
    for pair, (method, side, column) in wanted.items():
        differences.append(abs(found[pair]["raw"] - mean(rows, method, side, column)))
        differences.append(abs(found[pair]["sum"] - mean(rows, method, side, f"{column}-paper")))
    return max(differences)


def main() -> None:
    """Measure and write."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    recipe = Reading()
    network, pixels = recipe.network().eval(), torch.rand(IMAGES, SIDE * SIDE)
    tasks = [PairTask(f"seed 0/{i}", image, seed=0) for i, image in enumerate(pixels)]
    block = BlockTask("block", pixels, reading="plain", seed=0)

    def one_by_one(setup: Setup = SETUP) -> list[Row]:
        return [row for task in tasks for row in measure_pair({0: network}, task, setup)]

    def together() -> list[Row]:
        return measure_block({("plain", 0): network}, {"plain": recipe}, block)

    times = take_turns({"one by one": one_by_one, "together": together}, repeats=5)
    result = {
        "what": "CPU seconds per image: leave-one-out, IG and AttnLRP in both orders (together: at two epsilons)",
        "images": IMAGES,
        "machine": machine(),
        "one_by_one": times["one by one"].cpu / IMAGES,
        "together": times["together"].cpu / IMAGES,
        "ratio": times["together"].cpu / times["one by one"].cpu,
        "bar": BAR,
        "largest_difference": largest_difference(one_by_one(EXACT), together()),
    }
    write_json(RESULTS / "readings_cost.json", result)
    print(result)


if __name__ == "__main__":
    main()
