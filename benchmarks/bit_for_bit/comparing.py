"""What differs between two records, and by how much."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path} . {key}" if path else str(key))
    elif isinstance(value, list) and value:
        yield f"{path} . length", len(value)
        for i, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{i}]")
    else:
        yield path, value


def number(value: Any) -> float | None:
    if isinstance(value, str) and value.startswith("f:"):
        return float.fromhex(value[2:])
    if isinstance(value, str) and re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", value):  # a cell of a table
        return float(value)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def largest_numbers(values: dict[str, Any]) -> dict[str, float]:
    """The largest absolute number of each list, by its path without indices; at least the model's output, since scores
    are differences of outputs and round with them.
    """
    found: dict[str, float] = {}
    outputs = [abs(own) for path, value in values.items() if path.endswith("output") and (own := number(value))]
    least = max((own for own in outputs if math.isfinite(own)), default=0.0)
    for path, value in values.items():
        own = number(value)
        if own is not None and math.isfinite(own):
            place = re.sub(r"\[\d+\]", "", path)
            found[place] = max(found.get(place, least), abs(own))
    return found


def compare(one: str, other: str, ignore: str, limit: int, tolerance: float = 0.0) -> int:
    with open(one, encoding="utf-8") as a, open(other, encoding="utf-8") as b:
        before, after = json.load(a), json.load(b)
    skip = re.compile(ignore) if ignore else None
    differing: dict[str, list[str]] = {}
    largest = compared = tolerated = 0.0
    for key in sorted(before.keys() | after.keys()):
        if skip and skip.search(key):
            continue
        if key not in before or key not in after:
            differing[key] = [f"only in {one if key in before else other}"]
            continue
        first, second = dict(leaves(before[key])), dict(leaves(after[key]))
        compared += len(first)
        if first == second:
            continue
        lines = []
        scales = largest_numbers(first)
        for path in dict.fromkeys((*first, *second)):
            if (skip and skip.search(f"{key} . {path}")) or (
                path in first and path in second and first[path] == second[path]
            ):
                continue
            x, y = first.get(path, "(nothing)"), second.get(path, "(nothing)")
            p, q = number(x), number(y)
            if p is not None and q is not None:
                apart = abs(p - q)
                scale = scales.get(re.sub(r"\[\d+\]", "", path), 0.0)
                if apart <= tolerance * scale:
                    tolerated = max(tolerated, apart / scale)
                    continue
                relative = apart / max(abs(p), abs(q)) if apart else 0.0
                largest = max(largest, relative) if not math.isnan(relative) else math.inf
                lines.append(f"{path}: {p!r} -> {q!r} (by {apart:.3g}, relative {relative:.3g})")
            else:
                lines.append(f"{path}: {str(x)[:300]!r} -> {str(y)[:300]!r}")
        if lines:
            differing[key] = lines
    for key, lines in list(differing.items())[:limit]:
        print(key)
        for line in lines[:6]:
            print(f"    {line}")
        if len(lines) > 6:
            print(f"    and {len(lines) - 6} more")
    if len(differing) > limit:
        print(f"and {len(differing) - limit} more entries: --limit shows them")
    if tolerated:
        print(f"tolerated differences of at most {tolerated:.3g} of the largest number of a list or the output")
    total = sum(not (skip and skip.search(key)) for key in before.keys() | after.keys())
    if differing:
        print(
            f"{len(differing)} of {total} entries differ; the largest relative difference of numbers is {largest:.3g}"
        )
        return 1
    print(f"equal {'but for these' if tolerated else 'bit for bit'}: {total} entries, {int(compared)} values")
    return 0
