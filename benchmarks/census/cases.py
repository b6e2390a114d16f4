"""How a model of each head is given to looprop, and what it is asked about."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

import looprop
from benchmarks.census.tiny import FIRST, VOCABULARY, calibrated
from looprop.models.loading import adapt_module
from looprop.models.subject import Subject, bind

LENGTH = 12
# The position of [MASK], and the one whose label is asked for.
ASKED = 5


@dataclass(frozen=True)
class Case:
    """A model with one input, in one way of giving it. route: "load", "wrapper" or "attribute"."""

    route: str
    model: nn.Module
    tokenizer: Any
    item: Any

    def subject(self, model: nn.Module | None = None) -> Subject:
        """The model, or another writing of it, bound to the input and to what it predicts."""
        model = model or self.model
        if self.route == "attribute":
            return bind(adapt_module(model), self.item)
        return bind(looprop.load((model, self.tokenizer)).adapter, self.item)


class Wrapper(nn.Module):
    """What docs/how-to/own-model.md asks of a model of one's own: token ids and a mask in, logits (B, C) out."""

    def __init__(self, model: nn.Module, read: Callable[[Any], Tensor], more: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.model, self.read, self.more = model, read, dict(more)

    def get_input_embeddings(self) -> nn.Module:
        """The word embedding."""
        return self.model.get_input_embeddings()  # type: ignore[no-any-return,operator]

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The logits that are asked for."""
        more = {key: value.expand(len(input_ids), *value.shape[1:]) for key, value in self.more.items()}
        mask = {} if attention_mask is None else {"attention_mask": attention_mask}
        return self.read(self.model(input_ids=input_ids, **mask, **more))


class WrapperWithoutMask(Wrapper):
    """The same for models that take no mask."""

    def forward(self, input_ids: Tensor) -> Tensor:  # type: ignore[override]
        """The logits that are asked for."""
        return super().forward(input_ids)


class Reader(nn.Module):
    """A model on a float tensor, as looprop.attribute takes it."""

    def __init__(self, model: nn.Module, name: str, more: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.model, self.name, self.more = model, name, dict(more)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        more = {key: value.expand(len(x), *value.shape[1:]) for key, value in self.more.items()}
        output = self.model(**{self.name: x}, **more)
        logits: Tensor = output.logits if hasattr(output, "logits") else output.last_hidden_state
        return logits


def tokenizer(*, causal: bool) -> PreTrainedTokenizerFast:
    """One token per word, w5 to w98; encoders get [CLS] and [SEP], decoders a first token."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = {word: i for i, word in enumerate([*special, *(f"w{i}" for i in range(5, VOCABULARY))])}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A" if causal else "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        model_input_names=["input_ids", "attention_mask"],
        **dict(zip(names, special, strict=True)),
    )


def text(head: str, length: int = LENGTH) -> str:
    """A text of so many tokens, with what the head needs in it."""
    count = length - (1 if head == "CAUSAL_LM" else 2)
    words = [f"w{i}" for i in np.random.default_rng(0).choice(np.arange(5, 97), count, replace=count > 90)]
    if head == "MASKED_LM":
        words[min(ASKED, count) - 1] = "[MASK]"
    if head == "QUESTION_ANSWERING" and count > 5:
        words[3] = words[4] = "[SEP]"
    return " ".join(words)


def _starts(output: Any) -> Tensor:
    """Where an answer starts; LXMERT chooses among answers."""
    logits: Tensor = getattr(output, "start_logits", None)
    return output.question_answering_score if logits is None else logits  # type: ignore[no-any-return]


READ: dict[str, Callable[[Any], Tensor]] = {
    "SEQUENCE_CLASSIFICATION": lambda output: output.logits,
    "CAUSAL_LM": lambda output: output.logits[:, -1],
    "SEQ_TO_SEQ_CAUSAL_LM": lambda output: output.logits[:, -1],
    "TOKEN_CLASSIFICATION": lambda output: output.logits[:, ASKED],
    "MASKED_LM": lambda output: output.logits[:, ASKED],
    "QUESTION_ANSWERING": _starts,
    "IMAGE_CLASSIFICATION": lambda output: output.logits,
}


def ways(head: str, architecture: str, model: nn.Module, length: int = LENGTH) -> Iterator[Case]:
    """The ways to give a model to looprop, the plain one first; the next is for models that `load` does not take."""
    if head == "AUDIO_CLASSIFICATION":
        yield _sound(model)
    elif head == "IMAGE_CLASSIFICATION" and architecture != "imagegpt":
        yield from _images(architecture, model)
    else:
        yield Case("load", model, tokenizer(causal=head == "CAUSAL_LM"), text(head, length))
        more = _besides(architecture, length)
        arguments = inspect.signature(model.forward).parameters
        if head == "SEQ_TO_SEQ_CAUSAL_LM" and "decoder_input_ids" in arguments:
            more["decoder_input_ids"] = torch.tensor([[FIRST, 7]])
        kind = Wrapper if "attention_mask" in arguments else WrapperWithoutMask
        item = text("" if head == "CAUSAL_LM" else head, length)
        yield Case("wrapper", kind(model, READ[head], more), tokenizer(causal=False), item)


def _besides(architecture: str, length: int) -> dict[str, Tensor]:
    """What some models want besides token ids."""
    if architecture == "lxmert":
        return {"visual_feats": torch.ones(1, 2, 2048), "visual_pos": torch.zeros(1, 2, 4)}
    if architecture == "bros":
        return {"bbox": torch.linspace(0, 1, length)[None, :, None].expand(1, length, 8).contiguous()}
    return {}


def _images(architecture: str, model: nn.Module) -> Iterator[Case]:
    config: Any = model.config
    vision = getattr(config, "vision_config", None) or config
    size = getattr(vision, "image_size", None)
    size = size if isinstance(size, int) else 32
    generator = torch.Generator().manual_seed(3)
    if architecture == "siglip2":  # takes patches
        patches = torch.randn(16, 3 * vision.patch_size**2, generator=generator)
        more = {"pixel_attention_mask": torch.ones(1, 16, dtype=torch.long), "spatial_shapes": torch.tensor([[4, 4]])}
        yield Case("attribute", Reader(model, "pixel_values", more), None, patches)
        return
    pixels = torch.randn(8, 3, size, size, generator=generator)
    model = calibrated(model, pixels)
    yield Case("load", model, None, pixels[0])
    yield Case("attribute", Reader(model, "pixel_values", {}), None, pixels[0])


def _sound(model: nn.Module) -> Case:
    config: Any = model.config
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "audio-spectrogram-transformer": ((24, 16), "input_values"),
        "whisper": ((16, 24), "input_features"),
        "wav2vec2-bert": ((12, 16), "input_features"),
    }
    shape, name = shapes.get(config.model_type, ((200,), "input_values"))
    generator = torch.Generator().manual_seed(3)
    return Case("attribute", Reader(model, name, {}), None, torch.randn(*shape, generator=generator))
