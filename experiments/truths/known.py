"""References that were computed before: a file of JSON lines, one example each.

Of each: `text`, `target`, `groups` (the positions of every feature), `stays` (which features always stay), `shapley`
with its standard `errors`, `loo`, `output` = f(everything) and `nothing` = f(what stays). `python -m
benchmarks.shapley_references` writes such files.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import DataError, InputError
from looprop.evaluation.references import check_values
from looprop.methods.parts.players import Players

Floats = NDArray[np.float64]
FIELDS = ("text", "target", "groups", "stays", "shapley", "errors", "loo", "output", "nothing", "evaluations")


@dataclass(frozen=True, eq=False)
class References:
    """Both references of one example, of those features that play. error: the largest standard error of the Shapley
    values. cost: of these, in forward passes.
    """

    loo: Floats
    shapley: Floats
    error: float
    nothing: float
    cost: float


def read_known(path: Path) -> dict[str, Mapping[str, Any]]:
    """The lines of a file by their texts."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read references from {path}: {error}") from error
    found: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        if not isinstance(row, dict) or (missing := [name for name in FIELDS if name not in row]):
            raise DataError(
                f"{path}, line {number}: no line of references: {missing if isinstance(row, dict) else line[:60]}"
            )
        found[row["text"]] = row
    return found


def taken_over(known: Mapping[str, Any], players: Players) -> References:
    """Known references as those of this game; raises unless they are: same features, same target, same values where
    everything is there and where nothing is, and leave-one-out again at the largest.
    """
    subject = players.value.subject
    of_known = {tuple(known["groups"][i]): i for i in range(len(known["groups"])) if i not in set(known["stays"])}
    own = [tuple(subject.features[i]) for i in players.players]
    if set(of_known) != set(own) or str(_plain(known["target"])) != str(_plain(subject.target.key)):
        raise InputError(
            f"the known references are of {len(of_known)} features and target {known['target']}, here are {len(own)} "
            f"and target {subject.target.key}"
        )
    order = [of_known[group] for group in own]
    loo, shapley, errors = (np.array(known[name], dtype=float)[order] for name in ("loo", "shapley", "errors"))
    without = np.ones(len(own), dtype=bool)
    without[int(np.abs(loo).argmax())] = False
    nothing, less = players(np.stack([np.zeros(len(own), dtype=bool), without]))
    found = [subject.output, nothing, subject.output - less, subject.output - nothing]
    wanted = [known["output"], known["nothing"], loo[~without][0], shapley.sum()]
    check_values(found, wanted, "references are", float(np.abs(shapley).sum()))
    return References(loo, shapley, float(errors.max()), float(known["nothing"]), float(known["evaluations"]))


def _plain(target: Any) -> Any:
    return tuple(target) if isinstance(target, list | tuple) else target
