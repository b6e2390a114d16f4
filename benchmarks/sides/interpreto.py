"""interpreto: Occlusion and Deletion/Insertion by the mask token, integrated gradients by the trapezoid rule."""

from typing import Any

import numpy as np
import torch
from interpreto import Granularity, IntegratedGradients, Occlusion
from interpreto.attributions.base import AttributionOutput, ModelTask
from interpreto.attributions.metrics import Deletion, Insertion
from interpreto.attributions.perturbations import OcclusionPerturbator

from benchmarks.exchange import Case, load_tokenizer
from benchmarks.sides import Job
from benchmarks.sides.plain import model_of


class _Fewer(OcclusionPerturbator):  # type: ignore[misc]
    """Its perturbator, which makes only the first so many variants."""

    __slots__ = ("count",)

    def get_mask(self, mask_dim: int) -> torch.Tensor:
        """The intact input and the first variants."""
        mask: torch.Tensor = super().get_mask(mask_dim)[: self.count + 1]
        return mask


def occlusion(case: Case, *, count: int | None = None, batch: int = 8) -> Job:
    """Leave-one-out of the tokens between the special ones, on logits."""
    explainer = Occlusion(model_of(case), load_tokenizer(case.model), batch_size=batch, granularity=Granularity.TOKEN)
    if count is not None:
        fewer = _Fewer(explainer.tokenizer, Granularity.TOKEN, explainer.perturbator.replace_token_id)
        fewer.count, explainer.perturbator = min(count, len(case.ids[0]) - 2), fewer
    computed = [min(len(ids) - 2, count or len(ids)) + 1 for ids in case.ids]  # and the intact text
    return Job(lambda: _scores(explainer, case), sum(computed))


def integrated_gradients(case: Case, *, steps: int, tokens: int = 2048) -> Job:
    """From zero embeddings, tokens between the special ones."""
    size = max(1, tokens // max(map(len, case.ids)))
    explainer = IntegratedGradients(
        model_of(case),
        load_tokenizer(case.model),
        batch_size=size,
        granularity=Granularity.TOKEN,
        n_perturbations=steps,
        baseline=0.0,
    )
    return Job(lambda: _scores(explainer, case), steps * len(case.ids))


def _scores(explainer: Any, case: Case) -> list[Any]:
    outputs = explainer(list(case.texts), torch.tensor(case.targets)[:, None])
    return [output.attributions.reshape(-1).double().numpy() for output in outputs]


def curves(case: Case, *, count: int, batch: int = 8) -> Job:
    """Deletion and Insertion of random scores, `count` states in all; it cannot remove chunks, so it removes several
    tokens at once.
    """
    model, tokenizer = model_of(case), load_tokenizer(case.model)
    scores = np.random.default_rng(0).normal(size=len(case.ids[0]) - 2)
    steps = min(count // 2, len(scores))
    both = [kind(model, tokenizer, batch_size=batch, n_perturbations=steps) for kind in (Deletion, Insertion)]
    given = _given(case, 0, scores)
    return Job(lambda: [np.array(metric([given])[1][0][0]) for metric in both], 2 * (steps + 1))


def removal_curves(case: Case, *, scores: list[list[float]], batch: int = 8) -> Job:
    """Deletion curves (probabilities) of given scores, from the intact text on."""
    metric = Deletion(model_of(case), load_tokenizer(case.model), batch_size=batch, n_perturbations=1000)
    return Job(
        lambda: [np.array(metric([_given(case, i, of)])[1][0][0]) for i, of in enumerate(scores)], sum(map(len, scores))
    )


def _given(case: Case, text: int, scores: Any) -> Any:
    """Scores as it hands them from methods to metrics."""
    encoded = load_tokenizer(case.model)(case.texts[text], return_tensors="pt", return_offsets_mapping=True)
    return AttributionOutput(
        attributions=torch.tensor(np.asarray(scores), dtype=torch.float32)[None],
        elements=[str(i) for i in range(len(scores))],
        model_inputs_to_explain=encoded,
        targets=torch.tensor([case.targets[text]]),
        model_task=ModelTask.CLASSIFICATION,
        granularity=Granularity.TOKEN,
    )


JOBS = {"occlusion": occlusion, "ig": integrated_gradients, "curves": curves, "removal-curves": removal_curves}
