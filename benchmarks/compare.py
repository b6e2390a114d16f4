"""Whether two runs of the bench say the same: ratios of CPU time within a tolerance."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TOLERANCE = 0.15
NAMES = ("group", "model", "against", "size", "tokens", "batch", "side", "job")


def ratios(result: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every ratio of CPU time by the name of its row; forward passes, whose ratio is 1 by definition, left out."""
    for name, section in result["sections"].items():
        for row in section["rows"]:
            if isinstance(row.get("ratio"), float) and row.get("job") != "forward pass":
                yield " ".join([name, *(str(row[key]) for key in NAMES if key in row)]), row["ratio"]


def compare(first: Mapping[str, Any], second: Mapping[str, Any], tolerance: float = TOLERANCE) -> list[str]:
    """One line per ratio that differs by more than the tolerance, or that only one of the two has."""
    left, right = dict(ratios(first)), dict(ratios(second))
    lines = []
    for name in dict.fromkeys([*left, *right]):
        if name not in left or name not in right:
            lines.append(f"{name}: only in the {'first' if name in left else 'second'}")
        elif abs(left[name] / right[name] - 1) > tolerance:
            lines.append(
                f"{name}: {left[name]:.3f} and {right[name]:.3f}, {100 * abs(left[name] / right[name] - 1):.0f} % apart"
            )
    return lines


def compare_files(first: Path, second: Path) -> int:
    """Prints what differs; 1 if anything does."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in (first, second)]
    lines = compare(*results)
    count = len(dict(ratios(results[0])))
    print(
        "\n".join(lines) or "nothing differs",
        f"{count - len(lines)} of {count} ratios within {TOLERANCE:.0%}",
        sep="\n",
    )
    return int(bool(lines))
