"""2. Speed and memory: what an explanation, a leave-one-out variant, a step of a curve and a whole evaluation cost.

The unit is one plain forward pass of the same text in our environment, measured in the same rounds.
"""

from pathlib import Path

from benchmarks import cases
from benchmarks.sections import Row, Sizes
from benchmarks.team import OURS, Team, Turn

CHUNK = 16
# Rounds of cells with so many positions take long and differ little.
MANY_POSITIONS = 2048


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """Explanations, leave-one-out and curves on both random models."""
    cases.embedded_model()  # its tokenizer makes the texts
    rows = []
    for name, model in (("BERT", cases.bert(sizes.bert)), ("Llama", cases.llama(sizes.llama))):
        for tokens in sizes.per_length:
            single = cases.random_texts(model, tokens)
            # A batch runs in parts that memory holds, for all sides alike; one part is timed.
            several = cases.random_texts(model, tokens, min(sizes.batch, max(1, sizes.together // tokens)))
            parts = [("explanation", 1, _explanations(team, sizes, name, single, tokens, 1))]
            parts.append(("explanation", sizes.batch, _explanations(team, sizes, name, several, tokens, sizes.batch)))
            parts.append(("loo", 1, _loo(team, sizes, name, single, tokens)))
            if name == "BERT":
                parts.append(("curves", 1, _curves(team, sizes, single, tokens)))
            for group, batch, found in parts:
                rows += [{"group": group, "model": name, "tokens": tokens, "batch": batch, **row} for row in found]
        team.forget()
    return [_with_memory_ratio(row, rows) for row in rows]


def _explanations(team: Team, sizes: Sizes, model: str, case: Path, tokens: int, batch: int) -> list[Row]:
    turns = [
        Turn(OURS, "forward", case, "forward pass"),
        Turn(OURS, "gradient", case, "forward + gradient"),
        Turn(OURS, "explain", case, "AttnLRP", {"method": "attnlrp"}),
        Turn(OURS, "explain", case, "CP-LRP", {"method": "cp-lrp"}),
        Turn("lxt_efficient", "attnlrp", case, "AttnLRP, efficient"),
    ]
    if batch == 1:
        *_, steps = sizes.per_length[tokens]
        turns.append(Turn(OURS, "explain", case, "IG, per step", {"method": "ig", "steps": steps, "units": steps}))
        turns.append(Turn("captum", "ig", case, "IntegratedGradients, per step", {"steps": steps}))
        if model == "BERT":
            turns.append(Turn("interpreto", "ig", case, "IntegratedGradients, per step", {"steps": steps}))
            turns.append(Turn("lxt_explicit", "attnlrp", case, "AttnLRP, explicit"))
    least = 2 if batch * tokens >= MANY_POSITIONS else 3
    return team.take_turns(turns, repeats=sizes.repeats, seconds=sizes.seconds, memory=True, least=least)


def _loo(team: Team, sizes: Sizes, model: str, case: Path, tokens: int) -> list[Row]:
    count, *_ = sizes.per_length[tokens]
    batch = max(1, min(16, 2048 // tokens))  # of the peers that let one choose
    chosen = {"count": count, "batch": batch}
    turns = [
        Turn(OURS, "forward", case, "forward pass"),
        Turn(OURS, "loo", case, "LOO", {"count": count}),
        Turn(OURS, "loo-loop", case, "plain loop over masks", chosen),
        Turn("captum", "loo", case, "FeatureAblation", chosen),
    ]
    if model == "BERT":
        turns += [
            Turn("interpreto", "occlusion", case, "Occlusion", chosen),
            Turn("ferret", "loo", case, "LOO of taucorr_loo", {"count": count}),
            Turn("shap", "partition", case, "Partition, per evaluation", {"evaluations": count, "batch": batch}),
        ]
    return team.take_turns(turns, repeats=sizes.repeats, seconds=sizes.seconds, memory=True)


def _curves(team: Team, sizes: Sizes, case: Path, tokens: int) -> list[Row]:
    _, count, _ = sizes.per_length[tokens]
    chunk = CHUNK if tokens >= 512 else 1
    batch = max(1, min(16, 2048 // tokens))
    turns = [
        Turn(OURS, "forward", case, "forward pass"),
        Turn(OURS, "curves", case, "MoRF + LeRF", {"count": count, "chunk": chunk}),
        Turn(OURS, "curves-loop", case, "plain loop over masks", {"count": count, "chunk": chunk, "batch": batch}),
        Turn("quantus", "curves", case, "PixelFlipping", {"count": count, "chunk": chunk}),
        Turn("interpreto", "curves", case, "Deletion + Insertion", {"count": count, "batch": batch}),
    ]
    return team.take_turns(turns, repeats=sizes.repeats, seconds=sizes.seconds, memory=True)


def _with_memory_ratio(row: Row, rows: list[Row]) -> Row:
    """Peak memory with the weights, in units of the plain forward pass's."""
    if row.get("megabytes") is None:
        return row
    same = ("group", "model", "tokens", "batch")
    unit = next((r for r in rows if r["job"] == "forward pass" and all(r[key] == row[key] for key in same)), None)
    if unit is None or unit.get("megabytes") is None:
        return row
    weights = (cases.EXCHANGE / row["model"].lower() / "model.safetensors").stat().st_size / 2**20
    return {**row, "memory_ratio": (weights + row["megabytes"]) / (weights + unit["megabytes"])}
