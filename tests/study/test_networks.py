"""RQ1: one function in two orders of multiplication."""

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from looprop.errors import DataError, UnknownNameError
from looprop.evaluation.example import Task
from looprop.evaluation.setup import Setup
from looprop.inputs.mnist import load_mnist
from looprop.propagation import reference
from looprop.study.kinds.networks import LEFT, RIGHT, measure_pair
from looprop.study.mnist import LinearAttention, reordered, shrink, train
from looprop.study.report.writing import write_report
from looprop.study.reproducing import reproduce
from looprop.study.spec import load_spec
from looprop.study.verdicts import verdicts
from looprop.tensors import attribute


def small(order: str = "kv_first") -> LinearAttention:
    torch.manual_seed(0)
    return LinearAttention(order, pixels=9, width=4).double().eval()  # type: ignore[arg-type]


def by_equations(network: LinearAttention, x: Tensor, target: int, epsilon: float) -> Tensor:
    """AttnLRP step by step with the paper's equations; the division by n belongs to the product, as 1/sqrt(d) does to Q
    K^T.
    """
    n = x.numel()
    tokens = x[:, None]
    q, k, v = (layer(tokens) for layer in (network.query, network.key, network.value))
    qk_first = network.order == "qk_first"
    inner = q @ k.T if qk_first else k.T @ v
    mixed = inner @ v if qk_first else q @ inner
    flat = (mixed / n).flatten()
    logit, last = network.read_out(flat)[target], network.read_out
    relevance = reference.linear_epsilon(
        flat, last.weight[target][None], last.bias[target][None], logit[None], epsilon=epsilon
    )
    relevance = relevance.reshape(mixed.shape)
    if qk_first:
        of_inner, of_v = reference.attention_values(inner / n, v, relevance, epsilon)
        of_q, of_k_t = reference.attention_values(q, k.T, of_inner, epsilon)
        of_k = of_k_t.T
    else:
        of_q, of_inner = reference.attention_values(q, inner / n, relevance, epsilon)
        of_k_t, of_v = reference.attention_values(k.T, v, of_inner, epsilon)
        of_k = of_k_t.T
    total = torch.zeros_like(x)
    for layer, of in ((network.query, of_q), (network.key, of_k), (network.value, of_v)):
        total += reference.linear_epsilon(tokens, layer.weight, layer.bias, of, epsilon=epsilon)[:, 0]
    return total


@pytest.mark.parametrize("order", ["qk_first", "kv_first"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1])
def test_attnlrp_of_both_networks_equals_the_papers_equations(order: str, epsilon: float) -> None:
    network = reordered(small(), order).double()  # type: ignore[arg-type]
    x = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    target = int(network(x[None]).argmax())
    found = attribute(network, x[None], "attnlrp", epsilon=epsilon)[0]
    torch.testing.assert_close(found, by_equations(network, x, target, epsilon).detach(), rtol=1e-7, atol=1e-10)


def test_two_orders_are_one_function() -> None:
    network, x = small(), torch.rand(5, 9, dtype=torch.float64)
    torch.testing.assert_close(network(x), reordered(network, "qk_first").double()(x))
    with pytest.raises(UnknownNameError, match="order"):
        LinearAttention("vk_first")  # type: ignore[arg-type]


def test_shrinking_averages_neighbours_and_keeps_the_range() -> None:
    flat = shrink(np.full((1, 28, 28), 255, dtype=np.uint8))
    assert flat.shape == (1, 196)
    torch.testing.assert_close(flat, torch.ones(1, 196))
    half = np.zeros((1, 28, 28), dtype=np.uint8)
    half[:, :14] = 255
    rows = shrink(half).reshape(14, 14)
    assert rows[:6].min() == 1.0
    assert rows[8:].max() == 0.0
    assert float(rows.mean()) == pytest.approx(0.5, abs=1e-6)


def test_training_repeats_itself_and_leaves_the_global_seed_alone(digits: Path) -> None:
    data = load_mnist("train")
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = train(data, seed=3, epochs=1)
    assert torch.equal(torch.rand(3), expected)
    again = train(data, seed=3, epochs=1)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.read_out.weight, train(data, seed=4, epochs=1).read_out.weight)


def test_the_scalar_product_of_figure_1() -> None:
    rows = measure_pair({}, Task("product", torch.tensor([2.0, 3.0, 4.0])), Setup(load_spec("bilinear").methods))
    scores = {(row["method"], row["network"]): row["scores"] for row in rows}
    for side in (LEFT, RIGHT):
        assert scores["loo", side] == pytest.approx([24, 24, 24])
        assert scores["ig", side] == pytest.approx([8, 8, 8], rel=1e-3)
        assert scores["grad-x-input", side] == pytest.approx([24, 24, 24])
    assert scores["attnlrp[epsilon=1e-6]", LEFT] == pytest.approx([6, 6, 12], rel=1e-5)
    assert scores["attnlrp[epsilon=1e-6]", RIGHT] == pytest.approx([12, 6, 6], rel=1e-5)


@pytest.mark.slow
def test_a_small_run_with_its_report(digits: Path, tmp_path: Path) -> None:
    text = files("looprop.study").joinpath("specs", "bilinear.yaml").read_text(encoding="utf-8")
    (tmp_path / "two.yaml").write_text(text.replace("seeds: 5", "seeds: 2"), encoding="utf-8")
    options = {"limit": 2, "out": tmp_path / "run", "progress": False}
    run = reproduce(tmp_path / "two.yaml", **options)
    assert "subset: 2 of 20" in run.title
    assert len({row["example"] for row in run.rows}) == 1 + 2 * 2
    for row in run.rows:
        assert not row["error"]
        if row["seed"] >= 0 and row["method"] in ("loo", "ig"):
            assert row["l-r"] == pytest.approx(1.0, abs=1e-5)
    found = {v.claim: v.holds for v in verdicts(run)}
    assert found["LOO does not depend on the implementation"]
    assert found["AttnLRP depends on the implementation (raw)"]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["identity"]["data"]["training"] == load_mnist("train").hash

    # A broken network is trained anew, a whole one is not.
    whole, victim = sorted((tmp_path / "run" / "networks").glob("seed-*"))
    before = whole.stat().st_mtime_ns
    content = bytearray(victim.read_bytes())
    content[-3] ^= 64
    victim.write_bytes(content)
    again = reproduce(tmp_path / "two.yaml", **options)
    assert whole.stat().st_mtime_ns == before
    assert victim.read_bytes() != bytes(content)
    assert repr(again.rows) == repr(run.rows)

    write_report(tmp_path / "run")
    report = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    assert "0.7865" in report
    assert "subset: 2 of 20" in report


def test_bilinear_takes_no_model_and_no_other_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="takes no model"):
        reproduce("bilinear", model="x", out=tmp_path, progress=False)
    with pytest.raises(DataError, match="runs on mnist"):
        reproduce("bilinear", data="sst2", out=tmp_path, progress=False)
