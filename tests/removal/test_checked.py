"""What was proven on one input is not trusted on others: many inputs through one workbench, against the naive loop."""

import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import looprop
import tiny
import zoo
from looprop.errors import InputError, ModelError
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target
from looprop.removal.shortcuts.choose import program
from looprop.removal.value import SetFunction
from removal import odd_models as odd
from removal.naive import TOKENIZER, adapter_of, encode, leave_one_out, one_by_one

INPUT_DEPENDENT: list[type[odd.Encoder]] = [
    odd.Encoder,
    odd.AtTheMark,
    odd.FirstOrMean,
    odd.SilentMean,
    odd.PaddingAtTheMark,
    odd.Nearsighted,
    odd.TimeFirst,
    odd.Selective,
]


def inputs(count: int, seed: int, *, longest: int = 30) -> list[Tensor]:
    """Token ids of mixed lengths in random order, some with a marked token inside."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        ids = zoo.token_ids(rng.choice([5, 6, 8, 9, 11, 12, 16, 22, longest]), seed=rng.randrange(10**6))
        ids[ids == odd.MARK] = 8
        if rng.random() < 0.4:
            ids[0, rng.randrange(1, ids.shape[1])] = odd.MARK
        found.append(ids)
    return found


def subject_of(adapter: Any, ids: Tensor) -> Subject:
    return new_subject(adapter, encode(ids), Target((1,), "1"), tuple((i,) for i in range(ids.shape[1])))


def wanted(subject: Subject) -> np.ndarray:
    keep = leave_one_out(len(subject.features))
    return one_by_one(subject, np.ones_like(keep[:1])) - one_by_one(subject, keep)


def assert_all_are_right(adapter: Any, many: list[Tensor], tolerance: float = 1e-8) -> None:
    from looprop.methods.registry import make_method

    for ids in many:
        subject = subject_of(adapter, ids)
        (found,) = make_method("loo").attribute([subject])
        np.testing.assert_allclose(found.scores, wanted(subject), atol=tolerance)


@pytest.mark.parametrize("kind", INPUT_DEPENDENT)
@pytest.mark.parametrize("seed", [0, 1])
def test_leave_one_out_of_many_inputs_is_the_naive_loop(kind: type[odd.Encoder], seed: int) -> None:
    assert_all_are_right(TextClassifier(kind(seed), TOKENIZER), inputs(16, seed))


@pytest.mark.parametrize("kind", INPUT_DEPENDENT)
def test_all_rows_are_leave_one_out_or_refused(kind: type[odd.Encoder]) -> None:
    from looprop.methods.registry import make_method

    adapter = TextClassifier(kind(), TOKENIZER)
    for ids in inputs(10, 3):
        subject = subject_of(adapter, ids)
        try:
            (found,) = make_method("looprop", rows="all").attribute([subject])
        except InputError as error:
            assert "cannot be carried" in str(error)  # noqa: PT017
        else:
            np.testing.assert_allclose(found.scores, wanted(subject), atol=1e-8)


@pytest.mark.parametrize("kind", INPUT_DEPENDENT)
@pytest.mark.parametrize("method", ["cp-lrp", "grad-x-input"])
def test_a_batch_is_one_by_one(kind: type[odd.Encoder], method: str) -> None:
    from looprop.methods.registry import make_method

    together = TextClassifier(kind(), TOKENIZER)
    many = [subject_of(together, ids) for ids in inputs(16, 5)]
    for subject, found in zip(many, make_method(method).attribute(many), strict=True):
        lone = subject_of(TextClassifier(together.model, TOKENIZER), subject.encoded.inputs["input_ids"])
        (alone,) = make_method(method).attribute([lone])
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-9)


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "gpt2", "llama", "gemma3"])
def test_families_stay_right_and_quick(family: str) -> None:
    adapter = adapter_of(family, zoo.build(family))
    assert_all_are_right(adapter, inputs(8, 1, longest=26))
    assert not adapter.ledger.dropped


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(zoo.TEXT))
def test_many_inputs_of_every_family(family: str) -> None:
    """Of all lengths; forty shorter ones are in the campaigns (tests/test_attacks.py)."""
    many = inputs(18, 0)
    assert len({ids.shape[1] for ids in many}) == 9
    assert_all_are_right(adapter_of(family, zoo.build(family)), many)


@pytest.mark.parametrize(
    "error", [AttributeError("no such thing"), AssertionError(), KeyError("x"), NotImplementedError()]
)
def test_a_shortcut_that_fails_in_any_way_is_given_up_and_said(error: Exception, monkeypatch: Any) -> None:
    """It was proven, and then it raises."""
    from looprop.methods.registry import make_method

    adapter = adapter_of("bert", zoo.build("bert"))
    subject = subject_of(adapter, zoo.token_ids(22))
    value = SetFunction(subject)
    assert value.way.startswith("packed")

    def fail(*_: Any) -> Any:
        raise error

    assert value._proven is not None
    object.__setattr__(value._proven, "runner", fail)
    np.testing.assert_allclose(value(leave_one_out(22)), one_by_one(subject, leave_one_out(22)), atol=1e-9)
    assert value.report()["way"] == "plain"
    assert type(error).__name__ in value.report()["fell_back"]
    assert any(name.startswith("packed") for name in adapter.ledger.dropped)
    (later,) = make_method("loo").attribute([subject_of(adapter, zoo.token_ids(24))])
    assert later.details["removal"]["way"].startswith("rows")  # the next way proves itself


def test_values_of_a_way_that_was_wrong_are_thrown_away(monkeypatch: Any) -> None:
    adapter = adapter_of("bert", zoo.build("bert"))
    subject = subject_of(adapter, zoo.token_ids(24))
    value = SetFunction(subject)
    first = value(leave_one_out(24))
    right = value._proven
    assert right is not None
    # What it gave before is altered where it is kept, and from now on it is wrong by more than rounding.
    for key in value.count.quick:
        value._known[key] = value._known[key] + 1.0
    runner = right.runner
    object.__setattr__(right, "runner", lambda keep: runner(keep) + 0.01)
    two = leave_one_out(24)[:, None] & leave_one_out(24)
    keep = np.array([two[i, i + k] for k in (1, 2, 3) for i in range(21)])  # so many that a check is due
    np.testing.assert_allclose(value(keep), one_by_one(subject, keep), atol=1e-9)
    assert "fell_back" in value.report()
    np.testing.assert_allclose(value(leave_one_out(24)), first, atol=1e-9)


@pytest.mark.parametrize("removal", ["attention-mask", "mask-token", "delete"])
@pytest.mark.parametrize("length", [6, 23])
def test_rows_that_depend_on_their_batch_run_alone(removal: Any, length: int) -> None:
    adapter = TextClassifier(odd.Centred(), TOKENIZER)
    subject = subject_of(adapter, zoo.token_ids(length))
    keep = leave_one_out(length)
    found = SetFunction(subject, removal=removal)(keep)
    lone = TextClassifier(odd.Centred(), TOKENIZER)
    lone.batches = False
    truth = SetFunction(subject_of(lone, zoo.token_ids(length)), removal=removal)(keep)
    np.testing.assert_allclose(found, truth, atol=1e-9)
    if removal == "attention-mask":
        np.testing.assert_allclose(truth, one_by_one(subject, keep), atol=1e-9)
    assert not adapter.takes_batches


def test_who_chooses_among_positions_decides() -> None:
    """A router chooses among experts, row by row, and decides nothing about other rows."""
    for kind, decides in ((odd.Selective, True), (odd.Encoder, False)):
        assert program(subject_of(TextClassifier(kind(), TOKENIZER), zoo.token_ids(11))).decides is decides


class Touchy(odd.Encoder):
    """Raises on a batch, or with a key removed."""

    def __init__(self, *, alone: bool) -> None:
        super().__init__()
        self.alone = alone

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        removed = attention_mask is not None and not attention_mask.bool().all()
        if removed and (self.alone or len(input_ids) > 1):
            raise RuntimeError("no padding, please")
        return super().forward(input_ids, attention_mask, position_ids)


@pytest.mark.parametrize("length", [5, 24])
def test_a_model_that_takes_no_batch_of_variants_runs_one_by_one(length: int) -> None:
    subject = subject_of(TextClassifier(Touchy(alone=False), TOKENIZER), zoo.token_ids(length))
    keep = leave_one_out(length)
    np.testing.assert_allclose(SetFunction(subject)(keep), one_by_one(subject, keep), atol=1e-9)


def test_a_model_that_cannot_run_with_features_removed_is_refused_by_name() -> None:
    subject = subject_of(TextClassifier(Touchy(alone=True), TOKENIZER), zoo.token_ids(9))
    with pytest.raises(ModelError, match=r"Touchy cannot be run with features removed, RuntimeError: no padding"):
        SetFunction(subject)(leave_one_out(9))


def test_dynamic_quantisation_is_the_naive_loop() -> None:
    torch.manual_seed(0)
    model = tiny.stir(zoo.ENCODERS["bert"](), torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is about to move it elsewhere
        quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    adapter = TextClassifier(quantised, TOKENIZER)
    assert_all_are_right(adapter, inputs(4, 0), tolerance=1e-5)


@pytest.mark.parametrize("kind", [odd.Noisy, odd.Counting])
@pytest.mark.parametrize("method", ["loo", "looprop", "cp-lrp", "grad-x-input"])
def test_a_model_that_answers_twice_differently_is_refused(kind: type[odd.Encoder], method: str) -> None:
    from looprop.methods.registry import make_method

    adapter = TextClassifier(kind(), TOKENIZER)
    for length in (8, 9, 22):  # every time, not the first only
        with pytest.raises(ModelError, match="not the model's own answer"):
            make_method(method).attribute([subject_of(adapter, zoo.token_ids(length))])


def test_a_mask_that_is_ignored_is_refused_and_other_removals_are_not() -> None:
    adapter = TextClassifier(odd.Deaf(), TOKENIZER)
    for length in (2, 9, 22):
        subject = subject_of(adapter, zoo.token_ids(length))
        with pytest.raises(ModelError, match="takes an attention mask and ignores it"):
            SetFunction(subject)(leave_one_out(length))
    keep = leave_one_out(22)
    assert np.ptp(SetFunction(subject, removal="mask-token")(keep)) > 1e-3


def test_a_model_to_which_nothing_matters_has_zeros() -> None:
    model = odd.Encoder()
    nn.init.zeros_(model.head.weight)
    subject = subject_of(TextClassifier(model, TOKENIZER), zoo.token_ids(9))
    assert np.ptp(SetFunction(subject)(leave_one_out(9))) == 0.0


@pytest.mark.parametrize("kind", [odd.Encoder, odd.FirstOrMean, odd.PaddingAtTheMark])
def test_a_wrapper_keeps_its_mask(kind: type[odd.Encoder]) -> None:
    adapter = TextClassifier(odd.Passing(kind()), TOKENIZER)
    assert adapter.takes_mask
    assert_all_are_right(adapter, inputs(6, 4))


def test_a_wrapper_keeps_its_token_types() -> None:
    model, tokenizer = tiny.tiny_classifier()
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    pair = ("the film", "a very bad movie")
    bare, wrapped = looprop.load((model, tokenizer)), looprop.load((odd.Passing(model), tokenizer))
    with torch.no_grad():
        given = dict(tokenizer(*pair, return_tensors="pt"))
        own = model(**given).logits[0, 1]
        without = model(**{key: value for key, value in given.items() if key != "token_type_ids"})
    assert abs(float(without.logits[0, 1] - own)) > 1e-3
    for method in ("loo", "cp-lrp", "looprop"):
        found, truth = wrapped.explain(pair, method, target=1), bare.explain(pair, method, target=1)
        assert found.output == pytest.approx(float(own), abs=1e-6)
        np.testing.assert_allclose(found.scores, truth.scores, atol=1e-5)


@pytest.mark.parametrize("kind", [hf.RobertaForCausalLM, hf.XLMRobertaForCausalLM, hf.CamembertForCausalLM])
def test_positions_that_begin_after_the_padding_index(kind: Any) -> None:
    torch.manual_seed(0)
    config = kind.config_class(
        **{**zoo.SMALL, "vocab_size": 99}, max_position_embeddings=66, pad_token_id=1, is_decoder=True
    )
    bench = looprop.load((tiny.stir(kind(config), torch.float32), tiny.wordpiece()))
    texts = ["the film", "a very bad movie, isn't it?", "this was unbelievable fun and great!"]
    for text, batched in zip(texts, bench.explain(texts, "cp-lrp"), strict=True):
        alone = bench.explain(text, "cp-lrp")
        np.testing.assert_allclose(batched.scores, alone.scores, atol=1e-5 * np.abs(alone.scores).max())
        ids = bench.adapter.encode(text).inputs["input_ids"]
        found = bench.explain(text, "loo")
        with torch.no_grad():
            own = bench.model(input_ids=ids).logits[0, -1, found.target]
            masks = 1 - torch.eye(ids.shape[1], dtype=torch.long)
            places = torch.arange(ids.shape[1])[None] + 2
            values = [bench.model(ids, m[None], position_ids=places).logits[0, -1, found.target] for m in masks]
        np.testing.assert_allclose(found.scores, [float(own - v) for v in values], atol=1e-5)
