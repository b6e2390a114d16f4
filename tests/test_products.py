"""Products by oneDNN: what torch's own give, forwards and backwards; only where they suit; chosen by no clock."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from looprop.errors import InputError
from looprop.intercept import products
from looprop.intercept.products import VARIABLE, by_onednn, linear
from looprop.methods.registry import make_method
from looprop.models.encoded import partition
from looprop.models.subject import Subject
from looprop.models.target import Target
from looprop.models.text_classifier import TextClassifier
from looprop.removal.set_function import SetFunction
from removal.naive import TOKENIZER, encode

OWN = torch.nn.functional.linear
needs_onednn = pytest.mark.skipif(not products._works(), reason="this torch has no products by oneDNN")


@pytest.fixture
def onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "onednn")


def made(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@needs_onednn
@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(8, 160), (3, 7, 160), (1, 40, 160)])
def test_values_and_gradients_are_those_of_torch_to_rounding(shape: tuple[int, ...], bias: bool) -> None:
    x, weight = made(*shape).requires_grad_(), nn.Parameter(made(200, 160, seed=1))
    b = nn.Parameter(made(200, seed=2)) if bias else None
    wanted, found = OWN(x, weight, b), linear(OWN, (x, weight), {"bias": b})
    # In float64, so that it is known who is right: both are to within a few units of the last place of their terms.
    exact = OWN(x.double(), weight.double(), None if b is None else b.double())
    size = float((x.abs() @ weight.abs().t()).detach().max())
    assert float((found - exact).detach().abs().max()) < 8 * torch.finfo(torch.float32).eps * size
    gradient = made(*wanted.shape, seed=3)
    (own,) = torch.autograd.grad(found, x, gradient)
    (theirs,) = torch.autograd.grad(wanted, x, gradient)
    torch.testing.assert_close(own, theirs, rtol=1e-5, atol=1e-4)
    assert type(found.grad_fn).__name__ == "_LinearBackward"


@needs_onednn
@pytest.mark.usefixtures("onednn")
def test_rows_that_do_not_lie_in_one_block() -> None:
    weight = made(160, 160, seed=1)
    for x in (made(2, 160, 20).transpose(1, 2), made(16, 5, 160)[:, -1:], made(40, 320)[:, ::2]):
        torch.testing.assert_close(linear(OWN, (x, weight), {}), OWN(x, weight), rtol=1e-5, atol=1e-4)


class Spy:
    def __init__(self) -> None:
        self.met = 0

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.met += 1
        return OWN(*args, **kwargs)


@needs_onednn
@pytest.mark.usefixtures("onednn")
def test_what_does_not_suit_is_left_to_torch() -> None:
    class Subclass(torch.Tensor):
        pass

    x, weight = made(16, 160), made(160, 160)
    for args in (
        (x.double(), weight.double()),
        (x.bfloat16(), weight.bfloat16()),
        (x[:4], weight),  # few rows
        (x[:, :8], weight[:, :8]),  # a small weight
        (x, weight.as_subclass(Subclass)),
        (x[0], weight),
    ):
        spy = Spy()
        linear(spy, args, {})
        assert spy.met == 1, [a.shape for a in args]
    spy = Spy()
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(spy, (x, weight), {}).dtype == torch.bfloat16
    assert spy.met == 1
    spy = Spy()
    linear(spy, (x, weight), {})
    assert spy.met == 0


@needs_onednn
@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize(
    "bias",
    [
        torch.tensor(2.0),
        torch.tensor([2.0]),
        torch.tensor([3.0]).expand(200),
        made(400, seed=4)[::2],
        made(1, 200, seed=4),
        made(16, 200, seed=4),
        made(200, 3, seed=4)[:, 1],
    ],
    ids=lambda bias: f"{tuple(bias.shape)} {bias.stride()}",
)
def test_a_bias_of_another_shape_or_with_gaps(bias: torch.Tensor) -> None:
    """oneDNN takes the memory after its first number for the rest of it."""
    x, weight = made(16, 160), made(200, 160, seed=1)
    torch.testing.assert_close(linear(OWN, (x, weight, bias), {}), OWN(x, weight, bias), rtol=1e-5, atol=1e-4)


@needs_onednn
@pytest.mark.usefixtures("onednn")
def test_gradients_go_through_weights_and_biases_that_are_activations() -> None:
    x, weight, bias = made(16, 160).requires_grad_(), nn.Parameter(made(200, 160, seed=1)), made(200, seed=2)
    for args in ((x, weight * x.mean()), (x, weight, bias * x.sum()), (made(16, 160), weight * x.mean())):
        (own,) = torch.autograd.grad(linear(OWN, args, {}).sum(), x, retain_graph=True)
        (theirs,) = torch.autograd.grad(OWN(*args).sum(), x)
        torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-3)


@needs_onednn
@pytest.mark.usefixtures("onednn")
def test_sparse_weights_are_left_to_torch() -> None:
    x, weight = made(16, 160), made(160, 160)
    torch.testing.assert_close(linear(OWN, (x, weight.to_sparse()), {}), OWN(x, weight), rtol=1e-5, atol=1e-4)


def test_the_processor_decides_and_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_works", lambda: True)
    for vendor, capability, wanted in (
        ("vendor_id : AuthenticAMD", "AVX512", True),
        ("vendor_id : AuthenticAMD", "AVX2", False),
        ("vendor_id : GenuineIntel", "AVX512", False),
        ("", "AVX512", False),
    ):
        products._chosen.cache_clear()
        monkeypatch.setattr(products, "_vendor", lambda vendor=vendor: vendor)
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        monkeypatch.setenv(VARIABLE, "")
        assert by_onednn() is wanted
        monkeypatch.setenv(VARIABLE, "torch")
        assert by_onednn() is False
        monkeypatch.setenv(VARIABLE, "onednn")
        assert by_onednn() is True
    monkeypatch.setattr(products, "_works", lambda: False)
    products._chosen.cache_clear()
    assert by_onednn() is False, "an operation that is not there is not called"
    products._chosen.cache_clear()


GROWING = """
import os
os.environ["LOOPROP_PRODUCTS"] = "onednn"
import torch
from looprop.intercept.products import linear
torch.set_num_threads(1)
def memory():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20
weight = torch.ones(768, 768)
linear(torch.nn.functional.linear, (torch.ones(400, 768), weight), {})
start = memory()
for rows in range(16, 416):
    linear(torch.nn.functional.linear, (torch.ones(rows, 768), weight), {})
