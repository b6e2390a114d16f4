"""What each head answers, the slow way: the model alone, one text at a time, with a mask written by hand."""

import inspect
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import looprop
from tiny_heads import ANSWERERS, MASKED, ONE_STACK, TAGGERS, TWO_STACKS

STARTS = {"t5": [0], "bart": [3, 2], "pegasus": [3], "marian": [3], "m2m_100": [3], "bert2bert": [2]}
"""What the decoders of the tiny models begin with: the start, and BART's forced token after it."""


def target_of(name: str, length: int) -> Any:
    """A target whose value is known by hand."""
    if name in TAGGERS:
        return (length // 2, "B-LOC")
    return (length - 3, length - 2) if name in ANSWERERS else 17


def value(name: str, bench: looprop.Workbench, ids: Tensor, mask: Tensor, said: list[int] | None = None) -> Tensor:
    """The target of `target_of`, or the log-probability of tokens that were said, on one text (1, T)."""
    model: Any = bench.model
    takes = inspect.signature(model.forward).parameters
    if name in TWO_STACKS:
        decoder = torch.tensor([[*STARTS[name], *(said or [])]])
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder).logits[0]
        if said is None:
            return logits[-1, 17]
        first = len(STARTS[name]) - 1
        return torch.stack([logits[first + k].log_softmax(-1)[token] for k, token in enumerate(said)]).sum()
    more = {"position_ids": torch.arange(ids.shape[1])[None]} if name in ONE_STACK and "position_ids" in takes else {}
    output = model(input_ids=ids, attention_mask=mask, **more)
    if name in ANSWERERS:
        return output.start_logits[0, -3] + output.end_logits[0, -2]
    if name in MASKED:
        return output.logits[0, int((ids[0] == 4).nonzero()[0, 0]), 17]
    return output.logits[0, ids.shape[1] // 2, 1] if name in TAGGERS else output.logits[0, -1, 17]


def ids_of(bench: looprop.Workbench, item: Any) -> Tensor:
    texts = item if isinstance(item, tuple) else (item,)
    found: Tensor = bench.tokenizer(*texts, return_tensors="pt")["input_ids"]
    return found


@torch.no_grad()
def leave_out(name: str, bench: looprop.Workbench, item: Any, groups: list[list[int]], **more: Any) -> NDArray[Any]:
    """f(x) - f(x without a group), group by group."""
    ids = ids_of(bench, item)
    whole = float(value(name, bench, ids, torch.ones_like(ids), **more))
    scores = []
    for group in groups:
        mask = torch.ones_like(ids)
        mask[0, group] = 0
        scores.append(whole - float(value(name, bench, ids, mask, **more)))
    return np.array(scores)
