"""captum: integrated gradients, feature ablation (of prompts as well), and the evaluation script that a researcher
would write with it.
"""

from typing import Any

import numpy as np
import torch
from captum.attr import FeatureAblation, IntegratedGradients, LLMAttribution, TextTemplateInput

from benchmarks.exchange import Case
from benchmarks.script import evaluate_by_hand
from benchmarks.sides import Job, prompted
from benchmarks.sides.plain import embedded, masked, model_of, more_arguments, sample, target_logits


def integrated_gradients(case: Case, *, steps: int, tokens: int = 2048) -> Job:
    """From zero word embeddings by the midpoint rule, as ours; internal batches of as many positions as ours; with the
    convergence delta, which says how exact it is, as ours does.
    """
    model = model_of(case)

    def run() -> list[Any]:
        found = []
        for ids, target in zip(case.ids, case.targets, strict=True):
            row = torch.from_numpy(ids)[None]

            def value(points: torch.Tensor, row: Any = row, target: int = target) -> torch.Tensor:
                mask = torch.ones_like(row).expand(len(points), -1)
                logits = model(inputs_embeds=points, attention_mask=mask, **more_arguments(model)).logits
                return target_logits(model, logits, [target] * len(points))

            size = max(1, tokens // len(ids))
            leaf = embedded(model, row).detach()
            scores, _ = IntegratedGradients(value).attribute(
                leaf,
                n_steps=steps,
                method="riemann_middle",
                internal_batch_size=size,
                return_convergence_delta=True,
            )
            found.append(scores.sum(-1)[0].detach().double().numpy())
        return found

    return Job(run, steps * len(case.ids))


def loo(case: Case, *, count: int | None = None, batch: int = 8) -> Job:
    """Leave-one-out of a sample of positions of every text by FeatureAblation of the attention mask."""
    model, length = model_of(case), len(case.ids[0])
    positions = sample(length, count)
    # All other positions are one feature more, unless every position is in the sample.
    features = torch.full((1, length), len(positions))
    features[0, positions] = torch.arange(len(positions))
    computed = int(features.max()) + 2  # and the intact input

    def run() -> list[Any]:
        found = []
        for ids, target in zip(case.ids, case.targets, strict=True):
            ablation = FeatureAblation(masked(model, ids, target))
            groups = features if len(ids) == length else torch.arange(len(ids))[None]
            with torch.inference_mode():
                scores = ablation.attribute(
                    torch.ones(1, len(ids)),
                    baselines=0.0,
                    feature_mask=groups,
                    perturbations_per_eval=batch,
                    enable_cross_tensor_attribution=False,
                )
            found.append(scores[0, positions if len(ids) == length else slice(None)].double().numpy())
        return found

    return Job(run, computed * len(case.ids))


def evaluation(case: Case, *, methods: list[str], metrics: list[str]) -> Job:
    """The script: one array (method x metric) per text."""
    model = model_of(case)

    def run() -> list[Any]:
        found = evaluate_by_hand(model, case, methods)
        return [[[of[method].get(metric, np.nan) for metric in metrics] for method in methods] for of in found]

    return Job(run, len(case.ids))


def context_loo(case: None, *, layers: int, count: int) -> Job:
    """Leave-one-out of the sentences of a context by LLMAttribution; a unit is one of them."""
    model, tokenizer = prompted.language_model(layers)
    template = prompted.chat(tokenizer, " ".join(["{}"] * count))
    item = TextTemplateInput(template, values=prompted.sentences(count))
    attribution = LLMAttribution(FeatureAblation(model), tokenizer)

    def run() -> list[Any]:
        found = attribution.attribute(item, target=prompted.ANSWER, forward_in_tokens=False)
        return [found.seq_attr.double().numpy()]

    return Job(run, count)


JOBS = {"ig": integrated_gradients, "loo": loo, "evaluation": evaluation, "context-loo": context_loo}