print(memory() - start)
"""


@pytest.mark.slow
@needs_onednn
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not say how large a process is")
def test_memory_does_not_grow_with_the_number_of_shapes() -> None:
    """Against a process that keeps what torch and oneDNN keep by themselves."""
    grown = [
        int(
            subprocess.run(
                [sys.executable, "-c", GROWING], env=os.environ | more, capture_output=True, check=True
            ).stdout
        )
        for more in (dict.fromkeys(products.KEPT, "1024"), {})
    ]
    assert grown[1] < 0.6 * grown[0], grown


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "mkl")
    with pytest.raises(InputError, match="LOOPROP_PRODUCTS must be one of auto, torch, onednn, got 'mkl'"):
        by_onednn()


def large_enough() -> Subject:
    """A text of 12 tokens and a model whose products are worth it."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
    model = BertForSequenceClassification(BertConfig(**sizes, vocab_size=200)).eval()
    encoded = encode(torch.arange(3, 15)[None])
    return Subject(TextClassifier(model, TOKENIZER), encoded, Target((1,), "1"), partition(encoded))


@needs_onednn
@pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
@pytest.mark.parametrize("method", ["loo", "attnlrp", "cp-lrp", "grad-x-input", "ig", "looprop"])
def test_explanations_are_the_same_to_rounding(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under removal, rules and integrated gradients."""
    found = []
    for choice in ("torch", "onednn"):
        monkeypatch.setenv(VARIABLE, choice)
        found.append(make_method(method).attribute([large_enough()])[0].scores)
    np.testing.assert_allclose(found[1], found[0], atol=1e-6 * max(1.0, np.abs(found[0]).max()))


@needs_onednn
@pytest.mark.usefixtures("onednn")
def test_the_answer_that_all_is_measured_by_is_the_models_own(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[int] = []
    own = products._multiply
    monkeypatch.setattr(products, "_multiply", lambda *args: met.append(1) or own(*args))  # type: ignore[func-returns-value]
    subject = large_enough()
    assert np.isfinite(subject.output)
    assert not met
    SetFunction(subject)(~np.eye(12, dtype=bool))
    assert met
