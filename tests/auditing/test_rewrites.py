"""Every rewrite: it changes what it says, computes the same function, and is undone to the bit."""

import math

import pytest
import torch
from torch import Tensor, nn

import looprop
import zoo
from auditing.pieces import outside, rewritten
from looprop import Plan
from looprop.auditing.catalogue import CATALOGUE, check_rewrites
from looprop.auditing.rewrites.base import make_rewrites
from looprop.errors import UnknownNameError
from looprop.study.kinds.networks.training import LinearAttention, reordered

HEADS = ("qk-rescaled", "vo-turned", "heads-permuted")
DOUBLE = torch.float64


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


class Ids(nn.Module):
    """A model on token ids as a module that takes them alone and gives the logits."""

    def __init__(self, family: str) -> None:
        super().__init__()
        self.model = zoo.build(family)
        if (config := getattr(self.model, "config", None)) is not None:
            self.config = config

    def forward(self, ids: Tensor) -> Tensor:
        return zoo.logits_of(
            self.model(input_ids=ids, **({"use_cache": False} if hasattr(self.model, "lm_head") else {}))
        )


def test_the_catalogue_is_what_the_classes_say() -> None:
    made = make_rewrites(None)
    assert [(r.name, r.summary) for r in made] == [(e.name, e.summary) for e in CATALOGUE.values()]
    with pytest.raises(UnknownNameError, match="vo-turned"):
        check_rewrites(["vo-turn"])


@pytest.mark.parametrize(
    "family", ["bert", "gpt2", "llama", "phi3", "gpt-neox", "modernbert", "torch-encoder", "distilbert", "albert"]
)
@pytest.mark.parametrize("rewrite", HEADS)
def test_heads_of_every_packing(family: str, rewrite: str) -> None:
    """Separate, packed and interleaved projections, grouped queries, weights kept as (in, out), shared layers."""
    model, ids = Ids(family), zoo.token_ids(batch=2)
    before, wanted = outside(model), model(ids).detach()
    with rewritten(model, ids, rewrite) as places:
        assert len(places.changed) == (1 if family == "albert" else 3 if family == "modernbert" else 2)
        changed = {n for n, p in model.named_parameters() if p.detach().numpy().tobytes() != before[n][3]}
        assert any("attn" in name or "attention" in name for name in changed)
        # Rotary tables are in float32 here; an audit makes them float64.
        torch.testing.assert_close(model(ids), wanted, rtol=1e-6, atol=1e-7)
    assert outside(model) == before


def test_turned_values_are_turned() -> None:
    """W_o V is the same matrix per head, and V itself is not the old one times a number."""
    model, ids = Ids("bert"), zoo.token_ids()
    block = model.model.bert.encoder.layer[0].attention

    def products() -> Tensor:
        return torch.stack(
            [
                block.output.dense.weight[:, 8 * h : 8 * h + 8] @ block.self.value.weight[8 * h : 8 * h + 8]
                for h in range(4)
            ]
        )

    old, wanted = block.self.value.weight.detach().clone(), products().detach()
    with rewritten(model, ids, "vo-turned"):
        torch.testing.assert_close(products(), wanted)
        ratio = block.self.value.weight.detach() / old
        assert float(ratio.std()) > 0.1


def test_rescaled_keys_take_what_queries_get() -> None:
    model, ids = Ids("llama"), zoo.token_ids()
    attention = model.model.model.layers[0].self_attn
    old = [attention.q_proj.weight.detach().clone(), attention.k_proj.weight.detach().clone()]
    with rewritten(model, ids, "qk-rescaled"):
        query = (attention.q_proj.weight.detach() / old[0]).view(2, 2, -1)  # 2 groups of 2 heads
        key = (attention.k_proj.weight.detach() / old[1]).view(2, -1)
        torch.testing.assert_close(query[:, 0, :1] * key[:, :1], torch.ones(2, 1, dtype=DOUBLE))
        torch.testing.assert_close(query[:, 0], query[:, 1])
        assert float(key[0, 0]) != pytest.approx(float(key[1, 0]))


@pytest.mark.parametrize(
    ("family", "rewrite", "reason"),
    [
        ("qwen3", "qk-rescaled", "normalised"),
        ("deberta-v2", "qk-rescaled", "relative positions"),
        ("deberta-v2", "key-bias-shifted", "relative positions"),
        ("mpnet", "heads-permuted", "relative positions"),
        ("qwen2", "key-bias-shifted", "rotated"),
        ("qwen2", "bias-moved", "no bias to take"),
        ("hand-written", "vo-turned", "2 of 2 sites"),
        ("hand-written", "reassociated", "einsum"),
        ("torch-encoder", "scale-moved", "torch's own"),
        ("torch-encoder", "linear-split", "not called as layers"),
    ],
)
def test_what_is_not_supported_is_listed(family: str, rewrite: str, reason: str) -> None:
    model, ids = Ids(family), zoo.token_ids()
    with rewritten(model, ids, rewrite, sites=2) as places:
        assert any(reason in line for line in places.unsupported), places.unsupported


