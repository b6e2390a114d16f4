"""RQ1: one function in two orders of multiplication."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from looprop.errors import DataError, UnknownNameError
from looprop.evaluation.setup import Setup
from looprop.inputs.mnist import load_mnist
from looprop.propagation import reference
from looprop.running.parts import Row
from looprop.study import Run, load_spec, parse_spec, reproduce, write_report
from looprop.study.kinds import experiment_text
from looprop.study.kinds.networks.pairs import LEFT, RIGHT, PairTask, by_seed, measure_pair, of_product, seed_means
from looprop.study.kinds.networks.training import (
    LinearAttention,
    Recipe,
    accuracies,
    draw_digits,
    reordered,
    shrink,
    train,
)
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
    first = train(data, seed=3, recipe=Recipe(epochs=1))
    assert torch.equal(torch.rand(3), expected)
    again = train(data, seed=3, recipe=Recipe(epochs=1))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.read_out.weight, train(data, seed=4, recipe=Recipe(epochs=1)).read_out.weight)


def test_the_scalar_product_of_figure_1() -> None:
    rows = measure_pair({}, PairTask("product", torch.tensor([2.0, 3.0, 4.0])), Setup(load_spec("bilinear").methods))
    scores = {(row["method"], row["network"]): row["scores"] for row in rows}
    for side in (LEFT, RIGHT):
        assert scores["loo", side] == pytest.approx([24, 24, 24])
        assert scores["ig", side] == pytest.approx([8, 8, 8], rel=1e-3)
        assert scores["grad-x-input", side] == pytest.approx([24, 24, 24])
    assert scores["attnlrp[epsilon=1e-6]", LEFT] == pytest.approx([6, 6, 12], rel=1e-5)
    assert scores["attnlrp[epsilon=1e-6]", RIGHT] == pytest.approx([12, 6, 6], rel=1e-5)


def plain(row: Row) -> dict[str, str]:
    """A row without its time; as text, because NaN is not NaN."""
    return {name: repr(value) for name, value in row.items() if name != "seconds"}


@pytest.mark.slow
def test_a_small_run_with_its_report(digits: Path, tmp_path: Path) -> None:
    text = experiment_text("bilinear").replace("name: bilinear", "name: two").replace("seeds: 5", "seeds: 2")
    (tmp_path / "two.yaml").write_text(text, encoding="utf-8")
    options = {"limit": 2, "out": tmp_path / "run", "progress": False}
    run = reproduce(tmp_path / "two.yaml", **options)
    assert "subset: 2 of 20" in run.title
    assert len(run.computed) == 1 + 2 * 2
    assert not any(row["error"] for row in run.rows)
    assert {row["example"] for row in of_product(run.rows)} == {"product"}
    networks = by_seed(run.rows)
    assert set(networks) == {0, 1}
    for seed, rows in networks.items():
        assert all(row["example"].startswith(f"seed {seed}/mnist/test/") for row in rows)
        assert all(row["l-r"] == pytest.approx(1.0, abs=1e-5) for row in rows if row["method"] in ("loo", "ig"))
    assert [seed for seed, _ in accuracies(run.folder)] == [0, 1]
    holds = {judged.claim: judged.holds for judged in run.claims()}
    assert holds["LOO does not depend on the implementation"]
    assert holds["AttnLRP depends on the implementation (raw)"]
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

    # In parts of one example, of which the first has the product alone.
    parts = reproduce(tmp_path / "two.yaml", **{**options, "out": tmp_path / "parts"}, part_examples=1)
    assert [plain(row) for row in parts.rows] == [plain(row) for row in run.rows]

    write_report(tmp_path / "run")
    report = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    assert "0.7865" in report
    assert "subset: 2 of 20" in report


@pytest.mark.parametrize(("means", "negative"), [((-0.4, -0.3), True), ((0.4, 0.3), False), ((-0.4, 0.1), False)])
def test_integrated_gradients_are_against_leave_one_out_where_every_seed_is(
    means: tuple[float, float], negative: bool
) -> None:
    rows = [
        {"example": f"seed {seed}/{i}", "method": "ig", "network": LEFT, "seed": seed, "error": "", "l-r": 1.0}
        | {"loo-r-paper": mean + 0.01 * i}
        for seed, mean in enumerate(means)
        for i in (-1, 1)
    ]
    run = Run(Path(), {"identity": {"spec": load_spec("bilinear").to_dict()}}, rows)
    judged = {claim.claim: claim for claim in run.claims()}
    assert judged["IG correlates negatively with LOO on these networks"].holds is negative


def test_rows_are_told_apart_by_their_seed() -> None:
    rows = [
        {"network": side, "seed": seed, "r": r}
        for side, seed, r in [(LEFT, 1, 0.5), (LEFT, 1, math.nan), (RIGHT, 1, 0.7), (LEFT, 0, 0.1), (LEFT, 0, 0.3)]
    ]
    product = [{"network": LEFT}, {"network": RIGHT, "seed": None}, {"network": LEFT, "seed": -1}]
    assert of_product([*rows, *product]) == product
    assert by_seed([*product, *rows]) == {1: rows[:3], 0: rows[3:]}
    assert seed_means([*product, *rows], LEFT, "r") == pytest.approx([0.5, 0.2])
    assert seed_means(rows, RIGHT, "r") == pytest.approx([0.7, math.nan], nan_ok=True)


def test_a_subset_of_digits_has_names_and_says_that_it_is_one(digits: Path) -> None:
    test = load_mnist("test")
    whole, some = draw_digits(test, limit=None, seed=0), draw_digits(test, limit=3, seed=0)
    assert (whole.title, whole.subset) == ("mnist/test", False)
    assert (some.title, some.subset) == ("mnist/test (subset: 3 of 20)", True)
    for name, pixels in zip(some.names, some.pixels, strict=True):
        assert torch.equal(pixels, whole.pixels[int(name.removeprefix("mnist/test/"))])


@pytest.mark.parametrize(
    ("data", "message"),
    [("{sst2: {}}", "runs on mnist, got sst2"), ("{mnist: {skip: [ig]}}", "skip is for experiments of kind 'texts'")],
)
def test_networks_are_for_digits(data: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_spec(f"{{name: x, kind: networks, question: q, methods: [loo, ig], data: {data}}}", where="x")


def test_bilinear_takes_no_model_and_no_other_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="takes no model"):
        reproduce("bilinear", model="x", out=tmp_path, progress=False)
    with pytest.raises(DataError, match="runs on mnist"):
        reproduce("bilinear", data="sst2", out=tmp_path, progress=False)
