"""What the set function is asked and answers: kinds of removal and of features, what it remembers, precision, memory,
no trace.
"""

import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tiny
import zoo
from looprop.errors import ModelError
from looprop.methods.registry import make_method
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, bind
from looprop.models.tensor_module import TensorModule
from looprop.removal.value import SetFunction
from looprop.running.ray.workers import positions_that_fit
from looprop.workbench import Workbench, load
from removal.naive import MASK, PAD, curves, everything, kept_positions, leave_one_out, one_by_one, subject_of, value_of


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return load(tiny.tiny_classifier(dtype=torch.float64))


def by_hand(subject: Subject, keep: np.ndarray, kind: str) -> np.ndarray:
    """Removal by replacement or deletion, one variant at a time, straight from its definition."""
    model, ids, values = subject.adapter.model, subject.encoded.inputs["input_ids"][0].tolist(), []
    for row in keep:
        kept = set(kept_positions(subject, row))
        if kind == "delete":
            chosen = [token for i, token in enumerate(ids) if i in kept]
        else:
            chosen = [token if i in kept else (MASK if kind == "mask-token" else PAD) for i, token in enumerate(ids)]
        inputs = torch.tensor([chosen])
        with torch.no_grad():
            output = model(input_ids=inputs, attention_mask=torch.ones_like(inputs))
        values.append(value_of(subject, getattr(output, "logits", output)))
    return np.array(values)


@pytest.mark.parametrize("kind", ["mask-token", "pad-token", "delete"])
@pytest.mark.parametrize(
    "family", ["bert", "roberta", "distilbert", "modernbert", "gpt2", "llama", "t5-encoder", "hand-written"]
)
def test_replacement_and_deletion_are_what_they_say(family: str, kind: Any) -> None:
    """Also where the answer is a mean over all positions, into which padding would leak."""
    subject = subject_of(family, length=8)
    keep = everything(8)
    wanted = by_hand(subject, keep, kind)
    assert np.ptp(wanted) > 1e-2
    np.testing.assert_allclose(SetFunction(subject, removal=kind)(keep), wanted, atol=1e-9)


def test_zero_for_tensors_is_a_product_with_the_mask() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    subject = bind(TensorModule(model), x, target=1)
    keep = np.array([[bool(bits >> i & 1) for i in range(6)] for bits in range(64)])  # also nothing at all
    with torch.no_grad():
        wanted = [float(model((x * torch.from_numpy(row).reshape(2, 3))[None])[0, 1]) for row in keep]
    np.testing.assert_allclose(SetFunction(subject)(keep), wanted, atol=1e-12)


