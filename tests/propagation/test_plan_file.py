"""Plans as files: what is written there is read, and what does not belong there is named."""

from pathlib import Path

import pytest

from looprop import Plan
from looprop.errors import DataError, InputError, LoopropError
from looprop.methods import make_method
from looprop.propagation.plan_file import LARGEST, parse_plan, read_plan

PLANS = {
    "{}": Plan(),
    "{attention: {1: cp, 3: gradient}, temperature: 2.0, bias: shared}": Plan(
        attention={1: "cp", 3: "gradient"}, temperature=2.0, bias="shared"
    ),
    "{linear: gamma, gamma: 0.1, allow: [tanh], epsilon: 1.0e-6}": Plan(
        linear="gamma", gamma=0.1, allow=frozenset({"tanh"}), epsilon=1e-6
    ),
}


@pytest.mark.parametrize("text", PLANS)
@pytest.mark.parametrize("readout", ["word", "sum"])
def test_a_plan_is_read(text: str, readout: str, tmp_path: Path) -> None:
    plan, place = PLANS[text], tmp_path / "plan.yaml"
    place.write_text(f"plan: {text}\nreadout: {readout}\nabout: {{verdict: ä}}\n", encoding="utf-8")
    assert read_plan(place) == (plan, readout)
    made = make_method(f"lrp[plan={place}]")
    assert made.options == {"cp": None, "readout": readout, "plan": plan.to_dict()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan: {atention: cp}", "unknown option of a plan in plan 'atention'; did you mean 'attention'"),
        ("plan: {attention: cpp}", "plan: unknown attention rule 'cpp'; did you mean 'cp'"),
        ("plan: {attention: {0: cp}}", "layers count from 1, got 0"),
        ("plan: {attention: {'1': cp}}", "layers count from 1, got '1'"),
        ("plan: {attention: [cp]}", "'attention' must be a rule, or rules by layer"),
        ("plan: {norm: [gradient]}", "'norm' must be one value"),
        ("plan: {allow: tanh}", "'allow' must be a list of operations"),
        ("plan: {allow: [tanhh]}", "unknown operation 'tanhh'"),
        ("plan: {epsilon: -1}", "epsilon must be a number >= 0, got -1"),
        ("plan: {rules: {tanh: x}}", "unknown option of a plan in plan 'rules'"),
        ("plan: []\nreadout: wrd", "unknown readout in plan 'wrd'; did you mean 'word'"),
        ("plan: text", "'plan' must hold options by name, got str"),
        ("plans: {}", "must hold the key 'plan'"),
        ("plan: {}\nredout: word", "unknown key of a plan file in plan 'redout'; did you mean 'readout'"),
        ("- 1", "must hold the key 'plan'"),
        ("", "must hold the key 'plan'"),
        ("plan: {a: !!python/object/apply:os.system ['true']}", "is not YAML"),
        ("plan: &a {norm: gradient}\nabout: *a", "references"),
        ("plan: {" * 5000, "is not YAML"),
        ("plan: \x00", "is not YAML"),
    ],
)
def test_what_does_not_belong_there_is_named(text: str, message: str) -> None:
    with pytest.raises(LoopropError) as caught:
        parse_plan(text)
    assert message in str(caught.value)


def test_files_that_are_no_plans(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read the plan"):
        make_method("lrp[plan=/no/such/plan.yaml]")
    large, bytes_ = tmp_path / "large.yaml", tmp_path / "bytes.yaml"
    large.write_text("#" * (LARGEST + 1))
    bytes_.write_bytes(b"plan: \xff\xfe")
    with pytest.raises(DataError, match="more than 100,000 characters"):
        read_plan(large)
    with pytest.raises(DataError, match="it is not UTF-8"):
        read_plan(bytes_)


def test_own_options_do_not_go_with_a_file(tmp_path: Path) -> None:
    place = tmp_path / "plan.yaml"
    place.write_text("plan: {norm: gradient}\nreadout: word\n")
    with pytest.raises(InputError, match="give either a plan or cp"):
        make_method("lrp", plan=place, cp="1")
    with pytest.raises(InputError, match="is read at 'word', got readout='sum'"):
        make_method("lrp", plan=place, readout="sum")
