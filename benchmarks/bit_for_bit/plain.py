"""Results as plain data that loses no bit."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any


def without_lines(text: str) -> str:
    """Messages name the file and line of the module that was running, which may be one of looprop's own: neither is
    compared.
    """
    return re.sub(r"\b\w+\.py:\d+", "FILE:LINE", text)


def packed(value: Any) -> Any:
    """Plain data that JSON can hold, floats as "f:" and their hexadecimal form."""
    import numpy as np
    import torch

    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return without_lines(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return "f:" + float(value).hex()
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, torch.Tensor):
        return {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "values": packed(value.detach().double().flatten().tolist()),
        }
    if isinstance(value, np.ndarray):
        return packed(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: packed(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): packed(v) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(packed, value))
    if isinstance(value, (list, tuple)):
        return [packed(v) for v in value]
    return f"<{type(value).__name__}>"


def timeless(value: Any) -> Any:
    """Plain data without what differs from run to run: times, versions and the machine."""
    dropped = {"seconds", "cpu_seconds", "started", "finished", "versions", "hardware"}
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in dropped}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def without_time(result: Any) -> Any:
    """A result whose seconds are 0, so that its pages and files are the same from run to run."""
    if isinstance(result, list):
        return type(result)(map(without_time, result))
    if isinstance(result, Mapping):
        return type(result)({name: without_time(own) for name, own in result.items()})
    changed: dict[str, Any] = {"seconds": 0.0} if hasattr(result, "seconds") else {}
    if hasattr(result, "matrix"):
        changed = {"explanation": without_time(result.explanation)}
    if hasattr(result, "rows") and hasattr(result, "frames"):
        changed["rows"] = [{**row, "seconds": 0.0} for row in result.rows]
        changed["frames"] = {name: without_time(frame) for name, frame in result.frames.items()}
    if isinstance(getattr(result, "about", None), dict):
        changed["about"] = timeless(result.about)
    return dataclasses.replace(result, **changed)


def explained(e: Any) -> dict[str, Any]:
    """An explanation without its time."""
    values = {f.name: getattr(e, f.name) for f in dataclasses.fields(e) if f.name != "seconds"}
    return {**packed(values), "words": packed(e.words().scores)}


def measured(r: Any) -> dict[str, Any]:
    """An evaluation without its times; the summary, and who beats whom."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in r.rows]
    summary = [{k: v for k, v in s.to_dict().items() if k != "seconds"} for s in r.summary]
    more = {"methods": r.methods, "metrics": r.metrics, "title": r.title, "about": r.about, "repr": repr(r)}
    compared = (
        {metric: r.compare(metric) for metric in r.metrics if metric in ("loo-r", "delta")}
        if len(r.methods) <= 12
        else {}
    )
    by_row = {f"{row['example']}, {row['method']}": row for row in rows}
    return packed({**more, "rows": by_row, "summary": {s["method"]: s for s in summary}, "compared": compared})


def audited(a: Any) -> dict[str, Any]:
    """An audit without its times, versions and machine."""
    data = a.to_dict()
    data["about"] = {
        k: v for k, v in data["about"].items() if k not in {"started", "seconds", "cpu_seconds", "versions", "hardware"}
    }
    for name, key in (("rewrites", ("rewrite",)), ("rows", ("method", "rewrite")), ("checks", ("method",))):
        data[name] = {", ".join(item[k] for k in key): item for item in data[name]}
    return packed(data)
