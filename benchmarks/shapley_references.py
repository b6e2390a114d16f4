"""Shapley values that others are measured by, computed once and kept: results/shapley/NAME.jsonl.

One line per example: its id, text and target, the features by name and position, which of them always stay, `shapley`
with `errors` (standard errors; none where it is exact), `alone` and `loo` of the same features, the number of
evaluations, `output` = f(everything) and `nothing` = f(what stays). `read_references` reads them.

    python -m benchmarks.shapley_references sst2 mpnet prompts      # goes on where it was stopped

sst2: 200 sentences of SST-2 dev, the embedded model, tokens, errors below 2 % of the largest score. mpnet: 60 of them,
errors below 10 %. prompts: 30 of them as the remedy study puts them to SmolLM2, errors below 10 %; the words of the
review are what counts, the rest of the prompt stays.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import looprop
from looprop.games.values import first_marginals, last_marginals
from looprop.inputs import load_dataset
from looprop.methods.parts.players import players_of
from looprop.methods.shapley import Shapley
from looprop.models.subject import Subject
from looprop.study import load_spec

FOLDER = Path(__file__).parents[1] / "results" / "shapley"


@dataclass(frozen=True)
class Bench:
    """What is measured: a model on some texts. keep: numbers of the features that stay, by example."""

    model: str | None
    count: int
    tolerance: float
    samples: int = 100  # of 10 features and more not all sets are asked, where each is dear
    prompts: bool = False

    def load(self) -> looprop.Workbench:
        """The model."""
        return looprop.load() if self.model is None else looprop.load(self.model)

    def subjects(
        self, bench: looprop.Workbench, split: str = "dev", seed: int = 0, count: int | None = None
    ) -> Iterator[tuple[str, Subject, Any]]:
        """Examples by id, and what of them always stays."""
        form = "sentences" if split == "train" else "glue"  # GLUE's training texts are phrases
        for example in load_dataset("sst2", split=split, limit=count or self.count, seed=seed, form=form):
            if self.prompts:
                yield (f"prompt:{example.id}", *in_prompt(bench, example.text))
            else:
                yield example.id, bench.subject(example.text), "special"


BENCHES = {
    "sst2": Bench(None, 200, 0.02, samples=1000),
    "mpnet": Bench("mpnet-sst2", 60, 0.1),
    "prompts": Bench("smollm2-135m", 30, 0.1, prompts=True),
}


def in_prompt(bench: looprop.Workbench, text: str) -> tuple[Subject, list[int]]:
    """A review in the prompt of the remedy study, by words; what stands around the review stays."""
    own = load_spec("remedy").data["sst2-prompts"]
    before, after = own.template.split("{text}")
    subject = bench.subject(before + text + after, target=own.target, features="word")
    offsets = subject.encoded.offsets
    stays = []
    for number, group in enumerate(subject.features):
        spans = [span for i in group if (span := offsets[i]) is not None]
        inside = bool(spans) and spans[0][1] > len(before) and spans[-1][0] < len(before) + len(text)
        stays += [] if inside else [number]
    return subject, stays


def read_references(name: str) -> dict[str, dict[str, Any]]:
    """What was computed, by example."""
    path = FOLDER / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {row["example"]: row for row in map(json.loads, lines)}


def reference(identifier: str, subject: Subject, keep: Any, own: Bench) -> dict[str, Any]:
    """One line."""
    (found,) = Shapley(tolerance=own.tolerance, samples=own.samples, keep=keep).attribute([subject])
    players = players_of(subject, keep=keep)
    count = len(players)
    names, groups = subject.encoded.names, subject.features
    numbers = {
        "shapley": found.scores,
        "errors": np.asarray(found.details.get("errors", np.zeros(len(groups)))),
        "alone": players.spread(first_marginals(players, count)),
        "loo": players.spread(last_marginals(players, count)),
    }
    return {
        "example": identifier,
        "text": subject.encoded.text,
        "target": subject.target.key,
        "features": [" ".join(names[i] for i in group) for group in groups],
        "groups": [list(group) for group in groups],
        "stays": players.stays.tolist(),
        "exact": found.details["exact"],
        "evaluations": int(found.cost),
        "output": subject.output,
        "nothing": float(players(np.zeros((1, count), dtype=bool))[0]),
        **{key: np.round(values, 6).tolist() for key, values in numbers.items()},
    }


def work(name: str, count: int | None) -> Iterator[str]:
    """Adds one line at a time."""
    own, known = BENCHES[name], read_references(name)
    for number, (identifier, subject, keep) in enumerate(own.subjects(own.load())):
        if identifier in known or number >= (count or own.count):
            continue
        row = reference(identifier, subject, keep, own)
        with (FOLDER / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        error = max(row["errors"]) / max(map(abs, row["shapley"]))
        print(name, number, len(row["groups"]) - len(row["stays"]), row["evaluations"], f"{error:.3f}", flush=True)
        yield identifier


def main(arguments: list[str] | None = None) -> int:
    """Compute what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=list(BENCHES))
    parser.add_argument("--count", type=int, help="fewer examples")
    given = parser.parse_args(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    left = [work(name, given.count) for name in given.names]
    while left:  # in turns: a run that is stopped has some of each
        left = [turns for turns in left if next(turns, None) is not None]
    return 0


if __name__ == "__main__":
    sys.exit(main())
