"""lxt, efficient form: model classes of the whole process are patched so that gradient times input is AttnLRP."""

from typing import Any

import torch

from benchmarks.exchange import Case
from benchmarks.sides import Job
from benchmarks.sides.plain import gradient_times_input, model_of
from benchmarks.sides.torchvision_operators import declare

declare()

from lxt.efficient import monkey_patch  # noqa: E402
from transformers.models.bert import modeling_bert  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402

for module in (modeling_bert, modeling_llama):
    monkey_patch(module)


def attnlrp(case: Case) -> Job:
    """As its documentation says: relevance = embeddings times their gradient. Parameters need no gradient."""
    model: Any = model_of(case)
    for parameter in model.parameters():
        parameter.requires_grad_(False)

    def run() -> list[Any]:
        with torch.enable_grad():
            return gradient_times_input(model, case)

    return Job(run, len(case.ids))


JOBS = {"attnlrp": attnlrp}
