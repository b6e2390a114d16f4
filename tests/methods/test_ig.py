"""Integrated gradients: closed forms, completeness, baselines, and a line that leaves no trace."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tiny
import zoo
from looprop.errors import InputError, ModelError, RuleError, UnknownNameError
from looprop.methods.ig import IntegratedGradients, IntegratedGradientsWarning, StraightLine
from looprop.methods.registry import make_method
from looprop.models.encoded import partition
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, bind, new_subject
from looprop.models.target import Target
from looprop.models.tensor_module import TensorModule
from looprop.tensors import attribute
from looprop.workbench import load
from removal.naive import PAD, TOKENIZER, Tokens, encode, subject_of


@pytest.mark.parametrize("grouping", ["left", "right"])
def test_a_product_of_three_is_shared_evenly(grouping: str) -> None:
    """The integral of 3 a^2 over three factors: 24 / 3 each. The midpoint rule is off by 1 / (4 steps^2) of it."""

    def product(x: Tensor) -> Tensor:
        return (x[:, 0] * x[:, 1]) * x[:, 2] if grouping == "left" else x[:, 0] * (x[:, 1] * x[:, 2])

    x = torch.tensor([[2.0, 3.0, 4.0]], dtype=torch.float64)
    scores = attribute(product, x, "ig", steps=200)
    np.testing.assert_allclose(scores.numpy(), [[8.0, 8.0, 8.0]], rtol=1e-5)
    # The error of the rule itself, exactly.
    few = attribute(product, x, "ig", steps=3)
    np.testing.assert_allclose(few.numpy(), [[8.0 * (1 - 1 / (4 * 3**2))] * 3], rtol=1e-12)


def smooth(x: Tensor) -> Tensor:
    return torch.tanh(x[:, 0] * x[:, 1]) + torch.exp(-(x[:, 2] ** 2)) * x[:, 3]


def test_the_residual_vanishes_on_a_smooth_model() -> None:
    x = torch.tensor([0.7, -1.3, 0.5, 2.0], dtype=torch.float64)
    subject = bind(TensorModule(smooth), x)
    (found,) = IntegratedGradients(steps=200).attribute([subject])
    change = math.tanh(0.7 * -1.3) + math.exp(-0.25) * 2.0
    assert found.details["baseline_output"] == 0.0
    assert found.residual == pytest.approx(change - found.scores.sum(), abs=1e-12)
    assert abs(found.residual) < 1e-3 * abs(change)
    assert found.cost == 601.0


def test_the_midpoint_rule_by_a_literal_loop() -> None:
    x = torch.tensor([0.7, -1.3, 0.5, 2.0], dtype=torch.float64)
    total = torch.zeros(4, dtype=torch.float64)
    for k in range(7):
        point = ((k + 0.5) / 7 * x).requires_grad_()
        total += torch.autograd.grad(smooth(point[None])[0], point)[0] / 7
    np.testing.assert_allclose(attribute(smooth, x[None], "ig", steps=7)[0].numpy(), (x * total).numpy(), rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"tolerance": 0.05}])
def test_a_line_that_begins_at_no_number_is_refused(options: dict[str, Any]) -> None:
    """Nothing has a direction at zero: what was shared out would go by the number of steps."""
    x = torch.tensor([[1.0, 2.0, 3.0]])
    with pytest.raises(ModelError, match="answers the baseline with NaN"):
        attribute(lambda rows: (rows / rows.norm(dim=1, keepdim=True))[:, 0], x, "ig", **options)


def test_gradients_that_are_no_numbers_are_refused() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0]])
    with pytest.raises(ModelError, match="gradients that are NaN"):
        attribute(lambda rows: (rows - 0.51).sqrt().nan_to_num(0.0)[:, 0] + rows[:, 1], x, "ig")


def test_a_large_residual_is_said() -> None:
    """A step of height 1: with one step the gradient at the middle knows nothing of it."""
    x = torch.tensor([[1.0]], dtype=torch.float64)

    def step(rows: Tensor) -> Tensor:
        return torch.sigmoid(200 * (rows[:, 0] - 0.3))

    with pytest.warns(IntegratedGradientsWarning, match="of an output change of 1 unexplained: use more than 1 steps"):
        attribute(step, x, "ig", steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert attribute(step, x, "ig", steps=2000).item() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("family", ["bert", "distilbert", "albert", "mpnet", "gpt2", "vit"])
def test_the_line_is_complete(family: str) -> None:
    subject = subject_of(family, length=6)
    (found,) = IntegratedGradients(steps=64).attribute([subject])
    assert found.residual is not None
    assert abs(found.residual) < 0.02 * abs(subject.output - found.details["baseline_output"])


def test_models_that_normalise_their_embeddings_need_another_baseline() -> None:
    """Norms that come first make every embedding but zero one size: the answer jumps where the line leaves zero."""
    subject = subject_of("llama", length=6)
    with pytest.warns(
        IntegratedGradientsWarning, match="baseline='pad' or 'mask' if the model normalises its embeddings"
    ):
        IntegratedGradients(steps=64).attribute([subject])
    (found,) = IntegratedGradients(steps=64, baseline="mask").attribute([subject])
    assert found.residual is not None
    assert abs(found.residual) < 0.02 * abs(subject.output - found.details["baseline_output"])


@pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
@pytest.mark.parametrize("family", ["bert", "modernbert", "gpt2", "llama", "gemma3", "t5-encoder", "vit"])
def test_internal_batches_change_nothing(family: str) -> None:
    subject = subject_of(family, length=6)
    (whole,) = IntegratedGradients(steps=10, tokens=10_000).attribute([subject])
    (parts,) = IntegratedGradients(steps=10, tokens=1).attribute([subject])
    np.testing.assert_allclose(whole.scores, parts.scores, atol=1e-9)


@pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "modernbert", "gpt2", "llama", "gemma3"])
@pytest.mark.parametrize("steps", [3, 7])
def test_the_last_layer_cut_to_its_read_out_changes_nothing(
    family: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with as many points in a batch as there are rows."""
    (cut,) = IntegratedGradients(steps=steps).attribute([subject_of(family, length=7)])
    monkeypatch.setattr(StraightLine, "_cut", 0)
    (whole,) = IntegratedGradients(steps=steps).attribute([subject_of(family, length=7)])
    np.testing.assert_allclose(cut.scores, whole.scores, rtol=1e-9, atol=1e-9)
    assert cut.residual == pytest.approx(whole.residual, abs=1e-9)


