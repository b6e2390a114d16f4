"""A model that computes in float64 throughout, however it casts."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from looprop.auditing.original import FullPrecision

CASTS: dict[str, Callable[[Tensor], Tensor]] = {
    "float()": lambda x: x.float(),
    "to by position": lambda x: x.to(torch.float32),
    "to by position, after the device": lambda x: x.to(torch.device("cpu"), torch.float32),
    "to by name": lambda x: x.to(dtype=torch.float32),
    "type": lambda x: x.type(torch.float32),
    "softmax": lambda x: torch.softmax(x, dim=-1, dtype=torch.float32),
    "sum": lambda x: x.sum(0, dtype=torch.float32),
    "a new tensor": lambda x: torch.zeros(3, dtype=torch.float32),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS.keys())
def test_casts_to_float32_are_to_float64(cast: Callable[[Tensor], Tensor]) -> None:
    x = torch.tensor([1.0, 1 / 3, 0.1], dtype=torch.float64)
    assert cast(x).dtype == torch.float32
    with FullPrecision():
        assert cast(x).dtype == torch.float64


def test_other_casts_and_plain_numbers_stay() -> None:
    x = torch.tensor(1 / 3, dtype=torch.float64)
    with FullPrecision():
        assert float(x) == 1 / 3
        assert x.to(torch.int64).dtype == x.long().dtype == torch.int64
        assert x.half().dtype == torch.float16
