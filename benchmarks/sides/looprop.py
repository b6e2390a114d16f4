"""Our own jobs, and the plain ones that are the unit of everything: a forward pass, a gradient, a loop over masks, a
matrix product.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.exchange import Case, load_model, load_tokenizer
from benchmarks.sides import Job, prompted
from benchmarks.sides.plain import (
    batches,
    gradient_times_input,
    is_causal,
    loop,
    masked,
    model_of,
    more_arguments,
    on_positions,
    sample,
)
from looprop.methods.registry import make_method
from looprop.metrics import required_states
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded, partition
from looprop.models.heads.causal_lm import CausalLanguageModel
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target
from looprop.removal.value import Removal, SetFunction


@lru_cache(maxsize=1)
def adapter_of(folder: Path) -> Adapter:
    """The adapter of a model; the tokenizer is only asked for ids of special tokens."""
    model = load_model(folder)
    tokenizer = load_tokenizer(folder) if (folder / "tokenizer.json").exists() else lambda text: text
    return CausalLanguageModel(model, tokenizer) if is_causal(model) else TextClassifier(model, tokenizer)


def subjects(case: Case, features: str = "token", *, contrast: bool = False) -> list[Subject]:
    """Fresh subjects, which know nothing yet."""
    found = []
    for ids, target in zip(case.ids, case.targets, strict=True):
        row = torch.from_numpy(ids)[None]
        nothing = (None,) * len(ids)
        encoded = Encoded(
            {"input_ids": row, "attention_mask": torch.ones_like(row)},
            tuple(map(str, ids)),
            "",
            nothing,
            (False,) * len(ids),
            nothing,
        )
        of = Target((target,), str(target), against=1 - target if contrast else None)
        found.append(new_subject(adapter_of(case.model), encoded, of, partition(encoded, features)))
    return found


def forward(case: Case) -> Job:
    """A plain forward pass of all texts."""
    model = model_of(case)

    def run() -> list[Any]:
        with torch.inference_mode():
            parts = [
                model(input_ids=ids, attention_mask=torch.ones_like(ids), **more_arguments(model)).logits
                for ids, _ in batches(case)
            ]
        return [row.numpy() for part in parts for row in part]

    return Job(run, len(case.ids))


def gradient(case: Case) -> Job:
    """Forward and gradient to the word embeddings, without any rule."""
    model = model_of(case)
    return Job(lambda: gradient_times_input(model, case), len(case.ids))


def explain(case: Case, *, method: str, units: int = 1, **options: Any) -> Job:
    """A method on all texts; `units` is what one text counts for."""
    made = make_method(method, **options)
    return Job(lambda: [a.scores for a in made.attribute(subjects(case))], len(case.ids) * units)


def variants(case: Case, count: int | None) -> Any:
    """Leave-one-out of a sample of positions of the first text."""
    length = len(case.ids[0])
    return ~np.eye(length, dtype=bool)[sample(length, count)]


def loo(case: Case, *, count: int | None = None, removal: Removal | None = None) -> Job:
    """Leave-one-out variants through the set function."""
    keep = variants(case, count)
    return Job(lambda: SetFunction(subjects(case)[0], removal=removal)(keep), len(keep))


def loo_loop(case: Case, *, count: int | None = None, batch: int = 8) -> Job:
    """The same by a batched loop over attention masks."""
    keep, run = variants(case, count), masked(model_of(case), case.ids[0], case.targets[0])
    return Job(lambda: loop(run, keep, batch), len(keep))


def loo_set(case: Case) -> Job:
    """Leave-one-out of all texts at once, as a user asks for it; a unit is one variant."""
    from looprop.workbench import Workbench

    bench = Workbench(adapter_of(case.model))

    def run() -> list[Any]:
        found = bench.explain(list(case.texts), "loo", target=list(case.targets))
        return [explanation.scores for explanation in found]

    return Job(run, sum(len(ids) + 1 for ids in case.ids))  # and the intact text


def loo_set_loop(case: Case, *, batch: int = 64) -> Job:
    """The same by a batched loop over attention masks, text after text."""
    model = model_of(case)

    def run() -> list[Any]:
        found = []
        for ids, target in zip(case.ids, case.targets, strict=True):
            keep = np.concatenate([np.ones((1, len(ids)), dtype=bool), ~np.eye(len(ids), dtype=bool)])
            values = loop(masked(model, ids, target), keep, batch)
            found.append(values[0] - values[1:])
        return found

    return Job(run, sum(len(ids) + 1 for ids in case.ids))


def context_forward(case: None, *, layers: int, count: int) -> Job:
    """A plain forward pass over a prompt with a context and its answer."""
    return Job(prompted.forward_passes(layers, count))


def context_loo(case: None, *, layers: int, count: int) -> Job:
    """Leave-one-out of the sentences of a context; a unit is one of them."""
    import looprop

    bench = looprop.load(prompted.language_model(layers))
    answer = bench.context([" ".join(prompted.sentences(count))], prompted.QUESTION, prompted.ANSWER)
    return Job(lambda: [bench.explain(answer, "loo", features="sentence").scores], count)


def states(case: Case, chunk: int, count: int | None) -> Any:
    """Steps of MoRF and LeRF for random scores, evenly chosen."""
    features = -(-len(case.ids[0]) // chunk)
    keep = required_states(["morf", "lerf"], np.random.default_rng(0).normal(size=features)).keep
    return keep[sample(len(keep), count)]


def curves(case: Case, *, chunk: int = 1, count: int | None = None) -> Job:
    """Steps of MoRF and LeRF through the set function."""
    keep, features = states(case, chunk, count), "token" if chunk == 1 else f"chunk:{chunk}"
    return Job(lambda: SetFunction(subjects(case, features)[0])(keep), len(keep))


def curves_loop(case: Case, *, chunk: int = 1, count: int | None = None, batch: int = 8) -> Job:
    """The same by a batched loop over attention masks."""
    keep = on_positions(states(case, chunk, count), len(case.ids[0]), chunk)
    run = masked(model_of(case), case.ids[0], case.targets[0])
    return Job(lambda: loop(run, keep, batch), len(keep))


def removal_curves(
    case: Case,
    *,
    scores: list[list[float]],
    removal: Removal = "attention-mask",
    special: int = 0,
    contrast: bool = False,
) -> Job:
    """Whole MoRF curves of given scores, for comparison with others; `special` positions at
    either end are always kept.
    """

    def run() -> list[Any]:
        found = []
        for subject, of in zip(subjects(case, contrast=contrast), scores, strict=True):
            length = len(subject.features)
            keep = np.ones((len(of) - 1 if not special else len(of), length), dtype=bool)
            for step, position in enumerate(np.argsort(-np.asarray(of), kind="stable")[: len(keep)]):
                keep[step:, position + special] = False
            found.append(SetFunction(subject, removal=removal)(keep))
        return found

    return Job(run, sum(map(len, scores)))


def deletion_values(case: Case) -> Job:
    """The difference of both logits for the intact text and for every text with one token cut out."""

    def run() -> list[Any]:
        found = []
        for subject in subjects(case, contrast=True):
            length = len(subject.features)
            keep = np.concatenate([np.ones((1, length), dtype=bool), ~np.eye(length, dtype=bool)])
            found.append(SetFunction(subject, removal="delete")(keep))
        return found

    return Job(run, sum(map(len, case.ids)))


def evaluation(case: Case, *, methods: list[str], metrics: list[str]) -> Job:
    """Methods and metrics on the texts: one array (method x metric) per text."""
    import looprop
    from looprop.workbench import Workbench

    def run() -> list[Any]:
        result = looprop.evaluate(Workbench(adapter_of(case.model)), list(case.texts), methods, metrics)
        rows = {(row["example"], row["method"]): row for row in result.rows}
        return [
            [[rows[str(i), method][metric] for metric in metrics] for method in methods] for i in range(len(case.texts))
        ]

    return Job(run, len(case.texts))


def costs(case: Case, *, method: str, **options: Any) -> Job:
    """What a method says that it costs, in forward passes: one number per text."""
    made = make_method(method, **options)
    return Job(lambda: [[a.cost for a in made.attribute(subjects(case))]], len(case.ids))


def examples(case: Case, *, count: int, method: str) -> Job:
    """One cheap method on very many texts, measured against leave-one-out."""
    import looprop
    from looprop.workbench import Workbench

    texts = [case.texts[i % len(case.texts)] for i in range(count)]
    bench = Workbench(adapter_of(case.model))
    return Job(lambda: [len(looprop.evaluate(bench, texts, [method], ["loo-r"]).rows)], count)


def products(case: Case, *, rows: int) -> Job:
    """The plain matrix products of one layer of BERT on so many rows: (rows, width) by its six weights."""
    width = model_of(case).config.hidden_size
    shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    pairs = [(torch.randn(rows, inner), torch.randn(outer, inner)) for inner, outer in shapes]

    def run() -> list[Any]:
        with torch.inference_mode():
            return [torch.nn.functional.linear(left, right)[:1, :1].numpy() for left, right in pairs]

    return Job(run)


JOBS = {
    "forward": forward,
    "gradient": gradient,
    "explain": explain,
    "loo": loo,
    "loo-loop": loo_loop,
    "loo-set": loo_set,
    "loo-set-loop": loo_set_loop,
    "context-forward": context_forward,
    "context-loo": context_loo,
    "curves": curves,
    "curves-loop": curves_loop,
    "removal-curves": removal_curves,
    "deletion-values": deletion_values,
    "evaluation": evaluation,
    "costs": costs,
    "examples": examples,
    "products": products,
}
