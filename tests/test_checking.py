"""`check=`: true values are those of leave-one-out, cost is counted, and what the method knew is free."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import looprop
import zoo
from looprop.checking import features_apart, seed_of
from looprop.errors import DataError, InputError
from looprop.metrics import estimate_r
from looprop.models.loading import adapt_module
from looprop.result import Check
from tiny import tiny_classifier, tiny_decoder

TEXT = "This is not a bad film at all, and the actors are wonderful although the plot drags on for far too long."
SCHEMA = json.loads((Path(__file__).parents[1] / "docs/schema/explanation.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def m() -> looprop.Workbench:
    return looprop.load()


@pytest.fixture(scope="module")
def truth(m: looprop.Workbench) -> looprop.Explanation:
    return m.explain(TEXT, "loo")


def known(e: looprop.Explanation) -> Check:
    assert e.check is not None
    return e.check


@pytest.mark.parametrize("method", ["attnlrp", "rollout", "random"])
def test_eight_true_values_are_those_of_leave_one_out(
    m: looprop.Workbench, truth: looprop.Explanation, method: str
) -> None:
    plain, e = m.explain(TEXT, method), m.explain(TEXT, method, check=8)
    check = known(e)
    assert plain.check is None
    np.testing.assert_array_equal(e.scores, plain.scores)
    assert (len(check.places), check.bought, check.removal, check.exact) == (8, 8, "attention-mask", False)
    assert {0, len(e) - 1} <= set(check.places)  # [CLS] and [SEP]
    largest = [i for i in np.argsort(-np.abs(e.scores)) if i not in (0, len(e) - 1)][:4]
    assert set(largest) <= set(check.places)
    np.testing.assert_allclose(check.values, truth.scores[list(check.places)], atol=1e-5)
    # Eight values, and one pass for what all features do together.
    assert check.cost == 9
    assert e.cost == plain.cost + 9
    assert check.low <= check.r <= check.high
    subject = m.subject(TEXT)
    found = estimate_r(e.scores, check.places, check.values, apart=features_apart(subject), seed=seed_of(subject))
    assert (found.r, found.low, found.high) == (check.r, check.low, check.high)
    assert known(m.explain(TEXT, method, check=8)) == check


def test_a_whole_check_is_r_itself(m: looprop.Workbench, truth: looprop.Explanation) -> None:
    e = m.explain(TEXT, "cp-lrp", check=1000)
    assert known(e).exact
    assert known(e).r == known(e).low == known(e).high == pytest.approx(e.correlation(truth), abs=1e-5)
    assert f"exact (all {len(e)} true values)" in known(e).verdict


def test_what_a_method_knows_is_free(m: looprop.Workbench, truth: looprop.Explanation) -> None:
    plain, e = m.explain(TEXT, "looprop", rows=0, refine=3), m.explain(TEXT, "looprop", rows=0, refine=3, check=8)
    assert (known(e).bought, len(known(e).places)) == (5, 8)
    assert e.cost == plain.cost + 5 + 1
    own = [i for i in range(len(e)) if abs(e.scores[i] - truth.scores[i]) < 1e-5]
    assert set(own) <= set(known(e).places)
    # Nobody asked, and yet all is known.
    assert known(truth).itself
    assert known(truth).cost == 0
    assert known(truth).verdict == "exact: these are its values"
    assert plain.check is None


def test_values_that_were_put_into_the_scores_do_not_make_them_look_better(m: looprop.Workbench) -> None:
    """Six scores are true, the others are noise: the fit must rest on what the check has bought."""
    e = m.explain(TEXT, "looprop", rows=0, refine=6, check=8)
    assert known(e).bought >= 4
    assert len(known(e).places) > 8
    assert not known(e).exact


def test_short_and_constant_inputs_have_no_r(m: looprop.Workbench) -> None:
    pair = m.explain("good", "attnlrp", features=[[0, 2], [1]], check=8)
    assert math.isnan(known(pair).r)
    assert known(pair).verdict.startswith("undefined")
    assert known(pair).cost == 0
    assert json.loads(json.dumps(pair.to_dict()))["check"]["r"] is None


def test_where_nothing_matters_that_is_said() -> None:
    model, tokenizer = tiny_classifier()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "classifier" in name:
                weight.zero_()
        model.classifier.bias.copy_(torch.arange(len(model.classifier.bias), dtype=weight.dtype))
    e = looprop.load((model, tokenizer)).explain("the film was not so bad at all and the actors", "cp-lrp", check=8)
    assert known(e).matters is False
    assert "nothing matters" in known(e).verdict
    assert ("r to leave-one-out", known(e).verdict) in list(e.strip().facts)


def test_a_text_that_says_it_in_many_ways_is_told_apart(m: looprop.Workbench) -> None:
    """Each of three praises can go: leave-one-out is exact, and shows next to nothing."""
    for method in ("loo", "looprop"):
        e = m.explain("A warm, funny and quietly moving film.", method, check=8)
        assert known(e).itself
        assert known(e).matters is False
        assert known(e).cost == 1
        assert e.cost == len(e) + 1
        assert known(e).verdict.startswith("exact: these are its values; but nothing matters by itself")
    nothing = m.set_function("A warm, funny and quietly moving film.")(np.array([e.special]))[0]
    effects = np.abs(e.scores[~np.array(e.special)])
    assert effects.max() < 0.05 * abs(e.output - nothing)


def test_prompts_images_and_tensors_can_be_checked() -> None:
    prompt = looprop.load(tiny_decoder()).explain("the film was not so bad at all and the actors", "attnlrp", check=8)
    assert {0, len(prompt) - 1} <= set(known(prompt).places)  # the sink and the read-out
    assert known(prompt).removal == "attention-mask"
    image = torch.rand(1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    vit = looprop.load((zoo.build("vit"), None))
    e, loo = vit.explain(image, "attnlrp", check=8), vit.explain(image, "loo")
    assert known(e).removal == "zero"
    np.testing.assert_allclose(known(e).values, loo.scores[list(known(e).places)], atol=1e-6)
    assert known(vit.explain(image, "looprop", check=8)).removal == "attention-mask"
    torch.manual_seed(0)
    net = looprop.Workbench(adapt_module(nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 3))))
    x = torch.randn(20)
    tensor, loo = net.explain(x, "grad-x-input", check=8), net.explain(x, "loo")
    assert known(tensor).removal == "zero"
    np.testing.assert_allclose(known(tensor).values, loo.scores[list(known(tensor).places)], atol=1e-6)


def test_a_method_is_checked_by_its_own_removal(m: looprop.Workbench) -> None:
    e = m.explain(TEXT, "alone", removal="mask-token", check=8)
    loo = m.explain(TEXT, "loo", removal="mask-token")
    assert known(e).removal == "mask-token"
    np.testing.assert_allclose(known(e).values, loo.scores[list(known(e).places)], atol=1e-5)


@pytest.mark.parametrize("wrong", [0, 3, -8, 8.0, True, "8"])
def test_a_wrong_number_is_refused_before_anything_runs(m: looprop.Workbench, wrong: object) -> None:
    with pytest.raises(InputError, match="check must be an integer >= 4"):
        m.explain(TEXT, "attnlrp", check=wrong)  # type: ignore[call-overload]


def test_what_is_shown_says_it(m: looprop.Workbench, tmp_path: Path) -> None:
    e = m.explain(TEXT, "attnlrp", check=8)
    page = e.save(tmp_path / "e.html").read_text(encoding="utf-8")
    assert "r to leave-one-out" in page
    assert known(e).verdict in page
    assert page.count('class="f p special known"') + page.count('class="f n special known"') == 2
    assert "true value" in page
    two = looprop.Explanations([e, m.explain(TEXT, "cp-lrp", check=8)]).save(tmp_path / "two.html")
    assert known(e).verdict in two.read_text(encoding="utf-8")
    frame = e.to_pandas()
    assert frame["true_value"].notna().sum() == 8
    assert e.words().check is None


def test_a_check_survives_a_file_and_a_damaged_one_is_refused(m: looprop.Workbench, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    e = m.explain(TEXT, "attnlrp", check=8)
    data = json.loads(e.save(tmp_path / "e.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert looprop.Explanation.load(tmp_path / "e.json").check == e.check
    for field, value in (
        ("r", "0.5"),
        ("places", [0, 99]),
        ("places", [0, 0]),
        ("values", [1.0]),
        ("exact", None),
        ("bought", -1),
        ("extra", 1),
    ):
        with pytest.raises(DataError, match="check"):
            looprop.Explanation.from_dict({**data, "check": {**data["check"], field: value}})
    with pytest.raises(DataError, match="missing in the check: 'removal'"):
        looprop.Explanation.from_dict({**data, "check": {k: v for k, v in data["check"].items() if k != "removal"}})
    with pytest.raises(DataError, match="must be an object"):
        looprop.Explanation.from_dict({**data, "check": []})


def test_undefined_r_is_said_in_words(m: looprop.Workbench) -> None:
    check = known(m.explain(TEXT, "attnlrp", check=8))
    assert replace(check, r=math.nan).verdict == "undefined (8 true values)"
    assert replace(check, r=0.625, low=0.41, high=-0.2).verdict == "about 0.62 (0.41 to −0.20, 8 true values)"
