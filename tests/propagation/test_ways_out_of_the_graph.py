"""What leaves the graph and comes back is refused, by whatever way; what only looks is left alone.

Every function here is a model in whose forward pass part of an activation's influence is hidden from autograd.
"""

import copy
import io
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from looprop import Plan, relevance
from looprop.errors import RuleError, UnseenError
from looprop.intercept.operations import operation_name
from looprop.propagation.cuts import Cuts, same_memory
from looprop.propagation.mode import RelevanceMode
from propagation.pieces import DIM, W2, W, Wrapped, X, scores

torch.library.define("looprop_test::mul", "(Tensor x, Tensor y) -> Tensor")
torch.library.impl("looprop_test::mul", "CompositeImplicitAutograd")(lambda x, y: x * y.tanh())
torch.library.define("looprop_test::double_it", "(Tensor(a!) x) -> ()")


@torch.library.impl("looprop_test::double_it", "CompositeImplicitAutograd")
def _double_it(x: Tensor) -> None:
    x.data.mul_(2)


def quietly(function: Callable[[], object]) -> object:
    with torch.no_grad():
        return function()


def written(into: Callable[[Tensor], Tensor], what: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Part of an activation written into part of a buffer, which is then added."""

    def function(x: Tensor) -> Tensor:
        buffer = torch.zeros_like(x)
        into(buffer).copy_(what(x))
        return x + buffer

    return function


def after(change: Callable[[Tensor], object]) -> Callable[[Tensor], Tensor]:
    """An activation that is changed by a way around it."""

    def function(x: Tensor) -> Tensor:
        out = x * 1.0
        if out.requires_grad:
            change(out)
        return out

    return function


def through_a_parameter(x: Tensor) -> Tensor:
    held = nn.Parameter(torch.zeros_like(x))
    quietly(lambda: held.copy_(x))
    return x * held


def stored_and_loaded(x: Tensor) -> Tensor:
    file = io.BytesIO()
    torch.save(x.detach(), file)
    file.seek(0)
    return x * torch.load(file)


def by_out(x: Tensor) -> Tensor:
    buffer = torch.zeros_like(x)
    torch.mul(x.detach(), 2.0, out=buffer)
    return x + buffer


def dlpack(x: Tensor) -> Tensor:
    return x * torch.from_dlpack(x.detach())


ITSELF = lambda x: x  # noqa: E731
LAST = lambda x: x[..., -2:]  # noqa: E731

COMES_BACK: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "item of a detached one": (lambda x: x * x.detach().mean().item(), "'item'"),
    "float of a detached one": (lambda x: x * float(x.detach().mean()), "'item'"),
    "int": (lambda x: x * int(x.detach().sum() * 10), "'item'"),
    "complex": (lambda x: x * complex(x.detach().sum()).real, "'item'"),
    "item without gradient": (lambda x: x * quietly(lambda: x.sum().item()), "'item'"),  # type: ignore[operator]
    "list of a detached one": (lambda x: x * torch.tensor(x.detach().tolist()), "'tolist'"),
    "numpy of a detached one": (lambda x: x * torch.from_numpy(np.sin(x.detach().numpy())), "'numpy'"),
    "array of a detached one": (lambda x: x * torch.from_numpy(np.asarray(x.data)), "'array'"),
    "a pickle": (stored_and_loaded, "storage|reduce"),
    "dlpack": (dlpack, "'dlpack'"),
    "a copy": (lambda x: x * copy.deepcopy(x.detach()), "storage|'detach'"),
    "flipped by hand": (lambda x: x * reversed(x.detach()), "'detach'"),
    "filled": (lambda x: x * torch.full_like(x, x.detach().mean()), "'detach'"),
    "a view of a buffer": (written(LAST, lambda x: x.detach()[..., -2:]), "'detach'"),
    "a buffer by a norm": (written(LAST, lambda x: x.norm(dim=-1, keepdim=True)), "'norm'"),
    "a buffer without gradient": (lambda x: x + quietly(lambda: torch.zeros_like(x).copy_(x)), "'copy'"),  # type: ignore[operator]
    "a buffer by out=": (by_out, "'detach'"),
    "a parameter": (through_a_parameter, "'copy'"),
    "a parameter of its memory": (lambda x: x * nn.Parameter(x.detach()), "'detach'"),
    "behind a norm": (lambda x: x * (x.norm(dim=-1, keepdim=True) * x.detach()), "'detach'"),
    "bits": (lambda x: x * x.view(torch.int64).view(torch.float64), "'view'"),
    "bits of a detached one": (lambda x: x * x.detach().view(torch.int64).view(torch.float64), "'detach'"),
    "long": (lambda x: x * (x * 10).long(), "'long'"),
    "to an integer": (lambda x: x * (x * 10).to(torch.int32).add(1).double(), "'to'"),
    "an integer without gradient": (lambda x: x * quietly(lambda: x.int()).double(), "'int'"),  # type: ignore[attr-defined]
    "an integer of a detached one": (lambda x: x * (x.detach() * 10).type(torch.int64), "'detach'"),
    "a bucket": (lambda x: x * torch.bucketize(x, torch.linspace(-2, 2, 99).double()), "'bucketize'"),
    "an integer as an index": (lambda x: x * torch.linspace(0, 1, 99).double()[x.abs().long()], "'long'"),
    "an operator of another library": (lambda x: torch.ops.looprop_test.mul(x, x @ W2), "'looprop_test::mul'"),
    "another library changes it": (after(lambda x: torch.ops.looprop_test.double_it(x)), "'looprop_test::double_it'"),
}
CHANGES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "data": (after(lambda x: x.data.mul_(2)), "'get:data'.*memory"),
    "detached": (after(lambda x: x.detach().add_(1)), "'detach'.*memory"),
    "a view of a detached one": (after(lambda x: x.detach()[:, 1:].zero_()), "'detach'"),
    "an item of a detached one": (after(lambda x: x.detach().__setitem__(0, 7.0)), "'detach'.*memory"),
    "by out=": (after(lambda x: torch.exp(x.detach(), out=x.detach())), "'detach'.*memory"),
    "many at once": (after(lambda x: torch._foreach_mul_([x.detach()], 2.0)), "'detach'.*memory"),
    "a view without gradient": (after(lambda x: quietly(lambda: x[:, :2]).mul_(2)), "'getitem'"),  # type: ignore[attr-defined]
    "another library": (after(lambda x: torch.ops.looprop_test.double_it(x.detach())), "'detach'.*memory"),
    "a hook": (after(lambda x: x.register_hook(lambda g: -g)), "'register_hook'"),
    "a hook without gradient": (after(lambda x: quietly(lambda: x.register_hook(lambda g: -g))), "'register_hook'"),
    "a hook on the graph": (after(lambda x: x.grad_fn.register_prehook(lambda g: (-g[0],))), "'get:grad_fn'"),  # type: ignore[union-attr]
}


@pytest.mark.parametrize(("function", "message"), COMES_BACK.values(), ids=COMES_BACK)
def test_what_comes_back_is_refused(function: Callable[[Tensor], Tensor], message: str) -> None:
    assert torch.isfinite(Wrapped(function)(X)).all()  # the model itself is fine
    with pytest.raises(RuleError, match=message):
        scores(function)


@pytest.mark.parametrize(("function", "message"), CHANGES.values(), ids=CHANGES)
def test_what_changes_an_activation_or_its_gradient_from_behind_is_refused(
    function: Callable[[Tensor], Tensor], message: str
) -> None:
    with pytest.raises(RuleError, match=message):
        scores(function)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("name", ["item", "detach"])
def test_what_is_allowed_is_a_constant(name: str) -> None:
    function = {"item": lambda x: x * x.mean().item(), "detach": lambda x: x * x.detach().mean()}[name]
    x = X[:1]
    constant = float((x @ W.detach()).mean())
    found = scores(function, Plan(allow=frozenset({name})), x)  # type: ignore[arg-type]
    assert torch.allclose(found, scores(lambda x: x * constant, x=x))


def looks(x: Tensor) -> Tensor:
    """Everything that a model may ask of its activations: shapes, comparisons, choices, numbers of its own."""
    seen = torch.zeros(3)
    seen += int(torch.arange(3).sum())  # whole numbers that come from no activation
    if bool((x.detach() > 1e6).any()) or int((x > 0).sum()) < 0 or x.detach().isnan().any():
        raise AssertionError
    best = int(x.sum(0).argmax().item())
    with torch.no_grad():
        statistics = torch.zeros(DIM, dtype=x.dtype)
        statistics.copy_(x.mean(0))  # kept, never read
    assert [list(row.shape) for row in x.detach()] == [[DIM]] * len(x)
    return x[:, best:] * torch.full_like(x[:, best:], 2.0) * float(seen[0]) * (x[:, best:] > 0).double()


def test_looking_and_choosing_is_not_refused() -> None:
    for row in X.split(1):
        best = int((row @ W.detach()).argmax())
        expected = scores(lambda x, best=best: 6.0 * torch.relu(x[:, best:]), x=row)  # type: ignore[misc]
        assert torch.allclose(scores(looks, x=row), expected)


def test_another_thread_is_out_of_sight() -> None:
    def function(x: Tensor) -> Tensor:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(torch.tanh(x)))
        thread.start()
        thread.join()
        return found[0] @ W2

    with pytest.raises(UnseenError):
        scores(function)


def test_outputs_may_be_read_detached_too() -> None:
    model = Wrapped(F.gelu)
    with relevance(model, Plan()) as tape:
        out = model(tape.watch(X))
        assert out.detach().tolist() == pytest.approx(out.detach().numpy().tolist())
        with torch.no_grad():
            assert out.sum().item() == pytest.approx(sum(out.tolist()))


def test_a_name_counts_only_with_its_library() -> None:
    assert operation_name(torch.ops.aten.mul) == operation_name(torch.mul) == ("mul", False)
    for function in (torch.ops.looprop_test.mul, torch.ops.looprop_test.mul.default):
        assert operation_name(function) == ("looprop_test::mul", False)

    def add(x: Tensor) -> Tensor:
        return x

    assert operation_name(add)[0] == f"{__name__}::add"
    own = scores(lambda x: torch.ops.looprop_test.mul(x, W2[0]), Plan(allow=frozenset({"looprop_test::mul"})))
    assert torch.allclose(own, scores(lambda x: x * W2[0].tanh()))


def test_notes_on_memory_end_with_it() -> None:
    cuts, note = Cuts(), RelevanceMode(Plan()).fresh.but(held="cut")
    x = torch.ones(4)
    cuts.add(x, note)
    assert cuts.of(x[1:].view(3, 1)) is note
    assert cuts.of(torch.from_dlpack(x)) is note
    assert same_memory(x, x[2:])
    assert cuts.of(torch.ones(4)) is None
    assert not cuts.shared(x)
    address = x.untyped_storage().data_ptr()
    del x
    assert cuts._live(address) is None
    assert cuts.of(torch.ones(2, 2).to_sparse()) is None
