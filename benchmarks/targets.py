"""What the bench is asked to show, read off its JSON: each target with the worst case that was measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

Row = Mapping[str, Any]
PLAIN = ("forward pass", "forward + gradient", "plain loop over masks")
RELEVANCE = ("AttnLRP", "CP-LRP")
GRADIENT = "forward + gradient"


@dataclass(frozen=True)
class Target:
    """A figure and its bar. key: its name in this program. higher: whether it must be at least the bar, or at most.
    where: the case in which it was worst.

    cases: how many there are. median: over them.
    """

    key: str
    what: str
    bar: float
    value: float
    where: str
    higher: bool = True
    cases: int = 1
    median: float | None = None

    @property
    def met(self) -> bool:
        """Whether the worst case is within the bar."""
        return self.value >= self.bar if self.higher else self.value <= self.bar


def targets(result: Mapping[str, Any], start_up: Mapping[str, Any] | None = None) -> list[Target]:
    """As far as their sections were run. start_up: what benchmarks/start_up.py found."""
    sections = {
        name: [row for row in section["rows"] if "error" not in row] for name, section in result["sections"].items()
    }
    speed, many, prompts = (sections.get(name, []) for name in ("speed", "many_texts", "prompts"))
    loo = {**against_peers(speed, "loo"), **against_peers(prompts, "prompt"), **against_peers(prompts, "context")}
    found: list[Target | None] = [_agreement(sections.get("agreement", []))]
    for method in RELEVANCE:
        what = f"{method}: CPU time over forward + gradient"
        found.append(_most(method.lower(), what, 1.10, against_gradient(speed, method)))
    found.append(_most("memory", "AttnLRP and CP-LRP: peak memory over forward + gradient", 1.0, memory(speed)))
    found.append(_most("ig", "integrated gradients: CPU time of a step over captum's", 1.0, against_captum(speed)))
    found.append(_least("loo", "leave-one-out: CPU time of the quickest peer over ours", 1.0, loo))
    set_of = "leave-one-out of 64 texts: CPU time of the quickest peer over ours"
    found.append(_least("set", set_of, 1.3, against_peers(many, "set")))
    curves = "curves: CPU time of the quickest peer over ours"
    found.append(_least("curves", curves, 1.8, against_peers(speed, "curves")))
    for row in sections.get("evaluation", []):
        what = "whole evaluation: CPU time of the script over ours"
        found.append(Target("evaluation", what, row["bar"], row["ratio"], row["data"]))
    return [target for target in found if target is not None] + (_start(start_up) if start_up else [])


def _agreement(rows: list[Row]) -> Target | None:
    barred = [row for row in rows if row["bar"] is not None]
    worst = max(barred, key=lambda row: row["difference"], default=None)
    if worst is None:
        return None
    what = "agreement with peers: largest relative difference"
    return Target("agreement", what, worst["bar"], worst["difference"], worst["peer"], False, len(barred))


def _start(found: Mapping[str, Any]) -> list[Target]:
    starts = {name: of["cpu"] for name, of in found["starts"].items() if name.startswith("explain")}
    slowest = max(starts, key=lambda name: starts[name])
    what, bars = "`looprop explain` from start to end: seconds of CPU time", found["bars"]
    busy = "the command line's leave-one-out beside a busy core: wall time over that on an idle machine"
    return [
        Target("start", what, bars["start"], starts[slowest], slowest, False, len(starts)),
        Target("busy", busy, bars["busy"], found["loo"]["ratio"], "one process that never rests", False),
    ]


def cells(rows: list[Row], group: str) -> dict[tuple[str, int, int], list[Row]]:
    """Rows that took turns with each other."""
    found: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        if row["group"] == group and "ratio" in row:
            found.setdefault((row["model"], row["tokens"], row["batch"]), []).append(row)
    return found


def named(model: str, tokens: int, batch: int) -> str:
    """A cell in words."""
    return f"{model}, {tokens} tokens" + (f", batch {batch}" if batch > 1 else "")


def _ours(rows: list[Row], what: str = "ratio") -> dict[str, float]:
    return {row["job"]: row[what] for row in rows if row["side"] == "looprop" and what in row}


def against_gradient(rows: list[Row], method: str) -> dict[str, float]:
    """Our CPU time over that of a forward pass with its gradient, by cell."""
    found = {}
    for cell, own in cells(rows, "explanation").items():
        ratios = _ours(own)
        if {method, GRADIENT} <= ratios.keys():
            found[named(*cell)] = ratios[method] / ratios[GRADIENT]
    return found


def memory(rows: list[Row]) -> dict[str, float]:
    """Our peak memory over that of a forward pass with its gradient, both with the weights, by method and cell."""
    found = {}
    for cell, own in cells(rows, "explanation").items():
        ratios = _ours(own, "memory_ratio")
        for method in RELEVANCE:
            if {method, GRADIENT} <= ratios.keys():
                found[f"{method}, {named(*cell)}"] = ratios[method] / ratios[GRADIENT]
    return found


def against_captum(rows: list[Row]) -> dict[str, float]:
    """CPU time of a step of our integrated gradients over captum's, by cell."""
    found = {}
    for cell, own in cells(rows, "explanation").items():
        ours = _ours(own).get("IG, per step")
        theirs = [row["ratio"] for row in own if row["side"] == "captum"]
        if ours and theirs:
            found[named(*cell)] = ours / theirs[0]
    return found


def against_peers(rows: list[Row], group: str) -> dict[str, float]:
    """CPU time of the quickest peer over ours, by cell."""
    found = {}
    for cell, own in cells(rows, group).items():
        ours = [ratio for job, ratio in _ours(own).items() if job not in PLAIN]
        peers = {row["side"]: row["ratio"] for row in own if row["side"] != "looprop"}
        if ours and peers:
            quickest = min(peers, key=lambda side: peers[side])
            found[f"{named(*cell)}, {quickest}"] = peers[quickest] / ours[0]
    return found


def _worst(choose: Callable[..., str], higher: bool) -> Callable[[str, str, float, dict[str, float]], Target | None]:
    def target(key: str, what: str, bar: float, found: dict[str, float]) -> Target | None:
        if not found:
            return None
        where = choose(found, key=lambda name: found[name])
        return Target(key, what, bar, found[where], where, higher, len(found), median(found.values()))

    return target


_least, _most = _worst(min, True), _worst(max, False)
