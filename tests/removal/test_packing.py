"""Packing: every variant once, within the budget, little padding; halving gives every row, in order."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from looprop.errors import ModelError
from looprop.models.checking import out_of_memory
from looprop.removal.variants import pack, run_halving


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(1, 200))
@settings(deadline=None, max_examples=100)
def test_every_variant_is_in_one_batch_that_fits(lengths: list[int], budget: int) -> None:
    batches = list(pack(lengths, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


def test_curves_are_packed_with_little_padding() -> None:
    """Two variants of each length from 1 to 127, as MoRF and LeRF ask for: at most one twentieth of the work is
    padding.
    """
    lengths = [length for length in range(1, 128) for _ in range(2)]
    batches = list(pack(lengths, 1024))
    computed = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    assert sum(lengths) <= computed <= 1.05 * sum(lengths)
    assert len(batches) < 40


def test_equal_lengths_fill_the_budget() -> None:
    assert [len(batch) for batch in pack([127] * 20, 1024)] == [8, 8, 4]


def test_nothing_to_pack() -> None:
    assert list(pack([], 8)) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_halving_gives_every_row_in_order(limit: int) -> None:
    sizes = []

    def run(part: list[int]) -> Tensor:
        if len(part) > limit:
            raise torch.OutOfMemoryError("no memory left")
        sizes.append(len(part))
        return torch.tensor(part)

    assert run_halving(list(range(13)), run).tolist() == list(range(13))
    assert max(sizes) <= limit


def test_a_single_row_that_does_not_fit() -> None:
    def run(part: list[int]) -> Tensor:
        raise torch.OutOfMemoryError("no memory left")

    with pytest.raises(ModelError, match="single input") as caught:
        run_halving([0, 1, 2], run)
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)


def test_what_counts_as_running_out_of_memory() -> None:
    assert out_of_memory(MemoryError())
    assert out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 5 bytes."))
    assert not out_of_memory(RuntimeError("shape mismatch"))
    assert not out_of_memory(ValueError("out of memory"))
