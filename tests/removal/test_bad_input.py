"""Bad questions to the set function: each is refused, and the message names the offender."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tiny
import zoo
from looprop.errors import InputError, ModelError, UnknownNameError
from looprop.models.encoded import partition
from looprop.models.heads.image_classifier import ImageClassifier
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, bind, new_subject
from looprop.models.target import Target
from looprop.models.tensor_module import TensorModule
from looprop.removal.value import SetFunction
from looprop.workbench import load
from removal.naive import Tokens, encode, leave_one_out, subject_of


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0, 1], [3]], r"leaves out position 2 \(t2\)"),
        ([[0, 1], [1, 2, 3]], "position 1 is in feature 0 and again in feature 1"),
        ([[0, 1], [], [2, 3]], "feature 1 of the partition is empty"),
        ([[0, 1], [2, 3, 4]], "feature 1 of the partition names position 4; positions run from 0 to 3"),
        ([], r"leaves out position 0, 1, 2, 3"),
    ],
)
def test_partitions_that_are_none(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        partition(encode(zoo.token_ids(4)), groups)


def test_a_partition_through_the_front_door() -> None:
    bench = load(tiny.tiny_classifier())
    with pytest.raises(InputError, match=r"leaves out position 3 \(is\)"):
        bench.set_function("the film is good", features=[[0, 1, 2], [4, 5]])


def test_no_features() -> None:
    with pytest.raises(InputError, match="no features"):
        SetFunction(replace(subject_of("bert"), features=()))


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (np.ones((2, 10), dtype=bool), r"must have shape \(N, 11\), got \(2, 10\)"),
        (np.ones(11, dtype=bool), r"must have shape \(N, 11\), got \(11,\)"),
        (np.ones((2, 11)), "must be boolean, got torch.float64"),
        (np.ones((2, 11), dtype=int), "must be boolean, got torch.int64"),
        ([[True] * 11, [False] * 11], "row 1 keeps no feature"),
    ],
)
def test_matrices_that_are_no_question(keep: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SetFunction(subject_of("bert"))(keep)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"removal": "mask"}, UnknownNameError, "unknown removal 'mask'; did you mean"),
        ({"precision": "float16"}, UnknownNameError, "unknown precision 'float16'; did you mean 'bfloat16'"),
        ({"batch_positions": 0}, InputError, "batch_positions must be an integer >= 1, got 0"),
        ({"batch_positions": 1.5}, InputError, "batch_positions must be an integer >= 1, got 1.5"),
        ({"removal": "zero"}, InputError, "removal='zero' is not for texts, which take"),
    ],
)
def test_options_that_do_not_exist(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SetFunction(subject_of("bert"), **options)


@pytest.mark.parametrize("kind", ["mask-token", "pad-token"])
def test_a_tokenizer_without_the_token(kind: Any) -> None:
    adapter = TextClassifier(zoo.build("bert"), Tokens(pad_token_id=None))
    with pytest.raises(InputError, match=f"has no {kind.replace('-', ' ')}"):
        SetFunction(subject_of("bert", adapter=adapter), removal=kind)


def test_removals_of_texts_on_images_and_tensors() -> None:
    with pytest.raises(InputError, match="removal='delete' is not for images, which take"):
        SetFunction(subject_of("vit"), removal="delete")
    linear = bind(TensorModule(nn.Linear(3, 2)), torch.ones(3))
    with pytest.raises(InputError, match="Linear has no attention to mask: use removal='zero'"):
        SetFunction(linear, removal="attention-mask")


class Fragile(nn.Module):
    """A classifier that answers with NaN as soon as token 3 is gone, whatever the length of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(99, 4), nn.Linear(4, 2)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits = self.head((self.embedding(input_ids) * attention_mask[..., None]).sum(1))
        return torch.where(attention_mask[:, 3:4] == 0, torch.nan, logits)


def test_logits_that_are_no_numbers_name_the_removed_token() -> None:
    encoded = encode(zoo.token_ids(5))
    subject = new_subject(TextClassifier(Fragile(), lambda text: text), encoded, Target((1,), "1"), partition(encoded))
    value = SetFunction(subject)
    assert np.isfinite(value(leave_one_out(5)[:3])).all()
    with pytest.raises(ModelError, match=r"NaN or infinite logits when \['t3'\] is removed"):
        value(leave_one_out(5))


def test_a_model_that_forgets_its_batch() -> None:
    class Forgetful(Fragile):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return super().forward(input_ids, attention_mask).nan_to_num()[:1]

    encoded = encode(zoo.token_ids(5))
    adapter = TextClassifier(Forgetful(), lambda text: text)
    subject = new_subject(adapter, encoded, Target((1,), "1"), partition(encoded))
    with pytest.raises(ModelError, match="answers a batch of 5 inputs with 1 rows of logits"):
        SetFunction(subject)(leave_one_out(5))


class Config:
    patch_size, image_size = 4, 16


class Folded(nn.Module):
    """Image attention by hand with heads folded into the batch, or without heads: (B H, T, T) or (B, T, T)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads, self.config = heads, Config()
        self.embed, self.mix, self.head = nn.Linear(16, 8), nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, pixel_values: Tensor, barred: Tensor | None = None) -> Tensor:
        patches = pixel_values.unfold(2, 4, 4).unfold(3, 4, 4).flatten(4).flatten(1, 3)  # (B, 16, 16)
        query, key, value = self.mix(self.embed(patches)).chunk(3, -1)
        query, key, value = (
            x.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1) for x in (query, key, value)
        )
        scores = query @ key.transpose(1, 2)
        if barred is not None:
            scores = scores.masked_fill(barred[:, None], -torch.inf)
        mixed = (scores.softmax(-1) @ value).unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2)
        return self.head(mixed.mean(1))


def folded_subject(heads: int) -> Subject:
    adapter = ImageClassifier(Folded(heads))
    encoded = adapter.encode(torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(0)))
    return new_subject(adapter, encoded, Target((1,), "1"), partition(encoded))


def test_attention_without_heads_is_masked_rightly() -> None:
    """Its scores have three dimensions: a mask for four would mix the rows of the batch."""
    subject, keep = folded_subject(1), leave_one_out(16)
    model, pixels = subject.adapter.model, subject.encoded.inputs["pixel_values"]
    with torch.no_grad():
        wanted = [float(model(pixels, torch.from_numpy(~row)[None])[0, 1]) for row in keep]
    np.testing.assert_allclose(SetFunction(subject, removal="attention-mask")(keep), wanted, atol=1e-6)


def test_heads_folded_into_the_batch_are_refused() -> None:
    with pytest.raises(ModelError, match=r"scores of shape \(32, 16, 16\)"):
        SetFunction(folded_subject(2), removal="attention-mask")(leave_one_out(16))
