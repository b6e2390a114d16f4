"""shap: the Partition explainer on texts, tokens replaced by the mask token."""

from typing import Any

import numpy as np
import shap
import torch

from benchmarks.exchange import Case, load_tokenizer
from benchmarks.sides import Job
from benchmarks.sides.plain import model_of


def partition(case: Case, *, evaluations: int, batch: int = 8) -> Job:
    """Owen values of all tokens; a unit is one evaluation of the model, counted in a first run."""
    model, tokenizer, counted = model_of(case), load_tokenizer(case.model), [0]

    def explainer(target: int) -> Any:
        def value(texts: Any) -> Any:
            counted[0] += len(texts)
            encoded = tokenizer([str(text) for text in texts], return_tensors="pt", padding=True)
            with torch.inference_mode():
                logits = model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits
            return logits[:, target].double().numpy()

        return shap.PartitionExplainer(
            value, shap.maskers.Text(tokenizer, mask_token="[MASK]", collapse_mask_token=False)
        )

    made = {target: explainer(target) for target in set(case.targets)}

    def run() -> list[Any]:
        pairs = zip(case.texts, case.targets, strict=True)
        found = [
            made[target]([text], max_evals=evaluations, batch_size=batch, silent=True).values[0]
            for text, target in pairs
        ]
        return [np.asarray(of, dtype=np.float64) for of in found]

    run()
    return Job(run, counted[0])


JOBS = {"partition": partition}
