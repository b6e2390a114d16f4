"""Leave-one-out on models whose answer is known in closed form. On Transformers: tests/removal/test_equalities.py."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from looprop.errors import InputError, UnknownNameError
from looprop.methods.registry import make_method
from looprop.metrics import keep_matrix, removal_order
from looprop.models.subject import bind
from looprop.models.tensor_module import TensorModule
from looprop.removal.value import SetFunction
from looprop.tensors import attribute
from removal.naive import leave_one_out, one_by_one, subject_of


def left(x: Tensor) -> Tensor:
    return (x[:, 0] * x[:, 1]) * x[:, 2]


def right(x: Tensor) -> Tensor:
    return x[:, 0] * (x[:, 1] * x[:, 2])


@pytest.mark.parametrize("method", ["loo", "ig", "attnlrp", "cp-lrp", "grad-x-input"])
def test_all_methods_agree_on_a_linear_model(method: str) -> None:
    """f(x) = w x: leaving out x_i costs x_i w_i, and every way to propagate gives just that. Small integers, so that it
    is exact.
    """
    model = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -2.0, 3.0, 0.0], [4.0, 0.5, -1.0, 2.0]]))
    x = torch.tensor([[2.0, -3.0, 4.0, 8.0], [1.0, 1.0, -2.0, 0.0]])
    scores = attribute(model, x, method, target=1)
    assert torch.equal(scores, x * model.weight.detach()[1])


def test_a_bias_changes_nothing_for_leave_one_out() -> None:
    model = nn.Linear(3, 1)
    x = torch.tensor([[1.0, 2.0, 3.0]])
    torch.testing.assert_close(attribute(model, x, "loo"), x * model.weight.detach())


@pytest.mark.parametrize("grouping", [left, right])
def test_a_product_of_three_falls_to_zero_without_any_of_them(grouping: object) -> None:
    x = torch.tensor([[2.0, 3.0, 4.0]])
    assert attribute(grouping, x, "loo").tolist() == [[24.0, 24.0, 24.0]]  # type: ignore[arg-type]


def test_morf_and_lerf_of_an_additive_model_in_closed_form() -> None:
    """f(x) = sum of x: after k steps of MoRF the k largest are gone."""
    x = torch.tensor([1.0, 8.0, 2.0, 4.0])
    subject = bind(TensorModule(lambda rows: rows.sum(1)), x)
    value = SetFunction(subject)
    morf = value(keep_matrix(removal_order(x.numpy(), most_relevant_first=True)))
    lerf = value(keep_matrix(removal_order(x.numpy(), most_relevant_first=False)))
    assert morf.tolist() == [7.0, 3.0, 1.0]
    assert lerf.tolist() == [14.0, 12.0, 8.0]


def test_cost_is_one_forward_per_feature() -> None:
    subject = subject_of("bert", features="chunk:4")
    (found,) = make_method("loo").attribute([subject])
    assert len(found.scores) == 3
    assert found.cost == 3.0


def test_several_subjects_each_for_itself() -> None:
    one, other = subject_of("bert", length=7), subject_of("bert", length=9)
    for subject, found in zip((one, other), make_method("loo").attribute([one, other]), strict=True):
        wanted = subject.output - one_by_one(subject, leave_one_out(len(subject.features)))
        np.testing.assert_allclose(found.scores, wanted, atol=1e-9)


def test_another_removal() -> None:
    subject = subject_of("bert", length=7)
    (found,) = make_method("loo", removal="delete").attribute([subject])
    ids = subject.encoded.inputs["input_ids"]
    with torch.no_grad():
        for i in range(7):
            shorter = torch.cat([ids[:, :i], ids[:, i + 1 :]], 1)
            wanted = subject.output - float(subject.adapter.model(shorter).logits[0, 1])
            assert found.scores[i] == pytest.approx(wanted, abs=1e-9)


def test_options_are_checked_at_once() -> None:
    with pytest.raises(UnknownNameError, match="unknown removal 'delet'; did you mean 'delete'"):
        make_method("loo", removal="delet")
    with pytest.raises(UnknownNameError, match="unknown precision"):
        make_method("loo", precision="half")


def test_a_single_token_cannot_be_left_out() -> None:
    with pytest.raises(InputError, match="row 0 keeps no feature"):
        make_method("loo").attribute([subject_of("bert", length=1)])