def test_zero_for_images_blackens_patches() -> None:
    subject = subject_of("vit")
    pixels = subject.encoded.inputs["pixel_values"]
    keep = everything(16)
    wanted = []
    for row in keep:
        image = pixels.clone()
        for patch in np.flatnonzero(~row):
            top, left = 4 * (patch // 4), 4 * (patch % 4)
            image[..., top : top + 4, left : left + 4] = 0
        with torch.no_grad():
            wanted.append(float(subject.adapter.model(image).logits[0, 1]))
    np.testing.assert_allclose(SetFunction(subject)(keep), wanted, atol=1e-9)


@pytest.mark.parametrize("features", ["word", "token", "chunk:2"])
def test_features_of_a_text(bench: Workbench, features: str) -> None:
    text = "unbelievable fun, isn't it?"
    value = bench.set_function(text, target="positive", features=features)
    encoding = bench.tokenizer(text, return_offsets_mapping=True)
    ids = encoding["input_ids"]
    if features == "word":
        # The words by hand: characters of unbelievable | fun | , | isn't | it | ?
        edges = [(0, 12), (13, 16), (16, 17), (18, 23), (24, 26), (26, 27)]
        word = [
            next((k for k, (a, b) in enumerate(edges) if a <= s < b), -1) if e > s else None
            for s, e in encoding["offset_mapping"]
        ]
        groups = [[0], *[[i for i, w in enumerate(word) if w == k] for k in range(len(edges))], [len(ids) - 1]]
    else:
        size = 1 if features == "token" else 2
        groups = [list(range(start, min(start + size, len(ids)))) for start in range(0, len(ids), size)]
    keep = leave_one_out(len(groups))
    wanted = []
    for group in groups:
        mask = torch.ones(1, len(ids), dtype=torch.long)
        mask[0, group] = 0
        with torch.no_grad():
            wanted.append(float(bench.model(input_ids=torch.tensor([ids]), attention_mask=mask).logits[0, 2]))
    np.testing.assert_allclose(value(keep), wanted, atol=1e-9)


def test_a_contrast_is_the_difference_of_two_set_functions(bench: Workbench) -> None:
    text, keep = "not a very good movie", curves(7)
    contrast = bench.set_function(text, target=("positive", "negative"))(keep)
    np.testing.assert_allclose(
        contrast, bench.set_function(text, target=2)(keep) - bench.set_function(text, target=0)(keep), atol=1e-9
    )


class Counting(TextClassifier):
    """Counts the variants that the model answers."""

    variants = 0

    def forward(self, inputs: Mapping[str, Tensor], *, positions: int = 1) -> Tensor:
        logits = super().forward(inputs, positions=positions)
        self.variants += len(logits)
        return logits


def counting_subject(length: int = 8) -> tuple[Counting, Subject]:
    adapter = Counting(zoo.build("bert"), lambda text: text)
    subject = subject_of("bert", length=length, adapter=adapter)
    # Proven and checked now, so that neither is counted: of runs so short, the next seven are not checked.
    value = SetFunction(subject.alone())
    value(leave_one_out(length))
    assert value.way != "plain"
    assert subject.output
    adapter.variants = 0
    return adapter, subject


def test_identical_subsets_are_computed_once() -> None:
    adapter, subject = counting_subject()
    value = SetFunction(subject)
    keep = leave_one_out(8)
    twice = value(np.concatenate([keep, keep[::-1]]))
    assert adapter.variants == 8
    np.testing.assert_array_equal(twice[:8], twice[8:][::-1])
    assert (value.count.asked, value.count.computed, value.count.saved) == (16, 8, 8)
    np.testing.assert_array_equal(value(keep), twice[:8])
    assert adapter.variants == 8
    assert value.count.saved == 16


def test_subsets_are_shared_by_methods_metrics_and_partitions() -> None:
    adapter, subject = counting_subject()
    (loo,) = make_method("loo").attribute([subject])
    assert (adapter.variants, loo.cost) == (8, 8.0)
    (again,) = make_method("loo").attribute([subject])
    assert (adapter.variants, again.cost) == (8, 0.0)
    np.testing.assert_array_equal(loo.scores, again.scores)
    # The first and the last step of a curve over tokens are leave-one-out's own; those in between are new.
    keep = curves(8)
    value = SetFunction(subject)
    value(keep)
    distinct = {tuple(row) for row in keep} - {tuple(row) for row in leave_one_out(8)}
    assert adapter.variants == 8 + len(distinct) + value.checked
    # A chunk of two is a subset of tokens like any other: what a curve removed before is known.
    order = np.random.default_rng(0).permutation(8)
    groups = (tuple(sorted(order[:2].tolist())), *((int(i),) for i in sorted(order[2:])))
    chunked = SetFunction(replace(subject, features=groups))
    before = adapter.variants
    chunked(~np.eye(7, dtype=bool)[:1])
    assert adapter.variants == before
    assert chunked.count is value.count


def test_the_intact_input_is_known() -> None:
    adapter, subject = counting_subject()
    value = SetFunction(subject)
    assert value(np.ones((3, 8), dtype=bool)).tolist() == [subject.output] * 3
    assert adapter.variants == 0
    assert value.count.saved == 3


@pytest.mark.parametrize("other", [{"removal": "delete"}, {"removal": "mask-token"}])
def test_another_removal_is_another_question(other: Any) -> None:
    subject = subject_of("bert", length=8)
    keep = leave_one_out(8)
    assert np.abs(SetFunction(subject)(keep) - SetFunction(subject, **other)(keep)).max() > 1e-3


def test_kinds_of_matrices() -> None:
    subject = subject_of("bert", length=8)
    keep = leave_one_out(8)
    wanted = SetFunction(subject)(keep)
    assert wanted.dtype == np.float64
    np.testing.assert_array_equal(SetFunction(subject)(torch.from_numpy(keep)), wanted)
    np.testing.assert_array_equal(SetFunction(subject)(keep.tolist()), wanted)
    assert SetFunction(subject)(np.ones((0, 8), dtype=bool)).shape == (0,)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_the_read_out_row_can_be_removed_as_a_key_and_is_still_read(family: str) -> None:
    subject = subject_of(family, length=8)
    read = 7 if subject.adapter.causal else 0
    keep = np.ones((3, 8), dtype=bool)
    keep[:, read] = False
    keep[1, 3] = False
    keep[2] = False
    keep[2, 3] = True  # nothing is left but one key that is not the read-out's
    np.testing.assert_allclose(SetFunction(subject)(keep), one_by_one(subject, keep), atol=1e-9)


class Narrow(nn.Module):
    """A model on a machine whose memory holds so many positions at once."""

    def __init__(self, model: Any, positions: int, error: Exception) -> None:
        super().__init__()
        self.model, self.positions, self.error, self.config = model, positions, error, model.config
        self.refused = 0

    def get_input_embeddings(self) -> Any:
        return self.model.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Any:
        if input_ids.numel() > self.positions:
            self.refused += 1
            raise self.error
        return self.model(
            input_ids, attention_mask=attention_mask, position_ids=position_ids, token_type_ids=token_type_ids
        )


MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
    ),
    MemoryError(),
]


