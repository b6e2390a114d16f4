"""Sequences of changes, with their findings by class; or some steps of one sequence.

python -m attacks.changes --seed 0 --count 1000
python -m attacks.changes 17 0 2 5            steps 0, 2 and 5 of sequence 17
"""

import argparse
import os
import warnings
from collections import Counter, defaultdict

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from attacks.__main__ import Progress
from attacks.catalogue import CAMPAIGNS
from attacks.changes.campaign import played, prepare
from attacks.changes.sequence import steps
from attacks.changes.worlds import family
from attacks.runner import Tally, run


def main() -> int:
    """Run sequences, or steps of one."""
    parser = argparse.ArgumentParser(prog="python -m attacks.changes", description=__doc__.split("\n", 1)[0])
    parser.add_argument("numbers", type=int, nargs="*", help="a sequence and, if not all, its steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    if asked.numbers:
        return _shown(asked.numbers[0], asked.numbers[1:])
    campaign = CAMPAIGNS["changes"]
    line, shown = Progress(), set[int]()

    def told(tally: Tally) -> None:
        line(tally)
        for seed, outcome in tally.findings:
            if seed not in shown:
                shown.add(seed)
                print(f"{outcome.kind} in sequence {seed}: {outcome.note.split(' | ')[0]}", flush=True)

    tally = run(campaign, asked.seed, count=asked.count, seconds=None, processes=asked.processes, told=told)
    print(tally.line())
    print(f"{sum(tally.counts.values()) / tally.seconds:.2f} sequences a second")
    groups: dict[str, list[list[str]]] = defaultdict(list)
    for seed, outcome in tally.findings:
        note = outcome.note.split(" | ")
        parts = note if len(note) == 3 else [outcome.kind, outcome.note, f"python -m attacks.changes {seed}"]
        groups[f"{outcome.kind}: {parts[0].split(' after ')[0]}"].append(parts)
    for said in tally.over:
        parts = said.split(" | ")
        groups[f"refused although the truth can be told: {parts[0].split(' after ')[0]}"].append(parts)
    for group, found in sorted(groups.items(), key=lambda one: (one[0].split(":")[0], -len(one[1]))):
        after = Counter(parts[0].partition(" after ")[2] for parts in found)
        _, why, command = min(found, key=lambda parts: len(parts[2].split()))
        print(f"\n{len(found)} x {group} after " + "; ".join(f"{name} ({n})" for name, n in after.most_common(40)))
        print(f"    {why}\n    {command}")
    return int(bool(tally.findings))


def _shown(seed: int, numbers: list[int]) -> int:
    parts = steps(seed)
    chosen = [parts[n] for n in numbers] if numbers else parts
    print(f"{family(seed)}:")
    warnings.simplefilter("ignore")
    prepare()
    verdicts = {at: (kind, why) for at, kind, why in played(seed, chosen)}
    for at, step in enumerate(chosen):
        print(f"  {step}", *(f"\n    {kind}: {why}" for kind, why in [verdicts[at]]) if at in verdicts else ())
    return int(any(kind in ("wrong", "traceback", "hang") for kind, _ in verdicts.values()))


if __name__ == "__main__":
    raise SystemExit(main())
