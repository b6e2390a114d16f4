"""What explains where no method is named: looprop, and another where that refuses the model, with the reason."""

import inspect
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import looprop
import tiny_heads
from looprop.errors import InputError, TargetError, UnknownNameError
from looprop.methods import DefaultMethodWarning
from looprop.methods.names import COMPARED, DEFAULT
from looprop.models.loading import adapt_module
from tiny import tiny_classifier

TEXT = "the film was not so bad at all and the actors"


@pytest.fixture(scope="module")
def m() -> looprop.Workbench:
    return looprop.load(tiny_classifier())


def test_looprop_explains_where_no_method_is_named(m: looprop.Workbench) -> None:
    by_default, named = m.explain(TEXT), m.explain(TEXT, "looprop")
    assert by_default.method == DEFAULT == "looprop"
    np.testing.assert_allclose(by_default.scores, named.scores, atol=1e-6)
    assert by_default.cost == named.cost
    assert "instead_of" not in by_default.details


def test_options_are_those_of_the_default(m: looprop.Workbench) -> None:
    assert m.explain(TEXT, rows=0).options == m.explain(TEXT, "looprop", rows=0).options
    with pytest.raises(UnknownNameError, match="option of looprop"):
        m.explain(TEXT, epsilon=0.1)


def test_the_cheap_methods_are_one_word_away(m: looprop.Workbench) -> None:
    assert m.explain(TEXT, "cp-lrp").cost == m.explain(TEXT, "attnlrp").cost == 3


def test_evaluation_and_command_line_measure_the_same_methods() -> None:
    assert inspect.signature(looprop.evaluate).parameters["methods"].default == COMPARED
    assert DEFAULT in COMPARED


def test_an_encoder_decoder_is_explained_by_another_with_the_reason() -> None:
    m = tiny_heads.bench("t5")
    with pytest.warns(DefaultMethodWarning, match=r"explained by attnlrp, as looprop: .*encoder-decoder"):
        e = m.explain("the film is not good")
    assert e.method == "attnlrp"
    assert "encoder-decoder" in e.details["instead_of"]["looprop"]
    assert "instead of looprop" in dict(e.strip().facts)
    with pytest.raises(InputError, match="encoder-decoder"):
        m.explain("the film is not good", "looprop")  # by its name there is no other
    with pytest.raises(InputError, match="encoder-decoder"):
        m.explain("the film is not good", budget=8)  # options are its own


def test_plain_tensors_by_attnlrp_and_what_has_no_rules_by_leave_one_out() -> None:
    x = torch.linspace(0.1, 1.0, 6)
    net = looprop.Workbench(adapt_module(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))))
    with pytest.warns(DefaultMethodWarning, match="plain tensor"):
        assert net.explain(x).method == "attnlrp"
    odd = looprop.Workbench(adapt_module(lambda x: torch.special.i0(x).sum(1)))
    with pytest.warns(DefaultMethodWarning, match=r"explained by loo, as looprop: .*; attnlrp: .*i0"):
        e = odd.explain(x)
    assert e.method == "loo"
    np.testing.assert_allclose(e.scores, torch.special.i0(x).numpy() - 1.0, atol=1e-5)
    assert list(e.details["instead_of"]) == ["looprop", "attnlrp"]


def test_what_is_wrong_for_every_method_is_not_met_by_another(m: looprop.Workbench) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UnknownNameError):
            m.explain(TEXT, target="no such label")
        with pytest.raises(TargetError):
            m.explain(TEXT, target=99)
        with pytest.raises(InputError):
            m.explain("")
