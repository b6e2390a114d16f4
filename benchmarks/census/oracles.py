"""The slow, plain ways that looprop's numbers are held to. They share only the reading of logits with it."""

import copy
import re
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.census.cases import Case, Wrapper
from looprop.models.subject import Subject

Scores = NDArray[np.float64]

# Of a tensor with many elements so many are tried.
SAMPLE = 24
STEPS = 20

ADDITIVE = re.compile(
    r"bias$|(^|\.)(b_\w+|beta|cls_token|class_embedding|mask_token|distillation_token|register_tokens|latents|probe)$"
    r"|pos(ition)?_?emb|token_type"
)


def value(subject: Subject, inputs: dict[str, Tensor]) -> Tensor:
    """The target on a batch."""
    return subject.target.value(subject.adapter.logits(inputs, positions=subject.target.positions))


def leave_one_out(subject: Subject) -> Scores | None:
    """One forward pass per feature, each with one zero in the model's own mask, or with its pixels set to zero.

    None where the model takes no mask; NaN for elements of a tensor that are not tried.
    """
    adapter, inputs = subject.adapter, subject.encoded.inputs
    found = np.full(len(subject.features), np.nan)
    ids = inputs.get("input_ids")
    if ids is not None and (not adapter.takes_mask or len(found) != ids.shape[1]):
        return None
    tried = range(len(found)) if len(found) <= 64 else np.random.default_rng(1).permutation(len(found))[:SAMPLE]
    with torch.no_grad(), adapter.evaluating():
        whole = float(value(subject, dict(inputs))[0])
        places = {} if ids is None else _own_places(subject, whole)
        for i in tried:
            keep = torch.ones(1, len(found))
            keep[0, i] = 0
            if ids is not None:
                without = {**inputs, "attention_mask": keep.long(), **places}
            else:
                ((name, pixels),) = inputs.items()
                without = {name: pixels * adapter.spread(keep, pixels)}
            found[i] = whole - float(value(subject, without)[0])
    return found


def _own_places(subject: Subject, whole: float) -> dict[str, Tensor]:
    """Position ids from 0, for decoders that would else count only what the mask lets them read; those that count
    otherwise (RoBERTa and its kin) are left to themselves.
    """
    adapter, inputs = subject.adapter, dict(subject.encoded.inputs)
    if not adapter.causal or "position_ids" not in adapter.arguments:
        return {}
    places = {"position_ids": torch.arange(inputs["input_ids"].shape[1])[None]}
    same = abs(float(value(subject, {**inputs, **places})[0]) - whole) <= 1e-5 * max(1.0, abs(whole))
    return places if same else {}


def integrated_gradients(subject: Subject) -> Scores | None:
    """The midpoint rule by plain autograd, at what the word embedding hands out or at the input itself. None where the
    embedding hands out anything else than (batch, tokens, width), or more than once.
    """
    adapter, encoded = subject.adapter, subject.encoded
    middles = (torch.arange(STEPS) + 0.5) / STEPS
    kept: list[Tensor] = []

    def scaled(*given: Any) -> Any:
        if not isinstance(given[-1], Tensor):  # an embedding that hands out more than its vectors
            kept.extend([torch.zeros(1, 0)] * 2)
            return given[-1]
        end = given[-1].detach()
        kept.append((end * middles.reshape(-1, *[1] * (end.dim() - 1))).requires_grad_())
        return kept[-1].clone()

    with torch.enable_grad(), adapter.evaluating():
        if adapter.explained_weight is None:
            ((name, end),) = encoded.inputs.items()
            answer = value(subject, {name: scaled(end)})
        else:
            end = adapter.explained_values(encoded)
            if end.shape[:2] != (1, len(encoded)):
                return None
            tables = (m for m in adapter.model.modules() if getattr(m, "weight", None) is adapter.explained_weight)
            table = next(m for m in tables if not isinstance(m, nn.Linear))  # a read-out may share it
            handle = table.register_forward_hook(scaled)
            try:
                answer = value(subject, adapter.whole(encoded, STEPS))
            finally:
                handle.remove()
            if len(kept) != 1 or kept[0].shape[1] != len(encoded):
                return None
            looked_up, end = end, kept[0].detach()[-1:] / middles[-1]
            if not torch.allclose(end / end.norm(), looked_up / looked_up.norm(), atol=1e-5):
                return None  # more than a scaled look-up: its line would begin elsewhere
        (gradient,) = torch.autograd.grad(answer.sum(), kept[0])
    scores: Scores = adapter.token_scores(gradient.mean(0, keepdim=True) * end)[0].double().numpy()
    return subject.group(scores)


def without_additive_parameters(case: Case) -> nn.Module:
    """A copy of the model to which nothing is added that does not come from the explained input: no biases, positions,
    types or learned tokens.
    """
    model = copy.deepcopy(case.model)
    if isinstance(model, Wrapper):
        model.more = {k: torch.zeros_like(v) if v.is_floating_point() else v for k, v in model.more.items()}
    kept = case.subject(model).adapter.explained_weight
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter is not kept and ADDITIVE.search(name) and parameter.is_floating_point():
                parameter.zero_()
        for module in model.modules():
            if isinstance(module, nn.Embedding) and module.weight is not kept:
                module.weight.zero_()
            for name, buffer in module.named_buffers(recurse=False):
                of_positions = name in ("weights", "pe") and "Pos" in type(module).__name__
                if buffer.is_floating_point() and (name == "running_mean" or of_positions):
                    buffer.zero_()
    return model


def rows_of_rollout(case: Case, subject: Subject) -> NDArray[np.float64] | None:
    """Every row that rollout may read, and the usual means of rows, of the product of the attention that the model
    itself hands out. None where it hands out none, or no weights of every position on every other.
    """
    more = case.model.more if isinstance(case.model, Wrapper) else {}
    try:
        model = copy.deepcopy(case.model)
        inner: Any = model.model if isinstance(model, Wrapper) else model
        inner.set_attn_implementation("eager")
        with torch.no_grad():
            output = inner(**subject.encoded.inputs, **more, output_attentions=True)
            plain = (case.model.model if isinstance(case.model, Wrapper) else case.model)(
                **subject.encoded.inputs, **more
            )
    except Exception:  # a model without an eager form, or one that keeps what it computed last
        return None
    maps = getattr(output, "attentions", None)
    length = len(subject.encoded) + subject.adapter.leading_positions(subject.encoded)
    if not maps or any(not isinstance(m, Tensor) or m.dim() != 4 or m.shape[2] != length for m in maps):
        return None
    maps = [m[0, ..., :length].mean(0) for m in maps]
    sums = torch.stack([m.sum(-1) for m in maps])
    if not torch.allclose(sums, torch.ones(()), atol=1e-3) or not torch.allclose(output[0], plain[0], atol=1e-4):
        return None  # scores, or weights of which a sink has a share, or another model
    flow = torch.eye(length)
    for weights in maps:
        flow = (weights + torch.eye(length)) / 2 @ flow
    own = flow[-len(subject.encoded) :]
    means = [flow.mean(0), own.mean(0), torch.cat([flow[:1], own]).mean(0)]
    spans = [(first + last) / 2 for first in flow for last in flow]  # an answer is read where it starts and ends
    rows: NDArray[np.float64] = torch.stack([*flow, *means, *spans])[:, -len(subject.encoded) :].double().numpy()
    return rows
