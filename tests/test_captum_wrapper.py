"""looprop.captum.LRP: the answers of our engine in the form that captum's users know."""

import copy

import pytest
import torch
from torch import Tensor, nn

from looprop import Plan, attribute
from looprop.captum import LRP
from looprop.errors import InputError, RuleError, TargetError
from zoo import TorchEncoder


def network(*, bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6, bias=bias), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3, bias=bias)).double()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def literal_rule(model: nn.Module, row: Tensor, target: int) -> Tensor:
    """z-rule, layer by layer, with loops; the bias keeps its share."""
    first, _, _, last = model
    hidden = torch.relu(first(row))
    relevance = [last.weight[target, j] * hidden[j] for j in range(6)]  # R_j = w_tj h_j / z_t * z_t
    z = first(row)
    return torch.stack([sum(first.weight[j, i] * row[i] / z[j] * relevance[j] for j in range(6)) for i in range(4)])


def test_equals_the_rule_written_out(x: Tensor) -> None:
    model = network()
    found = LRP(model).attribute(x, target=2)
    expected = torch.stack([literal_rule(model, row, 2) for row in x]).detach()
    torch.testing.assert_close(found, expected)


def test_equals_attribute(x: Tensor) -> None:
    model, targets = network(), torch.tensor([0, 1, 2, 1, 0])
    torch.testing.assert_close(LRP(model).attribute(x, target=targets), attribute(model, x, "attnlrp", target=targets))


def test_targets_in_all_their_forms(x: Tensor) -> None:
    lrp = LRP(network())
    expected = lrp.attribute(x, target=1)
    for target in (torch.tensor(1), torch.tensor([1]), [1] * 5, torch.tensor([1] * 5), (1,), [(1,)] * 5):
        assert torch.equal(lrp.attribute(x, target=target), expected)
    rows = [0, 1, 2, 0, 1]
    mixed = lrp.attribute(x, target=rows)
    for i, target in enumerate(rows):
        torch.testing.assert_close(mixed[i : i + 1], lrp.attribute(x[i : i + 1], target=target))


def test_outputs_with_more_dimensions(x: Tensor) -> None:
    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([self.inner(x), 2 * self.inner(x)], 1)  # (B, 2, 3)

    model = Sequences()
    torch.testing.assert_close(LRP(model).attribute(x, target=(1, 2)), 2 * LRP(model.inner).attribute(x, target=2))


def test_one_number_per_row_needs_no_target(x: Tensor) -> None:
    model = nn.Linear(4, 1).double()
    assert torch.equal(LRP(model).attribute(x), LRP(model).attribute(x, target=0))
    torch.testing.assert_close(LRP(model).attribute(x), x * model.weight.detach())


def test_several_inputs_and_arguments_that_are_not_explained(x: Tensor) -> None:
    class Two(nn.Module):
        def forward(self, a: Tensor, b: Tensor, scale: float) -> Tensor:
            return (a + 2 * b).sum(1) * scale

    found = LRP(Two()).attribute((x, x.flip(0)), additional_forward_args=3.0)
    assert isinstance(found, tuple)
    torch.testing.assert_close(found[0], 3 * x)
    torch.testing.assert_close(found[1], 6 * x.flip(0))


def test_delta_is_what_is_missing(x: Tensor) -> None:
    model = network()
    relevance, delta = LRP(model).attribute(x, target=0, return_convergence_delta=True)
    with torch.no_grad():
        output = model.eval()(x)[:, 0]
    torch.testing.assert_close(delta, output - relevance.sum(1))
    assert delta.abs().max() > 1e-3
    _, none = LRP(network(bias=False)).attribute(x, target=0, return_convergence_delta=True)
    torch.testing.assert_close(none, torch.zeros(5, dtype=torch.float64), atol=1e-12, rtol=0)


def test_the_plan_decides() -> None:
    torch.manual_seed(0)
    model = TorchEncoder().double()

    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, embeddings: Tensor) -> Tensor:
            return model.head(model.encoder(embeddings)[:, 0])

    x = torch.randn(2, 7, 32, dtype=torch.float64)
    ours, constant = (LRP(Embedded(), plan).attribute(x, target=1) for plan in (None, Plan(attention="cp")))
    assert ours.shape == x.shape
    assert not torch.allclose(ours, constant)


def test_nothing_is_left_on_the_model(x: Tensor) -> None:
    model = network().train()
    before = copy.deepcopy(model.state_dict())
    LRP(model).attribute(x, target=0)
    with pytest.raises(TargetError):
        LRP(model).attribute(x, target=7)
    assert all(module.training for module in model.modules())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not x.requires_grad


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (None, "a target is needed"),
        (3, "does not exist"),
        (-4, "does not exist"),
        ([0, 1], "one per row"),
        ((0, 0), "does not exist"),
    ],
)
def test_wrong_targets(x: Tensor, target: object, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        LRP(network()).attribute(x, target=target)  # type: ignore[call-overload]


def test_what_cannot_be_explained_is_refused(x: Tensor) -> None:
    with pytest.raises(InputError, match="floating-point"):
        LRP(network()).attribute(torch.ones(2, 4, dtype=torch.long), target=0)
    with pytest.raises(InputError, match="batch size"):
        LRP(network()).attribute((x, x[:2]), target=0)
    with pytest.raises(RuleError, match="no relevance rule"):
        LRP(nn.Sequential(network(), nn.Softplus())).attribute(x, target=0)


def test_captum_agrees(x: Tensor) -> None:
    captum = pytest.importorskip("captum.attr", reason="captum is not installed (pip install looprop[peers])")
    model = network(bias=False).eval()
    theirs = captum.LRP(copy.deepcopy(model)).attribute(x.clone().requires_grad_(), target=1)
    torch.testing.assert_close(LRP(model).attribute(x, target=1), theirs.detach(), rtol=1e-5, atol=1e-7)
