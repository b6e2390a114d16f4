"""The tables of a run on all maskings."""

from collections.abc import Sequence

import numpy as np

from looprop.evaluation.summary import by_method
from looprop.metrics import bootstrap_mean
from looprop.running.parts import Row
from looprop.study import Grid, Measured, Run
from looprop.study.report.grids import Cells, name_of

PAPER_MODEL = "bert-base-uncased-SST-2"
"""textattack/bert-base-uncased-SST-2, the model of the paper's study of SST."""
ROUNDING = 1e-10
"""Limits and sums that differ by less are the same."""
NAMES = {
    "attention": "attention",
    "attingrad": "attention x input norm",
    "gradient_x_input": "gradient x input",
    "integrated_gradient": "IG",
    "deeplift": "DeepLIFT",
    "lime": "LIME (published)",
    "kernelshap": "KernelSHAP (published)",
    "decompx": "DecompX",
    "occlusion_1": "occlusion, absolute",
    "random_baseline": "random",
}
COLUMNS = {
    "shapley-r": "r to Shapley",
    "loo-r": "r to LOO",
    "loo-r-paper": "r to LOO, sums to one",
    "naopc": "NAOPC",
    "naopc of probability": "NAOPC of probability",
    "sensitivity": "sensitivity-n",
    "infidelity": "infidelity",
}


def exhaustive_tables(run: Run) -> list[Grid]:
    """The paper's model first, then r of every method on every model to either reference, then how exact it all is."""
    models = list(dict.fromkeys(row["model"] for row in run.rows))
    models.sort(key=lambda model: model != PAPER_MODEL)
    tables = [_of_model(run.rows, models[0])] if models[0] == PAPER_MODEL else []
    tables += [
        _of_metric(run.rows, models, metric, title)
        for metric, title in (
            ("shapley-r", "r to exact Shapley values"),
            ("loo-r", "r to leave-one-out"),
            ("naopc", "Normalised AOPC, logits"),
        )
    ]
    return [*tables, _exactness(run.rows, models)]


def values_of(rows: Sequence[Row], model: str, method: str, metric: str) -> list[float]:
    """A metric's values over the sentences of a model."""
    return [row[metric] for row in rows if row["model"] == model and row["method"] == method]


def _label(method: str) -> str:
    return NAMES.get(method) or name_of(method)


def _measured(values: Sequence[float]) -> Measured:
    return Measured.of(bootstrap_mean(values))


def _of_model(rows: Sequence[Row], model: str) -> Grid:
    table: list[Cells] = []
    for method in by_method(rows):
        own = [row for row in rows if row["model"] == model and row["method"] == method]
        cells: Cells = [_label(method), *(_measured([row[name] for row in own]) for name in COLUMNS)]
        table.append([*cells, f"{sum(row['flipped'] for row in own)} of {len(own)}"])
    own = [row for row in rows if row["model"] == model and row["method"] == "loo"]
    still = sum(not row["loo_matters"] for row in own)
    note = (
        "Words, [MASK] in place of those that are gone, special tokens always there; the logit of the class that a "
        "method explains: the predicted one, for DecompX the positive one. In brackets 95 % bootstrap intervals over "
        "sentences. Sums to one: both maps divided by their sums, as the paper does; flipped: the sentences whose sign "
        f"that turns. On {still} of {len(own)} sentences no word matters by itself to leave-one-out."
    )
    return Grid(f"The paper's BERT ({model})", ["method", *COLUMNS.values(), "flipped"], table, note)


def _of_metric(rows: Sequence[Row], models: Sequence[str], metric: str, title: str) -> Grid:
    table: list[Cells] = [
        [_label(method), *(_measured(values_of(rows, model, method, metric)) for model in models)]
        for method in by_method(rows)
    ]
    return Grid(title, ["method", *models], table, "Means over sentences, with 95 % bootstrap intervals.")


def _exactness(rows: Sequence[Row], models: Sequence[str]) -> Grid:
    table: list[Cells] = []
    for model in models:
        own = [row for row in rows if row["model"] == model and row["method"] == "loo"]
        sound = [row for row in own if row["best error of its order"] <= ROUNDING]
        errors = [f"{max(row['best error'] for row in sound):.1e}"]
        errors += [f"{max(row[f'{name} error'] for row in own):.1e}" for name in ("worst", "efficiency")]
        errors.append(str(len(own) - len(sound)))
        misfits = sum(row["misfits"] > 0 for row in own)
        still = f"{sum(not row['loo_matters'] for row in own)} of {len(own)}"
        table.append([model, str(len(own)), *errors, str(misfits), still])
    header = [
        "model",
        "sentences",
        "best limit",
        "worst limit",
        "efficiency",
        "of no order",
        "scores left out",
        "no word matters",
    ]
    longest = int(np.max([row["words"] for row in rows]))
    note = (
        "Largest differences: of our limits of AOPC from the published ones, and of the sum of exact Shapley values "
        "from f(x) - f(nothing). Of no order: sentences whose published best limit is not the area of the order that "
        "was published with it, left out of the third column. Scores left out: sentences of which published scores are "
        f"of another number of words, or not numbers. The longest sentence has {longest} words, {2**longest} maskings."
    )
    return Grid("How exact this is", header, table, note)