@pytest.mark.parametrize("error", MEMORY, ids=["cuda", "cpu", "python"])
@pytest.mark.parametrize("quick", [True, False])
def test_when_memory_runs_out_every_row_is_still_exact(error: Exception, quick: bool) -> None:
    plain = subject_of("bert", length=9)
    narrow = Narrow(plain.adapter.model, 20, error)
    subject = subject_of("bert", length=9, adapter=TextClassifier(narrow, lambda text: text))
    keep = everything(9)
    found = SetFunction(subject, quick=quick)(keep)
    assert narrow.refused > 0
    np.testing.assert_allclose(found, one_by_one(plain, keep), atol=1e-9)


def test_a_batch_size_that_did_not_fit_is_not_tried_again() -> None:
    narrow = Narrow(subject_of("bert", length=9).adapter.model, 40, MEMORY[0])
    adapter = TextClassifier(narrow, lambda text: text)
    SetFunction(subject_of("bert", length=9, adapter=adapter), quick=False)(everything(9))
    refused = narrow.refused
    assert refused > 0
    assert adapter.ledger.batch_positions is not None
    SetFunction(subject_of("bert", length=9, adapter=adapter), quick=False)(everything(9))
    assert narrow.refused == refused


def test_what_fits_into_memory_grows_with_it_and_shrinks_with_the_model() -> None:
    small = subject_of("bert", length=4).adapter
    # Width 32, 48 inside, 8 bytes a number: 8 * (10 * 32 + 3 * 48) = 3712 bytes a position, of a quarter of the memory.
    assert positions_that_fit(small, 4 * 3712 * 100) == 100
    assert positions_that_fit(small, 1) == 1
    assert positions_that_fit(TensorModule(torch.nn.Linear(2, 2)), 10**9) is None


def test_a_single_row_that_does_not_fit_is_an_error() -> None:
    narrow = Narrow(zoo.build("bert"), 7, MEMORY[0])
    with pytest.raises(ModelError, match="memory runs out on a single input"):
        subject_of("bert", length=9, adapter=TextClassifier(narrow, lambda text: text))
    narrow.positions = 9  # only what is asked of the set function is too large
    subject = subject_of("bert", length=9, adapter=TextClassifier(narrow, lambda text: text))
    narrow.positions = 7
    with pytest.raises(ModelError, match="memory runs out on a single input"):
        SetFunction(subject)(leave_one_out(9))


def test_other_errors_of_a_model_are_not_taken_for_a_lack_of_memory() -> None:
    narrow = Narrow(zoo.build("bert"), 20, RuntimeError("the sizes do not match"))
    adapter = TextClassifier(narrow, lambda text: text)
    subject = subject_of("bert", length=9, adapter=adapter)
    found = SetFunction(subject)(leave_one_out(9))
    np.testing.assert_allclose(found, one_by_one(subject_of("bert", length=9), leave_one_out(9)), atol=1e-9)
    assert adapter.ledger.batch_positions is None
    assert not adapter.takes_batches


