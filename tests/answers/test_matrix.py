"""Features against answer tokens: each column against a literal explanation of that token, sums against the whole, and
the passes that it takes.
"""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import looprop
from looprop import Continuation, ExplanationMatrix
from looprop.errors import DataError, InputError, UnknownNameError
from looprop.workbench import Workbench
from tiny import CHAT, byte_level, tiny_decoder

PROMPT = "the film is good. It was not bad! Is it? The movie was great fun. It is."


@pytest.fixture(scope="module")
def decoder() -> Workbench:
    tokenizer = byte_level()
    tokenizer.chat_template = CHAT
    return looprop.load(tiny_decoder(tokenizer, n_positions=256))


class Passes:
    """How often a model was run forward, in rows of its batches, and how often backward."""

    def __init__(self, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.forward = self.rows = self.backward = 0
        run, grad = type(model).forward, torch.autograd.grad

        @functools.wraps(run)
        def counted(module: Any, *args: Any, **kwargs: Any) -> Any:
            self.forward += 1
            self.rows += len(kwargs["input_ids"])
            return run(module, *args, **kwargs)

        def counted_grad(*args: Any, **kwargs: Any) -> Any:
            self.backward += 1
            return grad(*args, **kwargs)

        monkeypatch.setattr(type(model), "forward", counted)
        monkeypatch.setattr(torch.autograd, "grad", counted_grad)


METHODS = ["loo", "alone", "both-ends", "shapley", "attnlrp", "cp-lrp", "grad-x-input"]


def test_the_options_are_those_that_were_asked_for(decoder: Workbench) -> None:
    """Shapley values of each token are computed by orders, whatever was asked for."""
    found = decoder.explain(decoder.answer(PROMPT, answer=" good film"), "shapley", output="each", samples=40)
    assert (found.explanation.options["by"], found.explanation.options["samples"]) == ("sets", 40)


@pytest.mark.parametrize("method", METHODS)
def test_sums_over_the_answer_are_the_scores_of_the_whole(decoder: Workbench, method: str) -> None:
    answer = decoder.answer(PROMPT, max_new_tokens=5)
    each = decoder.explain(answer, method, output="each")
    whole = decoder.explain(answer, method)
    assert each.matrix.shape == (5, 5)
    assert each.matrix.sum(1) == pytest.approx(whole.scores, abs=1e-4)
    assert each.scores == pytest.approx(whole.scores, abs=1e-4)
    assert each.explanation.output == pytest.approx(whole.output, abs=1e-5)
    assert each.features == whole.features


@pytest.mark.parametrize("method", ["loo", "attnlrp", "looprop[rows=all]"])
def test_a_column_is_the_explanation_of_its_token(decoder: Workbench, method: str) -> None:
    answer = decoder.answer(PROMPT, max_new_tokens=4)
    each = decoder.explain(answer, method, output="each")
    for k in range(4):
        alone = decoder.explain(answer[k], method)
        assert each[k].scores == pytest.approx(alone.scores, abs=1e-4)
        assert each[k].output == pytest.approx(alone.output, abs=1e-4) == each.logprobs[k]
    assert each.logprobs == pytest.approx(answer.logprobs, abs=1e-5)


def test_sampled_orders_are_shared(decoder: Workbench) -> None:
    answer = decoder.answer(PROMPT, max_new_tokens=4)
    options = {"features": "word", "within": (0, 40), "samples": 12, "tolerance": 0.3, "by": "orders"}
    each = decoder.explain(answer, "shapley", output="each", **options)
    whole = decoder.explain(answer, "shapley", **options)
    assert not whole.details["exact"]
    assert each.matrix.sum(1) == pytest.approx(whole.scores, abs=1e-4)
    assert each.explanation.cost == whole.cost, "the tokens cost no removal of their own"


def test_one_set_of_removals_for_all_tokens(decoder: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passes(decoder.model, monkeypatch)  # which is another version of the model
    answer = decoder.answer(PROMPT, max_new_tokens=20)
    decoder.explain(answer, "loo")  # what has to be proven of the model is proven here
    passes.rows = 0
    decoder.explain(answer, "loo")
    single, passes.rows = passes.rows, 0
    each = decoder.explain(answer, "loo", output="each")
    assert passes.rows == single
    assert each.explanation.cost == len(each.features)


def test_one_forward_pass_and_one_backward_pass_per_token(decoder: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("attnlrp", "cp-lrp"):
        with monkeypatch.context() as patch:
            passes = Passes(decoder.model, patch)
            answer = decoder.answer(PROMPT, max_new_tokens=20)
            assert len(answer) == 20
            passes.forward = passes.rows = passes.backward = 0
            decoder.explain(answer, method, output="each")
        assert (passes.forward, passes.rows) == (1, 1)
        assert passes.backward <= 20


def test_parts_and_top(decoder: Workbench) -> None:
    answer = decoder.answer(PROMPT, answer=" very good film")
    each = decoder.explain(answer, "loo", output="each")
    stop = each.spans[2][1]
    part = each[f"0:{stop}"]
    assert part.scores == pytest.approx(each.matrix[:, :3].sum(1))
    assert (part.label, part.output) == (answer.text[:stop], pytest.approx(sum(each.logprobs[:3])))
    assert each[-1].scores == pytest.approx(each.matrix[:, -1])
    order = sorted(zip(each.scores, each.features, strict=True), reverse=True)
    assert each.top(2) == [(name, score) for score, name in order[:2]]
    cut = decoder.explain(answer[1:4], "loo", output="each")
    assert cut.tokens == answer.tokens[1:4]
    assert cut.answer == "".join(cut.tokens) == "".join(cut.answer[a:b] for a, b in cut.spans)
    assert cut.matrix == pytest.approx(each.matrix[:, 1:4], abs=1e-4)
    with pytest.raises(InputError, match="a part of an answer is tokens"):
        each["nonsense"]


def test_a_continuation_has_a_matrix_too(decoder: Workbench) -> None:
    each = decoder.explain("the film is", "loo", target=Continuation(" good fun"), output="each")
    assert "".join(each.tokens) == each.answer == " good fun"
    assert len(each.features) == len(decoder.explain("the film is", "loo", target=" good"))


def test_saved_and_read_again(decoder: Workbench, tmp_path: Path) -> None:
    each = decoder.explain(decoder.answer(PROMPT, max_new_tokens=3), "loo", output="each")
    path = each.save(tmp_path / "m.json")
    again = ExplanationMatrix.load(path)
    assert again.to_dict() == each.to_dict() == json.loads(path.read_text())
    assert np.array_equal(again.matrix, each.matrix)
    assert again.explanation.details["answer"]["tokens"] == list(each.tokens)
    table = each.to_pandas()
    assert list(table.columns) == ["feature", 0, 1, 2, "sum"]
    data = each.to_dict()
    for broken in ({**data, "matrix": [[1.0]]}, {**data, "tokens": 3}, {k: v for k, v in data.items() if k != "spans"}):
        with pytest.raises(DataError):
            ExplanationMatrix.from_dict(broken)
    with pytest.raises(InputError, match=r"must end in \.json"):
        each.save(tmp_path / "m.txt")


def test_what_has_no_matrix_is_refused(decoder: Workbench) -> None:
    with pytest.raises(InputError, match="only a continuation or an answer has tokens"):
        decoder.explain("the film is", "loo", target=" good", output="each")
    with pytest.raises(InputError, match="rollout does not depend on what is said"):
        decoder.explain(decoder.answer(PROMPT, max_new_tokens=2), "rollout", output="each")
    with pytest.raises(UnknownNameError, match="unknown output 'all'"):
        decoder.explain("the film is", output="all")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="one input and one target"):
        decoder.explain(["the film is"], output="each")
