"""3. Growth: cost against length, layers and number of examples, with the fitted exponents."""

from pathlib import Path

import numpy as np

from benchmarks import cases
from benchmarks.sections import Row, Sizes
from benchmarks.team import OURS, SideError, Team, Turn

SMALL = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
VARIANTS = 8


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log(seconds) over log(size): cost ~ size^exponent.

    >>> round(exponent([1, 2, 4], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """Rows per size, and one row per curve with its exponent."""
    cases.embedded_model()
    rows: list[Row] = []
    model = cases.bert({**SMALL, "num_hidden_layers": 4}, name="growth", positions=1024)
    for tokens in sizes.growth_lengths:
        rows += _point(team, sizes, cases.random_texts(model, tokens), "tokens", tokens)
    team.forget()
    for layers in sizes.growth_layers:
        deep = cases.bert({**SMALL, "num_hidden_layers": layers}, name=f"growth-{layers}", positions=64)
        rows += _point(team, sizes, cases.random_texts(deep, 64), "layers", layers)
        team.forget()
    return [*rows, *_fits(rows), *_examples(team, sizes)]


def _point(team: Team, sizes: Sizes, case: Path, against: str, size: int) -> list[Row]:
    turns = [
        Turn(OURS, "forward", case, "forward pass"),
        Turn(OURS, "explain", case, "AttnLRP", {"method": "attnlrp"}),
        Turn("lxt_efficient", "attnlrp", case, "AttnLRP, efficient"),
        Turn(OURS, "loo", case, "LOO, per variant", {"count": VARIANTS}),
        Turn(
            "captum",
            "loo",
            case,
            "FeatureAblation, per variant",
            {"count": VARIANTS, "batch": max(1, min(8, 2048 // size))},
        ),
    ]
    found = team.take_turns(turns, repeats=max(3, sizes.repeats - 2), seconds=sizes.seconds / 4, memory=True)
    return [{"group": "growth", "against": against, "size": size, **row} for row in found]


def _fits(rows: list[Row]) -> list[Row]:
    """Over all sizes, and over the upper half, where what does not grow has lost its weight."""
    fits = []
    for against in ("tokens", "layers"):
        names = dict.fromkeys((row["side"], row["job"]) for row in rows if row["against"] == against)
        for side, job in names:
            own = [
                row
                for row in rows
                if (row["against"], row["side"], row["job"]) == (against, side, job) and "cpu" in row
            ]
            if len(own) < 2:
                continue
            points, seconds = [row["size"] for row in own], [row["cpu"] for row in own]
            upper = len(own) // 2 if len(own) > 3 else 0
            both = {"exponent": exponent(points, seconds), "upper_exponent": exponent(points[upper:], seconds[upper:])}
            fits.append(
                {
                    "group": "exponent",
                    "against": against,
                    "side": side,
                    "job": job,
                    "from": points[0],
                    "to": points[-1],
                    **both,
                }
            )
    return fits


def _examples(team: Team, sizes: Sizes) -> list[Row]:
    """One cheap method on very many texts of a tiny model: time per text, and what memory grows by."""
    tiny = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "num_hidden_layers": 2}
    case = cases.random_texts(cases.bert(tiny, name="tiny", positions=64), 8, 32)
    rows: list[Row] = []
    for count in sizes.examples:
        row: Row = {
            "group": "examples",
            "against": "examples",
            "size": count,
            "side": OURS,
            "job": "evaluate, gradient times input",
        }
        try:
            side = team.side(OURS)
            number, _ = side.prepare("examples", case, count=count, method="grad-x-input")
            if not rows:
                side.ask(do="run", id=number, calls=1)
            rows.append({**row, **side.ask(do="memory", id=number)})
        except SideError as error:
            rows.append({**row, "error": str(error)})
    team.forget()
    return rows
