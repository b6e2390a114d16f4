"""`looprop.attribute`: any module or function on a float tensor."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import looprop
from looprop.errors import InputError, ModelError, RuleError, TargetError, UnknownNameError

X = torch.tensor([[2.0, 3.0, 4.0]])


def left(x: Tensor) -> Tensor:
    return (x[:, 0] * x[:, 1]) * x[:, 2]


def right(x: Tensor) -> Tensor:
    return x[:, 0] * (x[:, 1] * x[:, 2])


@pytest.mark.parametrize(("function", "expected"), [(left, (6, 6, 12)), (right, (12, 6, 6))])
@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "lrp"])
def test_a_product_of_three_depends_on_its_brackets(function: Any, expected: tuple[int, ...], method: str) -> None:
    found = looprop.attribute(function, X, method)
    assert found.tolist() == [list(map(float, expected))]
    assert float(found.sum()) == 24.0


def test_a_product_of_three_with_epsilon() -> None:
    """z / (2 z + eps sign z) at each product, written out: 6 * 4 = 24 and 2 * 3 = 6."""
    epsilon = 0.5
    relevance_of_pair = 24 * 24 / (48 + epsilon)
    third = 24 * 24 / (48 + epsilon)
    pair = relevance_of_pair * 6 / (12 + epsilon)
    assert looprop.attribute(left, X, epsilon=epsilon)[0].tolist() == pytest.approx([pair, pair, third])


def test_grad_x_input_of_a_product_counts_it_three_times() -> None:
    assert looprop.attribute(left, X, "grad-x-input").tolist() == [[24.0, 24.0, 24.0]]


def test_random_scores_are_the_same_again() -> None:
    one, two = (looprop.attribute(left, X, "random") for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, looprop.attribute(left, X, "random", seed=1))
    assert not torch.equal(one, looprop.attribute(left, X + 1, "random"))


class Network(nn.Module):
    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 7), nn.Linear(7, classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.dropout(torch.relu(self.first(x.flatten(1)))))


def network(dtype: torch.dtype = torch.float64) -> Network:
    torch.manual_seed(0)
    return Network().to(dtype)


def by_hand(model: Network, x: Tensor, target: int) -> Tensor:
    """LRP-0 with the bias in the denominator, for one row: loops over neurons."""
    flat = x.flatten()
    hidden = model.first(x.flatten(1) if x.dim() > 1 and len(x) == 1 else flat[None])[0].detach()
    active = hidden.relu()
    weight, first = model.second.weight.detach(), model.first.weight.detach()
    scores = torch.zeros_like(flat)
    for j in range(7):
        relevance_of_j = active[j] * weight[target, j]
        for i in range(12):
            scores[i] += flat[i] * first[j, i] / hidden[j] * relevance_of_j
    return scores.reshape(x.shape)


BATCH = torch.randn(4, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("training", [True, False])
def test_network_against_loops(training: bool) -> None:
    model = network().train(training)
    targets = torch.tensor([0, 2, 1, 2])
    found = looprop.attribute(model, BATCH, target=targets)
    assert found.shape == BATCH.shape
    assert found.dtype == BATCH.dtype
    assert model.training == training
    for row, target in enumerate(targets.tolist()):
        assert torch.allclose(found[row], by_hand(model, BATCH[row], target), rtol=1e-9)


def test_the_predicted_class_of_each_row_is_the_default() -> None:
    model = network().eval()
    predicted = model(BATCH).argmax(-1)
    assert len(set(predicted.tolist())) > 1
    assert torch.equal(looprop.attribute(model, BATCH), looprop.attribute(model, BATCH, target=predicted))


def test_one_class_for_all_rows_and_contrasts() -> None:
    model = network().eval()
    one = looprop.attribute(model, BATCH, target=1)
    assert torch.equal(one, looprop.attribute(model, BATCH, target=torch.tensor([1, 1, 1, 1])))
    contrast = looprop.attribute(model, BATCH, target=(1, 2))
    assert torch.allclose(contrast, one - looprop.attribute(model, BATCH, target=2), rtol=1e-8, atol=1e-12)


def test_rows_do_not_meet() -> None:
    model = network().eval()
    together = looprop.attribute(model, BATCH)
    for row in range(len(BATCH)):
        assert torch.allclose(together[row : row + 1], looprop.attribute(model, BATCH[row : row + 1]), rtol=1e-10)


def test_one_number_per_row() -> None:
    model = network().eval()
    found = looprop.attribute(lambda x: model(x)[:, 1], BATCH)
    assert torch.equal(found, looprop.attribute(model, BATCH, target=1))


def test_the_input_is_left_alone() -> None:
    x = BATCH.clone().requires_grad_()
    before = x.detach().clone()
    looprop.attribute(network(), x)
    assert torch.equal(x.detach(), before)
    assert x.grad is None
    assert not [key for key in vars(x) if "looprop" in key]


def test_a_module_that_changes_its_input_in_place() -> None:
    model = network().eval()

    def greedy(x: Tensor) -> Tensor:
        x.mul_(2).relu_()
        return model(x)

    x = BATCH.clone()
    found = looprop.attribute(greedy, x, target=0)
    assert torch.equal(x, BATCH)
    assert torch.allclose(found, looprop.attribute(lambda y: model((y * 2).relu()), BATCH, target=0), rtol=1e-10)


def test_numbers_that_are_zero_carry_nothing() -> None:
    x = BATCH.clone()
    x[:, 0] = 0.0
    assert float(looprop.attribute(network(), x)[:, 0].abs().max()) == 0.0


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3), "batch dimension"),
        ([1.0, 2.0], "batch dimension"),
        (torch.ones(1, 3, dtype=torch.long), "floating-point"),
        (torch.tensor([[1.0, torch.nan, 2.0]]), "NaN or infinite"),
        (torch.tensor([[1.0, torch.inf, 2.0]]), "NaN or infinite"),
        (torch.ones(1, 0), "empty"),
    ],
)
def test_inputs_that_cannot_be_explained(x: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        looprop.attribute(left, x)


def test_an_empty_batch() -> None:
    with pytest.raises(InputError, match="empty"):
        looprop.attribute(left, torch.ones(0, 3))


@pytest.mark.parametrize("target", [3, -1, "dog", True])
def test_targets_that_do_not_exist(target: Any) -> None:
    with pytest.raises((TargetError, UnknownNameError)):
        looprop.attribute(network(), BATCH, target=target)


def test_a_target_tensor_of_the_wrong_size() -> None:
    with pytest.raises(InputError, match="one class per row: 4 rows"):
        looprop.attribute(network(), BATCH, target=torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.sum(), r"\(B,\) or \(B, C\)"),
        (lambda x: x[:, :, None].expand(-1, -1, 2), r"\(B,\) or \(B, C\)"),
        (lambda x: {"logits": x}, r"\(B,\) or \(B, C\)"),
        (lambda x: x.sum(-1) / 0, "NaN or infinite logits"),
    ],
)
def test_functions_that_do_not_answer_as_they_should(function: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        looprop.attribute(function, X)


def test_a_function_that_ignores_its_input() -> None:
    with pytest.raises(RuleError, match="does not depend on the explained input"):
        looprop.attribute(lambda x: torch.ones(len(x)), X)


def test_unknown_methods_and_options() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'attnlrp'"):
        looprop.attribute(left, X, "attn-lrp")
    with pytest.raises(UnknownNameError, match="unknown option of attnlrp 'epsilonn'; did you mean 'epsilon'"):
        looprop.attribute(left, X, epsilonn=0.1)


def test_scores_are_independent_of_the_precision_of_the_sum() -> None:
    found = looprop.attribute(network(torch.float32), BATCH.float(), target=0)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, looprop.attribute(network(), BATCH, target=0), rtol=2e-3, atol=1e-4)
