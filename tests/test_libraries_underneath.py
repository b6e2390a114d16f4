"""What looprop relies on in torch and transformers. When one of these fails, an upgrade underneath changed it.

Every message says where in looprop to look. The versions that are known to hold are in constraints.txt.
"""

import inspect
import threading
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from packaging.requirements import Requirement
from torch.overrides import TorchFunctionMode, resolve_name

ENGINE = "look at src/looprop/engine"
MODELS = "look at src/looprop/models"


class Recorder(TorchFunctionMode):
    """Writes down every torch function it sees, and those that its own handler calls."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def seen(call: Callable[[], object]) -> list[Any]:
    with Recorder() as recorder:
        call()
    return recorder.seen


def tensor(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, int(torch.tensor(shape).prod())).reshape(shape)


def test_installed_versions_are_in_the_stated_range() -> None:
    stated = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"][
        "dependencies"
    ]
    ranges = {(requirement := Requirement(line)).name: requirement.specifier for line in stated}
    for name in ("torch", "transformers"):
        assert ranges[name].contains(version(name)), (
            f"{name} {version(name)} is outside the range {ranges[name]} of pyproject.toml"
        )


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (F.scaled_dot_product_attention, lambda: F.scaled_dot_product_attention(*[tensor(1, 2, 3, 4)] * 3)),
        (F.linear, lambda: torch.nn.Linear(4, 2)(tensor(3, 4))),
        (F.layer_norm, lambda: torch.nn.LayerNorm(4)(tensor(3, 4))),
        (F.embedding, lambda: torch.nn.Embedding(5, 4)(torch.tensor([1, 2]))),
        (F.softmax, lambda: F.softmax(tensor(3, 4), dim=-1)),
        (F.dropout, lambda: torch.nn.Dropout(0.1).eval()(tensor(3, 4))),
        (F.gelu, lambda: F.gelu(tensor(4))),
        (F.silu, lambda: F.silu(tensor(4))),
        (F.relu, lambda: F.relu(tensor(4))),
        (torch.addmm, lambda: torch.addmm(tensor(2), tensor(3, 4), tensor(4, 2))),
        (torch.matmul, lambda: torch.matmul(tensor(3, 4), tensor(4, 2))),
        (torch.Tensor.softmax, lambda: tensor(3, 4).softmax(-1)),
        (torch.Tensor.matmul, lambda: tensor(3, 4) @ tensor(4, 2)),
        (torch.Tensor.add, lambda: tensor(4) + tensor(4)),
        (torch.Tensor.mul, lambda: tensor(4) * tensor(4)),
    ],
    ids=lambda value: value.__name__.strip("<>"),
)
def test_the_mode_sees_the_function_itself(function: Any, call: Callable[[], object]) -> None:
    met = seen(call)
    assert function in met, (
        f"a TorchFunctionMode no longer meets {resolve_name(function)}, but {[resolve_name(f) for f in met]}: {ENGINE}"
    )


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (F.scaled_dot_product_attention, "torch.nn.functional.scaled_dot_product_attention"),
        (F.linear, "torch.nn.functional.linear"),
        (F.gelu, "torch.nn.functional.gelu"),
        (F.layer_norm, "torch.nn.functional.layer_norm"),
        (torch.Tensor.add, "torch.Tensor.add"),
    ],
)
def test_names_of_functions_in_messages(function: Any, name: str) -> None:
    assert resolve_name(function) == name, (
        f"resolve_name calls {name} now {resolve_name(function)}: messages name operations so; {ENGINE}"
    )


def test_builtin_activations_are_the_functions_of_torch_c() -> None:
    for name in ("gelu", "linear", "scaled_dot_product_attention"):
        assert getattr(F, name) is getattr(torch._C._nn, name), (
            f"F.{name} is no longer torch._C._nn.{name}: tables of operations; {ENGINE}"
        )


def test_inside_the_handler_the_mode_is_off() -> None:
    x = tensor(3, 1, 4)
    weights = {
        "in_proj_weight": tensor(12, 4),
        "in_proj_bias": tensor(12),
        "out_proj_weight": tensor(4, 4),
        "out_proj_bias": tensor(4),
    }
    rest = {"bias_k": None, "bias_v": None, "add_zero_attn": False, "dropout_p": 0.0, "training": False}
    met = seen(lambda: F.multi_head_attention_forward(x, x, x, 4, 2, **weights, **rest))
    assert F.multi_head_attention_forward in met, (
        f"multi_head_attention_forward is not met as one call any more: {ENGINE}"
    )
    assert F.scaled_dot_product_attention not in met, (
        f"the mode now stays on inside its own handler, so re-entering would count twice: {ENGINE}"
    )


def test_a_mode_belongs_to_its_thread() -> None:
    with Recorder() as recorder:
        thread = threading.Thread(target=lambda: F.relu(torch.ones(2)))
        thread.start()
        thread.join()
    assert F.relu not in recorder.seen, (
        f"a TorchFunctionMode now reaches other threads: two plans in two threads disturb each other; {ENGINE}"
    )


def test_handed_on_call_keeps_the_gradient() -> None:
    x = tensor(4).requires_grad_()
    with Recorder():
        y = (x * x).sum()
    (gradient,) = torch.autograd.grad(y, x)
    assert torch.equal(gradient, 2 * x), f"the backward of an operation seen by a mode changed: {ENGINE}"


def test_the_written_out_gelu_is_still_a_module() -> None:
    from transformers.activations import NewGELUActivation

    met = seen(lambda: NewGELUActivation()(tensor(4)))
    assert any("tanh" in resolve_name(f) for f in met if resolve_name(f)), (
        f"NewGELUActivation is no longer written out with tanh: the module-level entry for it may be dropped; {ENGINE}"
    )
    x = tensor(5)
    assert torch.allclose(NewGELUActivation()(x), F.gelu(x, approximate="tanh"), atol=1e-6), (
        f"NewGELUActivation computes something else: {ENGINE}"
    )


def tiny_bert(attention: str) -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        attn_implementation=attention,
    )
    torch.manual_seed(0)
    return BertModel(config).eval()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attention_sites_of_bert(attention: str) -> None:
    model = tiny_bert(attention)
    assert model.config._attn_implementation == attention, (
        f"attn_implementation in a config is no longer obeyed: {MODELS}"
    )
    met = seen(lambda: model(input_ids=torch.tensor([[1, 2, 3]])))
    fused, softmaxes = met.count(F.scaled_dot_product_attention), met.count(F.softmax)
    assert (fused, softmaxes) == ((2, 0) if attention == "sdpa" else (0, 2)), (
        f"two layers of BERT with {attention} show {fused} fused attentions and {softmaxes} softmaxes: how sites are "
        f"counted; {ENGINE}"
    )


def test_bert_takes_position_ids() -> None:
    model = tiny_bert("sdpa")
    assert "position_ids" in inspect.signature(model.forward).parameters, (
        f"BertModel.forward has no position_ids: row dropping; {MODELS}"
    )
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        masked = model(input_ids=ids, attention_mask=torch.tensor([[1, 1, 0, 1]])).last_hidden_state[:, [0, 1, 3]]
        dropped = model(input_ids=ids[:, [0, 1, 3]], position_ids=torch.tensor([[0, 1, 3]])).last_hidden_state
    assert torch.allclose(masked, dropped, atol=1e-6), (
        "a masked token is no longer the same as a dropped row: look at src/looprop/removal"
    )


def test_attention_functions_are_a_registry() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    assert "sdpa" in ALL_ATTENTION_FUNCTIONS, (
        f"ALL_ATTENTION_FUNCTIONS has no 'sdpa' any more: the no-trace tests and {MODELS}"
    )
