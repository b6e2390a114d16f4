"""5. How near the limit: floating-point operations per second of the set function beside plain matrix products of the
same shapes.
"""

from benchmarks import cases
from benchmarks.exchange import load_model
from benchmarks.sections import Row, Sizes
from benchmarks.team import OURS, Team, Turn
from looprop.removal.variants import ON_CPU


def operations(layers: int, width: int, tokens: int) -> float:
    """10^9 floating-point operations of one forward pass of so many tokens: linear layers and attention."""
    return layers * (2 * tokens * 12 * width**2 + 4 * tokens**2 * width) / 1e9


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """One row per length: GFLOP per second of CPU time and of wall time. A removed row counts as not computed."""
    cases.embedded_model()
    model = cases.bert(sizes.bert)
    rows = []
    for tokens, (count, *_) in sizes.per_length.items():
        case = cases.random_texts(model, tokens)
        together = max(1, ON_CPU // tokens) * tokens
        turns = [
            Turn(OURS, "products", case, "matrix products", {"rows": together}),
            Turn(OURS, "loo", case, "set function", {"count": count}),
            Turn(OURS, "forward", case, "forward pass"),
        ]
        limit, ours, plain = team.take_turns(turns, repeats=sizes.repeats, seconds=sizes.seconds / 4)
        if "error" in ours or "error" in limit:
            rows.append({"group": "limit", "tokens": tokens, "error": ours.get("error") or limit.get("error")})
            continue
        one_layer = 2 * together * 12 * sizes.width**2 / 1e9
        done = operations(sizes.layers, sizes.width, tokens - 1)
        row: Row = {"group": "limit", "tokens": tokens, "rows": together}
        for kind in ("cpu", "wall"):
            row[f"products_{kind}"], row[f"set_function_{kind}"] = one_layer / limit[kind], done / ours[kind]
            row[f"forward_{kind}"] = operations(sizes.layers, sizes.width, tokens) / plain[kind]
        rows.append({**row, "share": row["set_function_cpu"] / row["products_cpu"]})
    load_model.cache_clear()
    team.forget()
    return rows
