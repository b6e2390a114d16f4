"""Plans: their algebra on a model, the short form of layers, and what is refused."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch

import looprop
import tiny
from looprop import Plan
from looprop.errors import InputError, PlanError, UnknownNameError
from looprop.methods.lrp import LRP
from looprop.methods.registry import make_method
from looprop.propagation.plan import GRADIENT, parse_layers

TEXT = "the film is not good"


@pytest.fixture(scope="module")
def bench() -> looprop.Workbench:
    return looprop.load(tiny.tiny_classifier(num_hidden_layers=4, dtype=torch.float64))


def scores(bench: looprop.Workbench, method: Any, **options: Any) -> np.ndarray[Any, Any]:
    return bench.explain(TEXT, method, target=1, **options).scores


EQUAL = [
    ("lrp[cp=1-4]", "cp-lrp"),
    ("lrp[cp=:4]", "cp-lrp"),
    ("lrp[cp=1:]", "cp-lrp"),
    ("lrp[cp=all]", "cp-lrp"),
    ("lrp[cp=1,2,3,4]", "cp-lrp"),
    ("lrp", "attnlrp"),
    ("lrp[cp=1]", "lrp[cp=:1]"),
    ("lrp[cp=3:]", "lrp[cp=3-4]"),
    ("lrp[cp=3:]", "lrp[cp=3,4]"),
    ("lrp[cp=1,3:]", "lrp[cp=1,3,4]"),
    ("lrp[cp=3:,1]", "lrp[cp=1,3,4]"),
    ("lrp[cp=4,2]", "lrp[cp=2,4]"),
    ("lrp[cp=2,epsilon=0.1]", "lrp[cp=2;epsilon=0.1]"),
    ("lrp[ cp = 2 ; bias = printed ]", "lrp[bias=printed;cp=2]"),
    ("lrp[epsilon=0]", "attnlrp"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_two_names_for_one_plan(bench: looprop.Workbench, one: str, other: str) -> None:
    np.testing.assert_array_equal(scores(bench, one), scores(bench, other))


@pytest.mark.parametrize(
    ("plan", "method"),
    [
        (Plan(attention="cp"), "cp-lrp"),
        (Plan(attention={layer: "cp" for layer in (1, 2, 3, 4)}), "cp-lrp"),
        (Plan(attention={}, otherwise="cp"), "cp-lrp"),
        (Plan(attention={1: "attnlrp", 4: "attnlrp"}, otherwise="cp"), "lrp[cp=2-3]"),
        (Plan(attention={}), "attnlrp"),
        (Plan(), "attnlrp"),
        (GRADIENT, "grad-x-input"),
    ],
)
def test_plans_and_their_names(bench: looprop.Workbench, plan: Plan, method: str) -> None:
    np.testing.assert_array_equal(scores(bench, LRP(plan=plan)), scores(bench, method))


def test_every_layer_and_every_option_matters(bench: looprop.Workbench) -> None:
    methods = [
        "attnlrp",
        "cp-lrp",
        "grad-x-input",
        *(f"lrp[cp={layer}]" for layer in (1, 2, 3, 4)),
        "lrp[epsilon=0.1]",
        "lrp[bias=printed]",
    ]
    plans = [
        LRP(plan=Plan(norm="gradient")),
        LRP(plan=Plan(activation="gradient")),
        LRP(plan=Plan(attention={2: "gradient"})),
    ]
    found = [scores(bench, method) for method in (*methods, *plans)]
    for i, one in enumerate(found):
        for other in found[i + 1 :]:
            assert np.abs(one - other).max() > 1e-6 * np.abs(one).max()


def test_epsilon_has_its_limit_at_zero(bench: looprop.Workbench) -> None:
    exact = scores(bench, "attnlrp")
    distances = [np.abs(scores(bench, "attnlrp", epsilon=epsilon) - exact).max() for epsilon in (1e-2, 1e-4, 1e-8)]
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 1e-5 * np.abs(exact).max()


def test_grad_x_input_is_the_ordinary_gradient(bench: looprop.Workbench) -> None:
    encoding = bench.tokenizer(TEXT, return_tensors="pt")
    embedded = bench.model.get_input_embeddings()(encoding["input_ids"]).detach().requires_grad_()  # type: ignore[operator]
    logit = bench.model(inputs_embeds=embedded, attention_mask=encoding["attention_mask"]).logits[0, 1]
    (gradient,) = torch.autograd.grad(logit, embedded)
    np.testing.assert_allclose(
        scores(bench, "grad-x-input"), (embedded * gradient).sum(-1)[0].detach().numpy(), rtol=1e-9
    )


@pytest.mark.parametrize("cp", ["5", "4-6", "6:", "2,9"])
def test_a_layer_that_does_not_exist(bench: looprop.Workbench, cp: str) -> None:
    with pytest.raises(PlanError, match="4 attention layers"):
        scores(bench, f"lrp[cp={cp}]")


@pytest.mark.parametrize("cp", ["0", "x", "3-1", "1;2", ":0", "", "-1", "1-"])
def test_layers_that_make_no_sense(cp: str) -> None:
    with pytest.raises((PlanError, InputError)):
        make_method(f"lrp[cp={cp}]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", [3]),
        ("4-6", [4, 5, 6]),
        (":3", [1, 2, 3]),
        ("5:", [5, 6]),
        ("2,5", [2, 5]),
        (" 2 , 4- 5 ".replace("- ", "-"), [2, 4, 5]),
    ],
)
def test_layers_in_short(text: str, expected: list[int]) -> None:
    assert parse_layers(text, 6) == expected


@pytest.mark.parametrize("layer", [1, "1"])
def test_a_layer_may_be_a_number(bench: looprop.Workbench, layer: Any) -> None:
    np.testing.assert_array_equal(scores(bench, "lrp", cp=layer), scores(bench, "lrp[cp=1]"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "cpp"}, "unknown attention rule 'cpp'; did you mean 'cp'"),
        ({"attention": {1: "lrp"}}, "unknown attention rule 'lrp'"),
        ({"attention": {0: "cp"}}, "layers count from 1, got 0"),
        ({"attention": {"1": "cp"}}, "layers count from 1"),
        ({"attention": {True: "cp"}}, "layers count from 1"),
        ({"bias": "kept"}, "unknown bias share 'kept'; did you mean 'keep'"),
        ({"norm": "constant"}, "unknown norm rule"),
        ({"activation": "linear"}, "unknown activation rule"),
        ({"product": "half"}, "unknown product rule 'half'; did you mean 'halves'"),
        ({"epsilon": -0.1}, "epsilon must be a number >= 0, got -0.1"),
        ({"epsilon": float("nan")}, "epsilon must be a number >= 0"),
        ({"epsilon": float("inf")}, "epsilon must be a number >= 0"),
        ({"epsilon": "small"}, "epsilon must be a number >= 0, got 'small'"),
    ],
)
def test_plans_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises((PlanError, UnknownNameError), match=message):
        Plan(**options)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("cplrp", "unknown method 'cplrp'; did you mean 'cp-lrp'"),
        ("atnlrp", "did you mean 'attnlrp'"),
        ("lrp[cpp=1]", "unknown option of lrp 'cpp'; did you mean 'cp'"),
        ("attnlrp[cp=1]", "unknown option of attnlrp 'cp'"),
        ("lrp[cp]", r"look like lrp\[key=value\]"),
        ("???", "unknown method"),
    ],
)
def test_unknown_names_answer_with_the_closest(method: str, message: str) -> None:
    with pytest.raises((UnknownNameError, InputError), match=message):
        make_method(method)


def test_a_plan_leaves_no_room_for_other_options() -> None:
    with pytest.raises(InputError, match="either a plan or"):
        LRP(plan=Plan(), cp="1")
    with pytest.raises(InputError, match="made already"):
        make_method(LRP(), cp="1")


def test_plans_cannot_be_changed_from_outside() -> None:
    layers: dict[int, Any] = {1: "cp"}
    plan = Plan(attention=layers)
    layers[2] = "cp"
    assert plan.rule(2) == "attnlrp"
    assert plan.to_dict()["attention"] == {"1": "cp"}


def test_a_plan_can_be_sent_to_another_process() -> None:
    plan = Plan(attention={2: "cp"}, otherwise="attnlrp", epsilon=0.5, allow=frozenset({"sin"}), rules={"tanh": abs})
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert pickle.loads(pickle.dumps(make_method("lrp[cp=1:]"))).options == make_method("lrp[cp=1:]").options
