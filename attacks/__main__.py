"""Attack looprop.

    python -m attacks                                      ten minutes, all campaigns, fresh seeds
    python -m attacks --only programs texts --count 1000   so many cases of some campaigns
    python -m attacks --only programs --seed 17 --count 1  one case again

A case is right, refused (a LoopropError), wrong, a traceback or a hang. The last three are findings: each is printed
with the command that shows it again, and the exit code is 1.
"""

import argparse
import os
import secrets
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from attacks.catalogue import CAMPAIGNS
from attacks.runner import Tally, run
from attacks.verdict import KINDS

LIMIT = 1_000_000_000
# So many findings are printed whole.
MOST = 20


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m attacks", description=__doc__.split("\n", 1)[0])
    about = "; ".join(f"{c.name}: {c.about}" for c in CAMPAIGNS.values())
    parser.add_argument("--only", nargs="+", choices=list(CAMPAIGNS), default=list(CAMPAIGNS), help=about)
    parser.add_argument("--seed", type=int, help="number of the first case; random if not given")
    parser.add_argument("--count", type=int, help="cases of each campaign; else as many as the time allows")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all campaigns together, without --count")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


class Progress:
    """A line that is written over on a terminal, and now and then anew elsewhere; findings as they come."""

    def __init__(self, name: str) -> None:
        self.name, self.last, self.told = name, 0.0, 0

    def __call__(self, tally: Tally) -> None:
        for number, outcome in tally.findings[self.told : MOST]:
            again = f"python -m attacks --only {self.name} --seed {number} --count 1"
            print(f"\n{outcome.kind}: {outcome.note}\n    {again}", flush=True)
        self.told = len(tally.findings)
        pause = 1.0 if sys.stderr.isatty() else 30.0
        if time.monotonic() - self.last > pause:
            self.last = time.monotonic()
            print(tally.line(), end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def main() -> int:
    """Run the campaigns and say what came of them."""
    asked = arguments()
    seed = secrets.randbelow(LIMIT) if asked.seed is None else asked.seed
    print(f"seed {seed}: {', '.join(asked.only)}", flush=True)
    whole = sum(CAMPAIGNS[name].share for name in asked.only)
    tallies = []
    for name in asked.only:
        campaign = CAMPAIGNS[name]
        seconds = None if asked.count else asked.minutes * 60 * campaign.share / whole
        tally = run(campaign, seed, count=asked.count, seconds=seconds, processes=asked.processes, told=Progress(name))
        tallies.append(tally)
        if len(tally.findings) > MOST:
            numbers = " ".join(str(number) for number, _ in tally.findings[MOST : 3 * MOST])
            print(f"\n{len(tally.findings) - MOST} more findings, seeds {numbers}")
        for note in tally.over[:10]:
            print(f"\nrefused although the truth can be told: {note}", flush=True)
    heads = "".join(f"{kind:>11}" for kind in KINDS)
    print(f"\n{'campaign':<10}{'cases':>8}{'tries':>9}{heads}{'time':>11}")
    for tally in tallies:
        print(tally.line())
    return int(any(tally.findings for tally in tallies))


if __name__ == "__main__":
    raise SystemExit(main())
