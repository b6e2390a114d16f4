"""The remedy: exact at one site, exact leave-one-out with all rows, independent of how attention is written."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import zoo
from looprop.errors import InputError, UnknownNameError
from looprop.methods.looprop import rows as exact_rows_module
from looprop.methods.looprop.first_order import barring_effect, first_order
from looprop.methods.registry import make_method
from looprop.models.loading import adapt_module
from looprop.models.subject import bind
from methods.subjects import felt, scores, subject_of


def test_barring_effect_is_the_change_of_a_renormalised_softmax() -> None:
    """< G_j, O_j - O_j(without I) > by removing the keys of I and normalising again, row by row."""
    generator = torch.Generator().manual_seed(0)
    heads, length, size = 2, 5, 3
    logits, value, gradient = (
        torch.randn(heads, length, n, generator=generator, dtype=torch.float64) for n in (length, size, size)
    )
    weights = logits.softmax(-1)
    groups = [[0], [1, 3], [4]]
    member = torch.zeros(len(groups), length, dtype=torch.bool)
    for i, group in enumerate(groups):
        member[i, group] = True
    found = barring_effect(weights, value, weights @ value, gradient, member)
    for j in range(length):
        for i, group in enumerate(groups):
            wanted = 0.0
            for h in range(heads):
                kept = [k for k in range(length) if k not in group]
                total = sum(math.exp(logits[h, j, k]) for k in kept)
                for d in range(size):
                    without = sum(math.exp(logits[h, j, k]) / total * float(value[h, k, d]) for k in kept)
                    whole = sum(float(weights[h, j, k] * value[h, k, d]) for k in range(length))
                    wanted += float(gradient[h, j, d]) * (whole - without)
            assert found[j, i].item() == pytest.approx(wanted, abs=1e-12)


def test_barring_a_key_with_all_the_weight_stays_finite() -> None:
    weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    value = torch.tensor([[[1.0], [2.0]]])
    found = barring_effect(weights, value, weights @ value, torch.ones(1, 2, 1), torch.eye(2, dtype=torch.bool))
    assert torch.isfinite(found).all()


@pytest.mark.parametrize(
    "name",
    ["bert", "roberta", "distilbert", "electra", "albert", "modernbert", "mpnet", "gpt2", "llama", "gemma3", "vit"],
)
@pytest.mark.parametrize("features", ["token", "chunk:3"])
def test_all_rows_are_exact_leave_one_out(name: str, features: str) -> None:
    subject = subject_of(name, features=features)
    loo = scores(subject, "loo", removal="attention-mask")
    np.testing.assert_allclose(scores(subject, "looprop", rows="all"), loo, atol=1e-6 * np.abs(loo).max())


@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_more_rows_come_closer(name: str) -> None:
    subject = subject_of(name)
    loo = scores(subject, "loo", removal="attention-mask")
    errors = [np.abs(scores(subject, "looprop", rows=rows) - loo).max() for rows in (0, 4, 9)]
    assert errors[2] < errors[1] < errors[0]


@pytest.mark.parametrize("name", ["bert", "modernbert", "mpnet", "gpt2", "llama", "vit"])
@pytest.mark.parametrize("features", ["token", "chunk:3"])
def test_variants_filled_up_to_one_width_answer_as_each_alone(
    name: str, features: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = subject_of(name, features=features)
    runs: list[int] = []
    scores(subject, "looprop", rows=3)  # rows are proven now
    run = exact_rows_module._run
    monkeypatch.setattr(exact_rows_module, "_run", lambda *given: (runs.append(len(given[2])), run(*given))[1])
    together = scores(subject, "looprop", rows=3)
    few = len(runs)
    monkeypatch.setattr(exact_rows_module, "ROWS", 1)  # every variant on its own
    alone = scores(subject, "looprop", rows=3)
    assert few < len(runs) - few
    np.testing.assert_allclose(together, alone, atol=1e-9 * np.abs(alone).max())


@pytest.mark.parametrize("name", ["deberta-v2", "hand-written"])
def test_models_whose_rows_cannot_be_carried_fall_back_and_say_so(name: str) -> None:
    subject = subject_of(name)
    attribution = make_method("looprop", rows=8).attribute([subject])[0]
    assert attribution.details["rows"] == 0.0
    assert attribution.cost == 3.0
    with pytest.raises(InputError, match="cannot be carried"):
        scores(subject, "looprop", rows="all")


def test_refining_everything_is_leave_one_out() -> None:
    subject = subject_of("t5-encoder")
    np.testing.assert_allclose(scores(subject, "looprop", rows=0, refine=99), scores(subject, "loo"), atol=1e-9)


def test_refinement_takes_the_read_out_first_and_then_what_is_felt_most() -> None:
    subject = subject_of("bert")
    rough, fine, loo = (
        scores(subject, "looprop", rows=0),
        scores(subject, "looprop", rows=0, refine=3),
        scores(subject, "loo"),
    )
    most = [i for i in np.argsort(-felt(subject)) if i != 0][:2]
    changed = sorted([0, *most])
    np.testing.assert_allclose(fine[changed], loo[changed], atol=1e-9)
    rest = [i for i in range(len(loo)) if i not in changed]
    np.testing.assert_allclose(fine[rest], rough[rest], atol=1e-12)


def written_out(name: str) -> nn.Module:
    """The same weights with attention as matmul, softmax, matmul."""
    model = zoo.build(name)
    model.set_attn_implementation("eager")  # type: ignore[operator]
    return model


def scale_in_query(name: str) -> nn.Module:
    """The same function with queries twice as large and keys half as large."""
    model = zoo.build(name)
    with torch.no_grad():
        for part, factor in (("query", 2.0), ("key", 0.5)):
            for module_name, module in model.named_modules():
                if module_name.endswith(f"self.{part}"):
                    module.weight.mul_(factor)
                    module.bias.mul_(factor)
    return model


def value_turned(name: str) -> nn.Module:
    """The same function with the values of each head turned, and the output projection turned back."""
    model = zoo.build(name)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for layer in model.bert.encoder.layer:  # type: ignore[union-attr]
            attention, heads = layer.attention, 4
            size = attention.self.value.out_features // heads
            for head in range(heads):
                turn = torch.randn(size, size, generator=generator, dtype=torch.float64) + 3 * torch.eye(
                    size, dtype=torch.float64
                )
                part = slice(head * size, (head + 1) * size)
                attention.self.value.weight[part] = turn @ attention.self.value.weight[part]
                attention.self.value.bias[part] = turn @ attention.self.value.bias[part]
                attention.output.dense.weight[:, part] = attention.output.dense.weight[:, part] @ torch.linalg.inv(turn)
    return model


@pytest.mark.parametrize("rewrite", [written_out, scale_in_query, value_turned])
@pytest.mark.parametrize("rows", [0, 3])
def test_the_gradient_form_does_not_depend_on_how_attention_is_written(rewrite: Any, rows: int) -> None:
    plain, other = subject_of("bert"), subject_of("bert", model=rewrite("bert"))
    assert plain.output == pytest.approx(other.output, abs=1e-10)
    np.testing.assert_allclose(
        scores(other, "looprop", rows=rows), scores(plain, "looprop", rows=rows), rtol=1e-5, atol=1e-9
    )


def test_fewer_variants_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of("llama")
    whole = scores(subject, "looprop", rows=3)
    monkeypatch.setattr(exact_rows_module, "SCORES", 1)
    np.testing.assert_allclose(scores(subject, "looprop", rows=3), whole, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2])
def test_very_short_inputs(length: int) -> None:
    subject = subject_of("bert", length=length)
    found = make_method("looprop", rows=8).attribute([subject])[0]
    assert found.scores.shape == (length,)
    assert np.isfinite(found.scores).all()


def test_first_order_alone_puts_the_mean_of_the_others_in_place_of_the_read_out() -> None:
    subject = subject_of("bert", length=12)
    start = first_order(subject)
    effect = start.effect.numpy()  # (rows, features)
    others = [sum(effect[row, feature] for row in range(12) if row != feature) for feature in range(1, 12)]
    np.testing.assert_allclose(scores(subject, "looprop", rows=0), [np.mean(others), *others], rtol=1e-9)


def test_features_with_true_values_take_no_rows() -> None:
    """The same number of pairs goes to the other variants: with half of the features known, twice as many each."""
    subject = subject_of("bert", length=12)
    loo = scores(subject, "loo")
    found = make_method("looprop", rows=6, refine=6).attribute([subject.alone()])[0]
    known = np.isclose(found.scores, loo, rtol=0, atol=1e-9 * np.abs(loo).max())
    assert known.sum() >= 6
    assert known[0]
    # 6 * 12 pairs for six variants of at most 11 rows that are not their own, the read-out's among them: all that there
    # are.
    np.testing.assert_allclose(found.scores, loo, atol=1e-6 * np.abs(loo).max())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"rows": -1}, InputError),
        ({"rows": True}, InputError),
        ({"refine": -1}, InputError),
        ({"budget": 2}, InputError),
        ({"budget": 8, "rows": 3}, InputError),
        ({"backward": "gradiant"}, UnknownNameError),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make_method("looprop", **options)


def test_without_attention_it_is_refused() -> None:
    import looprop

    with pytest.raises(InputError, match="no tokens that attend"):
        looprop.attribute(nn.Linear(3, 2), torch.ones(1, 3), "looprop")


@pytest.mark.parametrize("backward", ["norm", "attnlrp", "cp"])
def test_other_backwards_run_and_differ(backward: Any) -> None:
    subject = subject_of("bert")
    assert not torch.allclose(first_order(subject, backward).effect, first_order(subject).effect)


@pytest.mark.parametrize("options", [{}, {"rows": 2}, {"refine": 1}, {"budget": 4}])
def test_a_model_without_tokens_is_refused_in_its_own_words(options: dict[str, Any]) -> None:
    """And not with an option of other methods."""
    subject = bind(adapt_module(nn.Linear(4, 2)), torch.ones(4), target=0)
    with pytest.raises(InputError, match="looprop has no meaning for a plain tensor model"):
        make_method("looprop", **options).attribute([subject])