@pytest.mark.parametrize(("family", "cut"), [("bert", True), ("llama", True), ("gpt2", False), ("vit", False)])
def test_where_the_last_layer_is_cut(family: str, cut: bool) -> None:
    assert bool(StraightLine(subject_of(family, length=7), "zero", keep_special=False)._cut) is cut
    assert StraightLine(subject_of(family, length=3), "zero", keep_special=False)._cut == 0


def test_a_cut_that_gives_another_gradient_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is of the gradient itself, on the input at hand."""
    subject = subject_of("bert", length=7)
    (wanted,) = IntegratedGradients(steps=3).attribute([subject])
    right = StraightLine._fewer_rows

    def wrong(self: StraightLine, shape: torch.Size, cut: int) -> Any:
        mode = right(self, shape, cut)
        if cut:
            mode.cut_to_answer = lambda hidden: hidden[:, :1] + 0.01 * hidden[:, 1:2]
        return mode

    monkeypatch.setattr(StraightLine, "_fewer_rows", wrong)
    other = subject_of("bert", length=7)
    (found,) = IntegratedGradients(steps=3).attribute([other])
    assert StraightLine(other, "zero", keep_special=False)._cut == 0
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-9)


class ReadWhereATokenSays(nn.Module):
    """BERT, read at token 7, or at the first where there is none."""

    def __init__(self, inner: Any, *, wraps: bool) -> None:
        super().__init__()
        self.inner, self.config, self.wraps = inner, inner.config, wraps

    def get_input_embeddings(self) -> Any:
        return self.inner.get_input_embeddings()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor | None = None) -> Tensor:
        found = self.inner.bert(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)
        rows = found.last_hidden_state
        at = (input_ids == 7).long().argmax(1)
        at = at % rows.shape[1] if self.wraps else at
        read: Tensor = self.inner.classifier(rows[torch.arange(len(rows)), at])
        return read


@pytest.mark.parametrize("wraps", [True, False], ids=["a wrong row", "no such row"])
def test_a_cut_proven_on_one_text_is_not_believed_on_the_next(wraps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def scores() -> list[Any]:
        adapter, found = TextClassifier(ReadWhereATokenSays(zoo.build("bert"), wraps=wraps), TOKENIZER), []
        for ids in ([9, 10, 11, 12, 13, 14, 15, 16, 17], [9, 10, 11, 7, 13, 14, 15, 16]):
            encoded = encode(torch.tensor([ids]))
            subject = new_subject(adapter, encoded, Target((1,), "1"), partition(encoded))
            found.append(IntegratedGradients(steps=4).attribute([subject])[0].scores)
        assert bool(StraightLine(subject, "zero", keep_special=False)._cut) is False
        return found

    found = scores()
    monkeypatch.setattr(StraightLine, "_cut", 0)
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(scores()), atol=1e-9)


def steep(rows: Tensor) -> Tensor:
    return torch.sigmoid(40 * (rows[:, 0] - 0.37)) + rows[:, 1] ** 3


def test_a_tolerance_takes_as_many_steps_as_it_needs() -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = IntegratedGradients(steps=2, tolerance=0.001).attribute([bind(TensorModule(steep), x)])
    change = found.scores.sum() + found.residual
    taken = found.details["steps"]
    assert abs(found.residual) <= 0.001 * abs(change)
    assert taken in (6, 18, 54, 162)
    assert found.cost == 3 * taken + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegratedGradientsWarning)
        (fixed,) = IntegratedGradients(steps=taken).attribute([bind(TensorModule(steep), x)])
        (fewer,) = IntegratedGradients(steps=taken // 3).attribute([bind(TensorModule(steep), x)])
    np.testing.assert_allclose(found.scores, fixed.scores, rtol=1e-12)
    assert abs(fewer.residual) > 0.001 * abs(change), "and no more"


def test_a_tolerance_that_is_met_at_once_takes_the_steps_it_was_given() -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    (found,) = IntegratedGradients(steps=200, tolerance=0.01).attribute([bind(TensorModule(steep), x)])
    assert found.details["steps"] == 200


def test_a_jump_is_given_up_and_said() -> None:
    """No number of steps finds a step of the function itself."""

    def jump(rows: Tensor) -> Tensor:
        return (rows[:, 0] > 0.3).to(rows) + rows[:, 0]

    with pytest.warns(IntegratedGradientsWarning, match="use more than 900 steps"):
        IntegratedGradients(steps=100, tolerance=0.01).attribute(
            [bind(TensorModule(jump), torch.tensor([1.0], dtype=torch.float64))]
        )


def embedded(family: str) -> tuple[Subject, Any, Tensor]:
    """A subject, its model as a function of word embeddings, and the embeddings themselves."""
    subject = subject_of(family, length=6)
    model: Any = subject.adapter.model
    words = model.get_input_embeddings().weight.detach()[subject.encoded.inputs["input_ids"]]
    return subject, lambda x: model(inputs_embeds=x, attention_mask=torch.ones(x.shape[:2])).logits, words


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_the_line_of_a_text_runs_from_zero_word_embeddings(family: str) -> None:
    subject, run, words = embedded(family)
    total = torch.zeros_like(words)
    for k in range(5):
        point = (words * (k + 0.5) / 5).requires_grad_()
        logits = run(point)
        total += torch.autograd.grad(logits[0, -1, 1] if logits.dim() == 3 else logits[0, 1], point)[0] / 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegratedGradientsWarning)
        (found,) = IntegratedGradients(steps=5).attribute([subject])
    np.testing.assert_allclose(found.scores, (words * total).sum(-1)[0].numpy(), atol=1e-9)


@pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
@pytest.mark.parametrize("baseline", ["pad", "mask"])
def test_baselines_of_tokens(baseline: Any) -> None:
    """The line begins where all tokens are the padding or mask token."""
    adapter = TextClassifier(zoo.build("bert"), TOKENIZER)
    subject = subject_of("bert", length=6, adapter=adapter)
    token = PAD if baseline == "pad" else TOKENIZER.mask_token_id
    (found,) = IntegratedGradients(steps=3, baseline=baseline).attribute([subject])
    with torch.no_grad():
        wanted = float(adapter.model(torch.full((1, 6), token)).logits[0, 1])
    assert found.details["baseline_output"] == pytest.approx(wanted, abs=1e-12)
    assert np.abs(found.scores).min() > 0
    # A token that is the baseline already moves nowhere.
    ids = subject.encoded.inputs["input_ids"].clone()
    ids[0, 2] = token
    encoded = encode(ids)
    (still,) = IntegratedGradients(steps=3, baseline=baseline).attribute(
        [new_subject(adapter, encoded, Target((1,), "1"), partition(encoded))]
    )
    assert still.scores[2] == 0.0


@pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
def test_special_tokens_can_be_kept() -> None:
    bench = load(tiny.tiny_classifier(dtype=torch.float64))
    subject = bench.subject("the film is not good")
    special = np.array(subject.encoded.special)
    assert special.tolist() == [True, False, False, False, False, False, True]
    (moved,) = IntegratedGradients(steps=3).attribute([subject])
    (kept,) = IntegratedGradients(steps=3, keep_special=True).attribute([subject])
    assert (moved.scores != 0).all()
    assert ((kept.scores == 0) == special).all()


def of_a_layer(model: Any, layer: nn.Module, ids: Tensor, baseline: Tensor, *, target: int, steps: int) -> Any:
    """As captum's LayerIntegratedGradients does it: the output of a layer goes from that on one text to that on
    another, by a literal loop over the midpoints.
    """
    outputs: list[Tensor] = []
    with layer.register_forward_hook(lambda module, given, found: outputs.append(found.detach())), torch.no_grad():
        model(input_ids=baseline)
        model(input_ids=ids)
    start, end = outputs
    total = torch.zeros_like(end)
    for step in range(steps):
        here = (start + (step + 0.5) / steps * (end - start)).requires_grad_()
        with layer.register_forward_hook(lambda module, given, found, here=here: here):
            (gradient,) = torch.autograd.grad(model(input_ids=ids).logits[0, target], here)
        total += gradient / steps
    return (total * (end - start)).sum(-1)[0].numpy()


@pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
def test_captums_numbers_are_those_at_the_word_embeddings() -> None:
    """What docs/how-to/other-libraries.md says of LayerIntegratedGradients: at `bert.embeddings` it gives others."""
    model, tokenizer = tiny.tiny_classifier(dtype=torch.float64)
    text, embeddings = "the film is not good", model.bert.embeddings
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    baseline = torch.full_like(ids, tokenizer.pad_token_id)
    baseline[0, [0, -1]] = ids[0, [0, -1]]
    e = load((model, tokenizer)).explain(text, "ig[baseline=pad;keep_special=true;steps=5]", target=1)
    words, all_of_it = (
        of_a_layer(model, layer, ids, baseline, target=1, steps=5) for layer in (embeddings.word_embeddings, embeddings)
    )
    np.testing.assert_allclose(e.scores, words, rtol=0, atol=1e-9)
    assert np.abs(all_of_it - words).max() > 0.01 * np.abs(words).max()


@pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
def test_a_continuation_is_context_and_does_not_move() -> None:
    subject = subject_of("gpt2", length=8, continuation=3)
    (found,) = IntegratedGradients(steps=400).attribute([subject])
    assert found.scores.shape == (5,)
    # Completeness over the features alone says that nothing else moved.
    assert found.scores.sum() == pytest.approx(subject.output - found.details["baseline_output"], rel=1e-3)


def test_nothing_is_left_on_the_model() -> None:
    subject = subject_of("bert")
    model = subject.adapter.model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    IntegratedGradients(steps=40).attribute([subject])
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())


class OwnLookUp(nn.Module):
    """Reads its tokens by indexing, where no look-up is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(99, 4), nn.Linear(4, 2)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.head(self.embedding.weight[input_ids].mean(1))