class Convolutions(nn.Module):
    """Convolutions with batch norm, with and without bias, and a linear layer with one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.one = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.second, self.two = nn.Conv2d(4, 3, 3, bias=False), nn.BatchNorm2d(3)
        self.dense, self.three, self.alone = nn.Linear(48, 5), nn.BatchNorm1d(5), nn.BatchNorm1d(5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.two(self.second(torch.relu(self.one(self.first(x)))))
        return self.alone(torch.relu(self.three(self.dense(x.flatten(1)))))


def stirred(module: nn.Module) -> nn.Module:
    module = module.to(DOUBLE)
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.is_floating_point():
                tensor.add_(torch.rand(tensor.shape, generator=generator(), dtype=DOUBLE))
    return module.eval()


MODULES = {
    "batchnorm-folded": (Convolutions, (2, 1, 8, 8), 3),
    "linear-merged": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2, bias=False)),
        (3, 6),
        1,
    ),
    "linear-split": (lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 5)), (3, 6), 2),
    "relu-rescaled": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)),
        (3, 6),
        1,
    ),
    "norm-folded": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 4), nn.RMSNorm(4), nn.Linear(4, 2)), (3, 6), 2),
    "norm-split": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 4), nn.RMSNorm(4), nn.Tanh()), (3, 6), 2),
    "bias-moved": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 4), nn.Linear(4, 2)), (3, 6), 2),
}


@pytest.mark.parametrize("rewrite", MODULES)
def test_rewrites_of_plain_modules(rewrite: str) -> None:
    make, shape, places_wanted = MODULES[rewrite]
    module = stirred(make())
    x = torch.randn(shape, generator=generator(), dtype=DOUBLE)
    before, wanted = outside(module), module(x).detach()
    with rewritten(module, x, rewrite) as places:
        assert len(places.changed) == places_wanted
        after = outside(module)
        assert after != before
        torch.testing.assert_close(module(x), wanted, rtol=1e-12, atol=1e-12)
        if rewrite == "batchnorm-folded":
            assert places.unsupported == ["alone: no convolution or linear layer stands alone before it"]
        if rewrite == "norm-folded":
            assert torch.equal(module[0].weight, torch.ones(6, dtype=DOUBLE))
        if rewrite == "bias-moved":
            assert not module[0].bias.any()
            assert not module[1].bias.any()
    assert outside(module) == before


class Shared(nn.Module):
    """A norm that is also added, one that two layers read, and a layer that reads two norms."""

    def __init__(self) -> None:
        super().__init__()
        self.added, self.read, self.other = nn.LayerNorm(4), nn.LayerNorm(4), nn.LayerNorm(4)
        self.one, self.two, self.both = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.added(x)
        normed = self.read(x)
        x = x + self.one(normed) * self.two(normed)
        return x + self.both(self.other(x)) + self.both(x)


def test_only_norms_that_linear_layers_alone_read_are_folded() -> None:
    module = stirred(Shared())
    x = torch.randn(3, 4, generator=generator(), dtype=DOUBLE)
    wanted = module(x).detach()
    with rewritten(module, x, "norm-folded") as places:
        assert places.changed == ["read"]
        assert [line.partition(":")[0] for line in places.unsupported] == ["added", "other"]
        torch.testing.assert_close(module(x), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", ["qk_first", "kv_first"])
def test_reassociation_is_the_other_network_of_the_paper(order: str) -> None:
    """Not only the same function: the same explanation as the network that is written the other way round."""
    torch.manual_seed(0)
    network = LinearAttention(order, pixels=9, width=4).double().eval()  # type: ignore[arg-type]
    other = reordered(network, "kv_first" if order == "qk_first" else "qk_first").double()
    x = torch.rand(2, 9, generator=generator(), dtype=DOUBLE)
    own, twin = (looprop.attribute(n, x, "attnlrp", target=1) for n in (network, other))
    assert float((own - twin).abs().max()) > 0.01 * float(own.abs().max())
    with rewritten(network, x, "reassociated") as places:
        assert len(places.changed) == 1
        torch.testing.assert_close(looprop.attribute(network, x, "attnlrp", target=1), twin, rtol=1e-10, atol=1e-12)


def test_a_number_between_two_products_moves_along() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            a, b, c = x.unbind(1)
            return (((a @ b) / 7.0 * 3.0) @ c).sum((1, 2))

    x = torch.randn(2, 3, 4, 4, generator=generator(), dtype=DOUBLE)
    module = Scaled()
    wanted = module(x)
    for rewrite, count in (("reassociated", 1), ("scale-moved", 1)):
        with rewritten(module, x, rewrite) as places:
            assert len(places.changed) == count
            torch.testing.assert_close(module(x), wanted)


def test_four_factors_are_taken_apart_rightly() -> None:
    class Chain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            a, b, c, d = x.unbind(1)
            return (((a * b) * c) * d).sum(1) + (a * (b * (c * d))).sum(1)

    x = torch.randn(2, 4, 5, generator=generator(), dtype=DOUBLE)
    module = Chain()
    wanted = module(x)
    with rewritten(module, x, "reassociated") as places:
        assert len(places.changed) == 4
        torch.testing.assert_close(module(x), wanted)


def counterexample() -> nn.Sequential:
    """f(x) = ReLU(ReLU(x1) - 1 - ReLU(x2)) of Sundararajan et al. 2017, appendix B."""
    network = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1), nn.ReLU()).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(2))
        network[0].bias.zero_()
        network[2].weight.copy_(torch.tensor([[1.0, -1.0]]))
        network[2].bias.fill_(-1.0)
    return network


def test_the_counterexample_of_sundararajan() -> None:
    """f and g are one function; LRP gives 1.5 and -0.5 for f, 2 and -1 for g (their table), at x = (3, 1)."""
    network, x = counterexample(), torch.tensor([[3.0, 1.0]], dtype=DOUBLE)
    grid = torch.cartesian_prod(torch.linspace(-2, 3, 11), torch.linspace(-2, 3, 11)).to(DOUBLE)
    before, wanted = outside(network), network(grid).detach()
    printed = Plan(bias="printed")
    torch.testing.assert_close(
        looprop.attribute(network, x, "lrp", plan=printed), torch.tensor([[1.5, -0.5]], dtype=DOUBLE)
    )
    with rewritten(network, x, "relu-rearranged") as places:
        assert places.changed == ["model.2, unit 0"]
        torch.testing.assert_close(network(grid), wanted)
        torch.testing.assert_close(
            looprop.attribute(network, x, "lrp", plan=printed), torch.tensor([[2.0, -1.0]], dtype=DOUBLE)
        )
    assert outside(network) == before


def test_units_that_others_read_are_copied() -> None:
    """Two units read the same one: each gets a copy with its own bias inside."""
    network = nn.Sequential(
        nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)
    ).double()
    with torch.no_grad():
        network[2].weight.copy_(torch.tensor([[1.0, -1.0], [0.5, -2.0], [1.0, 1.0]]))
        network[2].bias.copy_(torch.tensor([-0.2, -0.1, -0.3]))
    x = torch.randn(50, 2, generator=generator(), dtype=DOUBLE)
    wanted = network(x).detach()
    with rewritten(network, x, "relu-rearranged") as places:
        assert len(places.changed) == 2
        torch.testing.assert_close(network(x), wanted)


@pytest.mark.parametrize("family", ["bert", "torch-encoder", "mpnet"])
def test_fused_and_written_out(family: str) -> None:
    model, ids = Ids(family), zoo.token_ids(batch=2)
    before, wanted = outside(model), model(ids).detach()
    with rewritten(model, ids, "attention-unfused", sites=2) as places:
        if family == "mpnet":
            assert places.unsupported  # written out by the library, which has no other form of it
        else:
            assert len(places.changed) == 2
        torch.testing.assert_close(model(ids), wanted, rtol=1e-12, atol=1e-12)
    assert outside(model) == before


def test_a_shifted_key_bias_is_another_bias() -> None:
    model, ids = Ids("bert"), zoo.token_ids(batch=2)
    wanted = model(ids).detach()
    bias = model.model.bert.encoder.layer[1].attention.self.key.bias.detach().clone()
    with rewritten(model, ids, "key-bias-shifted"):
        moved = model.model.bert.encoder.layer[1].attention.self.key.bias.detach()
        assert float((moved - bias).abs().max()) > 0.5
        torch.testing.assert_close(model(ids), wanted, rtol=1e-12, atol=1e-12)


def test_changes_are_undone_after_an_exception() -> None:
    model, ids = Ids("bert"), zoo.token_ids()
    before = outside(model)
    with pytest.raises(ZeroDivisionError), rewritten(model, ids, "linear-split"):
        math.floor(1 / 0)
    assert outside(model) == before
