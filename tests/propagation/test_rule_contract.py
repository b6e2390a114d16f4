"""What every rule owes the engine, drawn from the table: a new rule is held to it without a line here, if torch's
function takes one tensor; else it needs an example below.

`LOOPROP_CONTRACT_OPERATIONS="glu atan" pytest tests/propagation/test_rule_contract.py` holds only these to it.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from looprop import Plan, relevance
from looprop.errors import PlanError, RuleError
from looprop.propagation import GRADIENT, operations
from looprop.propagation.rules import base
from looprop.propagation.rules.table import RULES

Function = Callable[[Tensor], Any]

# They end the way of relevance: what they give cannot be explained any further.
ENDS = operations.CUT | operations.NUMBER | operations.INTEGER | operations.HOOK | {"cuda"}
OPERATIONS = os.environ.get("LOOPROP_CONTRACT_OPERATIONS", "").split() or sorted(RULES.keys() - ENDS)

GENERATOR = torch.Generator().manual_seed(0)
X = torch.rand(4, 4, 4, dtype=torch.float64, generator=GENERATOR) + 0.5
M = torch.randn(4, 4, 4, dtype=torch.float64, generator=GENERATOR)
INDEX = torch.tensor([0, 2])
SPREAD = torch.arange(64).reshape(4, 4, 4) % 4
# What torch's functions take after the tensor, tried one after the other.
ARGUMENTS: tuple[tuple[Any, ...], ...] = ((), (2,), (-1,), (M,), (M[0],), ((4,),), (-1, 0), (1, -1), (0, INDEX))
ENDS_OF_GROUPS = torch.tensor([1, 1, 3, 4], dtype=torch.int32)
EXAMPLES: dict[str, Function] = {
    # Of single precision only; rounded here on both sides, so that what is compared is the same.
    "_grouped_mm": lambda x: torch._grouped_mm(x[0].float(), M.float(), offs=ENDS_OF_GROUPS),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x[None], 2),
    "addbmm": lambda x: torch.addbmm(M[0], x, M),
    "addmm": lambda x: torch.addmm(M[0], x[0], M[1]),
    "addmv": lambda x: torch.addmv(M[0, 0], x[0], M[0, 1]),
    "alias": torch.ops.aten.alias,
    "as_strided": lambda x: torch.as_strided(x, (2, 2), (4, 1)),
    "avg_pool3d": lambda x: F.avg_pool3d(x[None], 2),
    "baddbmm": lambda x: torch.baddbmm(M, x, M),
    "batch_norm": lambda x: F.batch_norm(x, M[0, 0], M[0, 1].abs()),
    "broadcast_to": lambda x: torch.broadcast_to(x, (2, 4, 4, 4)),
    "cat": lambda x: torch.cat([x, M]),
    "chain_matmul": lambda x: torch.chain_matmul(x[0], M[0]),
    "channel_shuffle": lambda x: torch.channel_shuffle(x[None], 2),
    "conv1d": lambda x: F.conv1d(x, M[:, :, :2]),
    "conv2d": lambda x: F.conv2d(x, M[:, :, :2, None]),
    "conv3d": lambda x: F.conv3d(x[None, None], M[:, :1, :2, None, None]),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x, M[:, :, :2]),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, M[:, :, :2, None]),
    "conv_transpose3d": lambda x: F.conv_transpose3d(x[None, None], M[:1, :, :2, None, None]),
    "copy": lambda x: torch.zeros_like(M).copy_(x),
    "diag": lambda x: torch.diag(x[0]),
    "dot": lambda x: torch.dot(x[0, 0], M[0, 0]),
    "dstack": lambda x: torch.dstack([x, M]),
    "einsum": lambda x: torch.einsum("abc,abd->acd", x, M),
    "expand": lambda x: x.expand(2, 4, 4, 4),
    "feature_dropout": lambda x: torch.feature_dropout(x, 0.5, False),
    "fold": lambda x: F.fold(x, (2, 2), (1, 1)),
    "gather": lambda x: torch.gather(x, 0, SPREAD),
    "getitem": lambda x: x[0],
    "grouped_mm": lambda x: F.grouped_mm(x[0].float(), M.float(), offs=ENDS_OF_GROUPS),
    "transformers::grouped_mm_fallback": lambda x: _fallback()(x[0], M, offs=ENDS_OF_GROUPS),
    "hstack": lambda x: torch.hstack([x, M]),
    "index_add": lambda x: torch.index_add(M, 0, INDEX, x[:2]),
    "index_copy": lambda x: torch.index_copy(M, 0, INDEX, x[:2]),
    "index_fill": lambda x: torch.index_fill(x, 0, INDEX, 0.0),
    "index_put": lambda x: torch.index_put(x, (INDEX,), M[0]),
    "linalg_solve_triangular": lambda x: torch.linalg.solve_triangular(M.tril() + 3 * torch.eye(4), x, upper=False),
    "log_sigmoid": F.logsigmoid,
    # A coefficient, which may only multiply.
    "logsumexp": lambda x: x * torch.logsumexp(x, -1, keepdim=True),
    "masked_fill": lambda x: torch.masked_fill(x, M > 0, 0.0),
    "masked_scatter": lambda x: torch.masked_scatter(M, M > 0, x),
    "masked_select": lambda x: torch.masked_select(x, M > 0),
    "max_pool3d": lambda x: F.max_pool3d(x[None], 2),
    "mm": lambda x: torch.mm(x[0], M[0]),
    "mv": lambda x: torch.mv(x[0], M[0, 0]),
    "narrow": lambda x: torch.narrow(x, 0, 0, 2),
    "native_layer_norm": lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5)[0],
    "norm": lambda x: x / x.norm(),
    "outer": lambda x: torch.outer(x[0, 0], M[0, 0]),
    "pad": lambda x: F.pad(x, (1, 1)),
    "permute": lambda x: x.permute(2, 0, 1),
    "prelu": lambda x: F.prelu(x - 1, M[0, 0]),
    "rdiv": lambda x: 1.0 / x,
    "repeat": lambda x: x.repeat(2, 1, 1),
    "rmatmul": lambda x: M.__rmatmul__(x),
    "rpow": lambda x: 2.0**x - 1.0,
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x @ M, x),
    "scatter": lambda x: torch.scatter(M, 0, SPREAD, x),
    "scatter_add": lambda x: torch.scatter_add(M, 0, SPREAD, x),
    "scatter_reduce": lambda x: torch.scatter_reduce(M, 0, SPREAD, x, "sum"),
    "setitem": lambda x: _with_item(x),
    "slice": torch.ops.aten.slice,
    "softmax": lambda x: x * torch.softmax(x @ M, -1),
    "stack": lambda x: torch.stack([x, M]),
    "std": lambda x: x / x.std(),
    "t": lambda x: torch.t(x[0]),
    "take": lambda x: torch.take(x, INDEX),
    "take_along_dim": lambda x: torch.take_along_dim(x, SPREAD, 0),
    "tensordot": lambda x: torch.tensordot(x, M),
    "type": lambda x: x.type(torch.float32),
    "unflatten": lambda x: x.unflatten(0, (2, 2)),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "vector_norm": lambda x: x / torch.linalg.vector_norm(x),
    "view_as_complex": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(4, 4, 2, 2))),
    "view_as_real": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(4, 4, 2, 2))),
    "vstack": lambda x: torch.vstack([x, M]),
    "where": lambda x: torch.where(M > 0, x, M),
    "zero": lambda x: x + x.clone().zero_(),
    **{name: lambda x, name=name: getattr(torch.fft, name[4:])(x).real for name in operations.TRANSFORM},
    **{f"get:{name}": lambda x, name=name: getattr(x[0], name) for name in ("T", "H", "mT", "mH", "real")},
}
# Products of a look-up table, and a name under which torch has no function of its own.
NOT_CALLED = {"embedding", "identity"}


def _fallback() -> Callable[..., Tensor]:
    """The grouped product that the transformers library registers with torch."""
    import transformers.integrations.moe  # noqa: F401

    return torch.ops.transformers.grouped_mm_fallback  # type: ignore[no-any-return]


def _with_item(x: Tensor) -> Tensor:
    out = torch.zeros_like(M)
    out[0] = x[0]
    return out


def tried(name: str) -> Iterator[Function]:
    for space in (torch, F, Tensor):
        function = getattr(space, name, None)
        if function is not None:
            for arguments in ARGUMENTS:
                yield lambda x, function=function, arguments=arguments: function(x, *arguments)


def parts(out: Any) -> list[Tensor]:
    found = list(out) if isinstance(out, tuple | list) else [out]
    return [part for part in found if isinstance(part, Tensor) and part.requires_grad]


def example(name: str) -> Function:
    """A call of the operation on one tensor (4, 4, 4), all of whose entries are positive."""
    for function in (EXAMPLES[name],) if name in EXAMPLES else tried(name):
        try:
            out = function(X.clone().requires_grad_())
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError):
            if name in EXAMPLES:
                raise
            continue
        if parts(out):
            return function
    pytest.fail(f"{name} cannot be called on one tensor alone: give an example of it in {__file__}")


def total(out: Any) -> Tensor:
    return torch.stack([part.double().sum() for part in parts(out)]).sum()


def explained(function: Function, plan: Plan) -> tuple[list[Tensor], Tensor]:
    """What a function gives under a plan, and the relevance of its input."""
    given: list[Tensor] = []
    with relevance(None, plan) as tape:
        x = tape.watch(X)
        out = function(x)
        given += [part.detach().clone() for part in parts(out)]
        return given, tape.relevance(total(out), x)


each = pytest.mark.parametrize("operation", [name for name in OPERATIONS if name not in NOT_CALLED])
ignored = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")


def test_every_operation_has_a_rule_that_says_what_becomes_of_relevance() -> None:
    assert not [name for name in OPERATIONS if name not in RULES or not RULES[name].__doc__]


@ignored
@each
@pytest.mark.parametrize("plan", [Plan(), Plan(epsilon=0.1), Plan(attention="cp")], ids=["attnlrp", "epsilon", "cp"])
def test_a_rule_leaves_the_forward_pass_alone(operation: str, plan: Plan) -> None:
    function = example(operation)
    expected = parts(function(X.clone().requires_grad_()))
    try:
        given, scores = explained(function, plan)
    except RuleError:
        return  # refused, and test_what_is_allowed_is_not_refused goes the way out
    assert len(given) == len(expected)
    dropped = operation in operations.DROPOUT  # explanations are of the model as it predicts
    for one, other in zip(given, [X] if dropped else expected, strict=True):
        assert torch.allclose(one, other.detach(), rtol=1e-12, atol=1e-12)
    assert scores.shape == X.shape
    assert torch.isfinite(scores).all()


@ignored
@each
def test_without_rules_it_is_the_ordinary_gradient(operation: str) -> None:
    function = (lambda x: x) if operation in operations.DROPOUT else example(operation)
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(total(function(x)), x)
    _, scores = explained(function, GRADIENT)
    assert torch.allclose(scores, X * gradient, rtol=1e-9, atol=1e-12)


@ignored
@each
def test_what_is_allowed_is_not_refused(operation: str, request: pytest.FixtureRequest) -> None:
    if operation == "rdiv":
        request.applymarker(pytest.mark.xfail(reason="1 / x ends a chain with f(0) = inf, whatever is allowed"))
    # A norm may then be refused where it divides: by another name.
    allowed = {operation, "div"} if operation in operations.DEVIATION else {operation}
    _, scores = explained(example(operation), Plan(allow=frozenset(allowed)))
    assert torch.isfinite(scores).all()


@each
def test_in_place_is_the_same(operation: str) -> None:
    in_place = getattr(Tensor, f"{operation}_", None)
    if in_place is None or operation in EXAMPLES or operation in operations.DROPOUT:
        return  # no such form, or not one of one tensor
    plain = example(operation)
    for arguments in ARGUMENTS:
        try:
            same = torch.equal(in_place(X.clone(), *arguments), plain(X))
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
        if same:
            break
    else:
        return
    try:
        _, expected = explained(plain, Plan())
    except RuleError:
        return
    _, found = explained(lambda x: in_place(x.clone(), *arguments), Plan())
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)


# ----- how rules and plans are entered


@pytest.mark.parametrize("option", ["rules", "allow"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sofplus", "Plan(OPTION=...): unknown operation 'sofplus'; did you mean 'softplus'"),
        ("logsumex", "Plan(OPTION=...): unknown operation 'logsumex'; did you mean 'logsumexp'"),
        ("softplus_", "Plan(OPTION=...): unknown operation 'softplus_'; the engine calls it 'softplus'"),
        ("multiply", "Plan(OPTION=...): unknown operation 'multiply'; the engine calls it 'mul'"),
        ("nn.Softplus", "Plan(OPTION=...): unknown operation 'nn.Softplus'; did you mean 'softplus'"),
    ],
)
def test_operations_that_do_not_exist(option: str, name: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan(**{option: {name: abs}})  # type: ignore[arg-type]
    assert message.replace("OPTION", option) in str(caught.value)


def test_every_operation_that_a_model_can_call_may_have_a_rule() -> None:
    torch.library.define("looprop_test::unheard_of", "(Tensor x) -> Tensor")
    names = ["logsumexp", "glu", "special_expit", "_threshold", "log_sigmoid", "get:T", "add", *RULES]
    names.append("looprop_test::unheard_of")  # what is not torch's own goes by its full name
    assert set(Plan(rules=dict.fromkeys(names, abs)).rules) == set(names)
    assert Plan(allow=frozenset(names)).allow == set(names)


def test_an_operation_has_one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "ENTERED", dict(base.ENTERED))
    with pytest.raises(PlanError, match="operation 'relu' has a rule already: pointwise"):
        base.rule("relu")(abs)
    with pytest.raises(PlanError, match="@rule of abs: unknown operation 'gluu'; did you mean 'glu'"):
        base.rule("gluu")(abs)