@pytest.mark.parametrize("family", ["bert", "llama", "vit"])
def test_bfloat16_is_used_and_close(family: str) -> None:
    subject = subject_of(family, dtype=torch.float32)
    keep = everything(len(subject.features))
    exact = SetFunction(subject, removal="attention-mask")(keep)
    dtypes: set[torch.dtype] = set()

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            if getattr(function, "__name__", "") == "linear":
                dtypes.add(out.dtype)
            return out

    rough_function = SetFunction(subject, removal="attention-mask", precision="bfloat16")
    assert family == "vit" or rough_function.way != "plain"  # single precision proves it; rounding must not undo that
    with Watch():
        rough = rough_function(keep)
    assert dtypes == {torch.bfloat16}
    assert 0 < np.abs(rough - exact).max() < 0.05
    assert np.corrcoef(rough, exact)[0, 1] > 0.9
    # One does not overwrite the other.
    np.testing.assert_array_equal(SetFunction(subject, removal="attention-mask")(keep), exact)
    assert next(subject.adapter.model.parameters()).dtype == torch.float32


def state_of(model: nn.Module) -> Any:
    return (
        {name: value.clone() for name, value in model.state_dict().items()},
        [module.training for module in model.modules()],
        [parameter.requires_grad for parameter in model.parameters()],
        [parameter.grad for parameter in model.parameters()],
        [
            (len(module._forward_hooks), len(module._forward_pre_hooks), "forward" in vars(module))
            for module in model.modules()
        ],
    )


def assert_same(before: Any, after: Any) -> None:
    assert before[1:] == after[1:]
    assert all(torch.equal(value, after[0][name]) for name, value in before[0].items())


@pytest.mark.parametrize("family", ["bert", "distilbert", "llama", "vit"])
@pytest.mark.parametrize("training", [False, True])
def test_no_trace_is_left_on_a_model(family: str, training: bool) -> None:
    subject = subject_of(family)
    model = subject.adapter.model
    model.train(training)
    before = state_of(model)
    SetFunction(subject, removal="attention-mask")(everything(len(subject.features)))
    assert_same(before, state_of(model))
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_no_trace_is_left_after_a_failure(precision: Any) -> None:
    narrow = Narrow(zoo.build("bert", dtype=torch.float32).train(), 10**6, RuntimeError("broken"))
    subject = subject_of("bert", adapter=TextClassifier(narrow, lambda text: text))
    narrow.positions = 0
    before = state_of(narrow)
    value = SetFunction(subject, precision=precision)
    with pytest.raises(RuntimeError, match="broken"):
        value(leave_one_out(11))
    assert_same(before, state_of(narrow))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert value.count.computed == 0
    # What failed is not remembered: asked again of a model that is whole, the answers are right.
    narrow.positions = 10**6
    exact = one_by_one(subject_of("bert", dtype=torch.float32), leave_one_out(11))
    np.testing.assert_allclose(SetFunction(subject)(leave_one_out(11)), exact, atol=1e-5)


def test_every_thread_gets_the_answer_to_its_own_input() -> None:
    subjects = [subject_of("distilbert", length=length) for length in (5, 6, 7)]
    adapter = subjects[0].adapter
    expected = [adapter.predict(subject.encoded).logits for subject in subjects]
    wrong: list[int] = []

    def ask(number: int) -> None:
        for _ in range(150):
            if not torch.equal(adapter.predict(subjects[number].encoded).logits, expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns after nearly every line
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_threads_do_not_disturb_each_other() -> None:
    adapters = {family: subject_of(family).adapter for family in ("bert", "distilbert", "llama")}
    jobs = [(family, length) for family in adapters for length in (6, 9, 12)]
    found: dict[tuple[str, int], np.ndarray] = {}

    def work(family: str, length: int) -> None:
        subject = subject_of(family, length=length, adapter=adapters[family])
        found[family, length] = SetFunction(subject, batch_positions=20)(everything(length))

    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for family, length in jobs:
        subject = subject_of(family, length=length, adapter=adapters[family])
        np.testing.assert_allclose(found[family, length], one_by_one(subject, everything(length)), atol=1e-9)


def test_bfloat16_of_a_plain_function() -> None:
    """It has no parameters to tell a device by."""
    subject = bind(TensorModule(lambda x: x @ torch.ones(3, 2)), torch.tensor([1.0, 2.0, 4.0]))
    assert SetFunction(subject, precision="bfloat16")(leave_one_out(3)).tolist() == [6.0, 5.0, 3.0]
