"""What the bench is asked to show, read off its JSON: each target with the worst case that was measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

Row = Mapping[str, Any]
PLAIN = ("forward pass", "forward + gradient", "plain loop over masks")


@dataclass(frozen=True)
class Target:
    """A figure and its bar. higher: whether it must be at least the bar, or at most. where: the case in which it was
    worst.

    cases: how many there are. median: over them.
    """

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


def targets(result: Mapping[str, Any]) -> list[Target]:
    """As far as their sections were run."""
    sections = {
        name: [row for row in section["rows"] if "error" not in row] for name, section in result["sections"].items()
    }
    found: list[Target | None] = []
    if "agreement" in sections:
        barred = [row for row in sections["agreement"] if row["bar"] is not None]
        worst = max(barred, key=lambda row: row["difference"], default=None)
        if worst:
            what = "agreement with peers: largest relative difference"
            found.append(Target(what, worst["bar"], worst["difference"], worst["peer"], False, len(barred)))
    speed = sections.get("speed", [])
    found.append(_worst("AttnLRP: CPU time over forward + gradient", 1.15, _against_gradient(speed), max, False))
    found.append(
        _worst("leave-one-out: CPU time of the quickest peer over ours", 1.0, _against_peers(speed, "loo"), min, True)
    )
    found.append(
        _worst("curves: CPU time of the quickest peer over ours", 1.8, _against_peers(speed, "curves"), min, True)
    )
    for row in sections.get("evaluation", []):
        found.append(
            Target("whole evaluation: CPU time of the script over ours", row["bar"], row["ratio"], row["data"])
        )
    return [target for target in found if target is not None]


def _cells(rows: list[Row], group: str) -> dict[tuple[str, int, int], list[Row]]:
    """Rows that took turns with each other."""
    cells: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        if row["group"] == group and "ratio" in row:
            cells.setdefault((row["model"], row["tokens"], row["batch"]), []).append(row)
    return cells


def _against_gradient(rows: list[Row]) -> dict[str, float]:
    found = {}
    for (model, tokens, batch), own in _cells(rows, "explanation").items():
        ratios = {row["job"]: row["ratio"] for row in own if row["side"] == "looprop"}
        if {"AttnLRP", "forward + gradient"} <= ratios.keys():
            found[f"{model}, {tokens} tokens, batch {batch}"] = ratios["AttnLRP"] / ratios["forward + gradient"]
    return found


def _against_peers(rows: list[Row], group: str) -> dict[str, float]:
    found = {}
    for (model, tokens, _), own in _cells(rows, group).items():
        ours = [row["ratio"] for row in own if row["side"] == "looprop" and row["job"] not in PLAIN]
        peers = {row["side"]: row["ratio"] for row in own if row["side"] != "looprop"}
        if ours and peers:
            quickest = min(peers, key=lambda side: peers[side])
            found[f"{model}, {tokens} tokens, {quickest}"] = peers[quickest] / ours[0]
    return found


def _worst(what: str, bar: float, found: dict[str, float], choose: Callable[..., str], higher: bool) -> Target | None:
    if not found:
        return None
    where = choose(found, key=lambda name: found[name])
    return Target(what, bar, found[where], where, higher, len(found), median(found.values()))