class TwoLookUps(OwnLookUp):
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.head((self.embedding(input_ids) * self.embedding(input_ids)).mean(1))


@pytest.mark.parametrize(
    ("model", "message"), [(OwnLookUp(), "was not looked up"), (TwoLookUps(), "looked up more than once")]
)
def test_models_whose_words_are_not_looked_up_once(model: nn.Module, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        make_method("ig").attribute([subject_of("bert", adapter=TextClassifier(model, TOKENIZER))])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"steps": 0}, InputError, "steps must be an integer >= 1, got 0"),
        ({"steps": 2.5}, InputError, "steps must be an integer >= 1, got 2.5"),
        ({"steps": True}, InputError, "steps must be an integer >= 1, got True"),
        ({"tokens": 0}, InputError, "tokens must be an integer >= 1, got 0"),
        ({"tolerance": 0}, InputError, "tolerance must be a number between 0 and 1, or None, got 0"),
        ({"tolerance": True}, InputError, "tolerance must be a number between 0 and 1, or None, got True"),
        ({"tolerance": "small"}, InputError, "tolerance must be a number between 0 and 1, or None, got 'small'"),
        ({"baseline": "zeros"}, UnknownNameError, "unknown baseline 'zeros'; did you mean 'zero'"),
    ],
)
def test_options_are_checked_at_once(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_method("ig", **options)


def test_baselines_that_an_input_does_not_have() -> None:
    with pytest.raises(InputError, match="baseline='pad' is for texts"):
        make_method("ig", baseline="pad").attribute([subject_of("vit")])
    with pytest.raises(InputError, match="has no mask token"):
        make_method("ig", baseline="mask").attribute(
            [subject_of("bert", adapter=TextClassifier(zoo.build("bert"), Tokens()))]
        )


def test_a_model_that_cannot_be_differentiated_is_refused_by_name() -> None:
    class OnlyPredicts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert not x.requires_grad, "train me in training mode"
            return x.sum(1, keepdim=True)

    with pytest.raises(ModelError, match=r"OnlyPredicts .*cannot be differentiated .*train me.* use 'loo'"):
        attribute(OnlyPredicts(), torch.randn(1, 4), "ig", target=0)
