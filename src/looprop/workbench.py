"""The main object: a loaded model that explains inputs."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn

from looprop.errors import InputError
from looprop.explanation import Explanation, Explanations
from looprop.methods.base import Attribution, Method
from looprop.methods.registry import make_method
from looprop.models.adapter import Adapter, Removal
from looprop.models.image_classifier import in_squares
from looprop.models.loading import load_adapter
from looprop.models.prompts import chat_text, generated, language_model
from looprop.models.subject import Subject, bind, bind_encoded
from looprop.models.target import TargetLike
from looprop.removal.set_function import Precision, SetFunction

Features = str | Sequence[Sequence[int]]


class Workbench:
    """A model with everything needed to explain it. Made by `looprop.load`."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    @property
    def model(self) -> nn.Module:
        """The torch module."""
        return self.adapter.model

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, or the image processor."""
        return getattr(self.adapter, "tokenizer", None) or getattr(self.adapter, "processor", None)

    @property
    def labels(self) -> dict[int, str]:
        """The classes by number."""
        return self.adapter.labels

    def subject(
        self, item: Any, *, target: TargetLike = None, features: Features = "token", truncation: bool = False
    ) -> Subject:
        """The model bound to one input, target and partition."""
        return bind(self.adapter, item, target=target, features=features, truncation=truncation)

    def set_function(
        self,
        item: Any,
        *,
        target: TargetLike = None,
        features: Features = "token",
        removal: Removal | None = None,
        truncation: bool = False,
        precision: Precision = "float32",
    ) -> SetFunction:
        """f(kept features) -> the target's value: called with a boolean matrix (N, F), answers with N numbers."""
        return SetFunction(
            self.subject(item, target=target, features=features, truncation=truncation),
            removal=removal,
            precision=precision,
        )

    @overload
    def explain(
        self,
        item: list[Any],
        method: str | Method = ...,
        *,
        target: TargetLike | list[Any] = ...,
        features: Features = ...,
        truncation: bool = ...,
        **options: Any,
    ) -> Explanations: ...

    @overload
    def explain(
        self,
        item: Any,
        method: str | Method = ...,
        *,
        target: list[Any],
        features: Features = ...,
        truncation: bool = ...,
        **options: Any,
    ) -> Explanations: ...

    @overload
    def explain(
        self,
        item: Any,
        method: str | Method = ...,
        *,
        target: TargetLike = ...,
        features: Features = ...,
        truncation: bool = ...,
        **options: Any,
    ) -> Explanation: ...

    def explain(
        self,
        item: Any,
        method: str | Method = "cp-lrp",
        *,
        target: TargetLike | list[Any] = None,
        features: Features = "token",
        truncation: bool = False,
        **options: Any,
    ) -> Explanation | Explanations:
        """Explain one input, or a list of inputs in batches.

        item: a text, a pair of texts (a tuple), an image, or a list of them.
        target: a class number, a label, a contrast (a, b), or None for the predicted class. A list is one target for
            each of a list of inputs, or several targets of one input, which share a forward pass where the method
            allows it.
        features: "token", "word", "chunk:16", or groups of positions.
        """
        chosen = make_method(method, **options)
        if isinstance(item, list):
            if not item:
                raise InputError("the list of inputs is empty")
            targets = target if isinstance(target, list) else [target] * len(item)
            if len(targets) != len(item):
                raise InputError(
                    f"a list of targets must have one for each input: {len(item)} inputs, got {len(targets)} targets"
                )
            subjects = [
                self.subject(i, target=t, features=features, truncation=truncation)
                for i, t in zip(item, targets, strict=True)
            ]
        elif isinstance(target, list):
            if not target:
                raise InputError("the list of targets is empty")
            encoded = self.adapter.encode(item, truncation=truncation)
            subjects = [bind_encoded(self.adapter, encoded, t, features) for t in target]
        else:
            subjects = [self.subject(item, target=target, features=features, truncation=truncation)]
        explanations = explain_subjects(subjects, chosen)
        return explanations if isinstance(item, list) or isinstance(target, list) else explanations[0]

    def chat(self, prompt: str, system: str | None = None) -> str:
        """The text of a prompt: the user's turn in the model's own chat template, after a system's turn if there is
        one; the prompt as it is where the model has no template.
        """
        return chat_text(language_model(self.adapter, "a prompt").tokenizer, prompt, system)

    def generate(self, text: str, max_new_tokens: int = 20) -> str:
        """What a language model says next, or an encoder-decoder about a text, by always taking the likeliest token.

        To explain it: `m.explain(text, target="continuation:" + m.generate(text))`.
        """
        return generated(language_model(self.adapter, "generating"), text, max_new_tokens)


def explain_subjects(subjects: Sequence[Subject], method: Method) -> Explanations:
    """Run a method and put names to its scores."""
    start = time.perf_counter()
    attributions = method.attribute(subjects)
    seconds = (time.perf_counter() - start) / len(subjects)
    return Explanations(_explanation(s, a, method, seconds) for s, a in zip(subjects, attributions, strict=True))


def _explanation(subject: Subject, attribution: Attribution, method: Method, seconds: float) -> Explanation:
    encoded, groups = subject.encoded, subject.features
    spans = []
    for group in groups:
        own = [s for i in group if (s := encoded.offsets[i]) is not None]
        spans.append((min(s[0] for s in own), max(s[1] for s in own)) if own else None)
    names = [
        encoded.names[g[0]]
        if len(g) == 1
        else encoded.text[s[0] : s[1]]
        if s
        else " ".join(encoded.names[i] for i in g)
        for g, s in zip(groups, spans, strict=True)
    ]
    return Explanation(
        features=names,
        scores=attribution.scores,
        method=method.name,
        output=subject.output,
        target=subject.target.key,
        label=subject.target.label,
        text=encoded.text,
        offsets=spans,
        special=[all(encoded.special[i] for i in g) for g in groups],
        word_ids=[encoded.word_ids[g[0]] for g in groups],
        residual=attribution.residual,
        cost=attribution.cost,
        seconds=seconds,
        model=subject.adapter.name,
        options=method.options,
        details=attribution.details,
        # The first token of a causal model is an attention sink: shown, but not on the colour scale.
        outside_scale=[subject.adapter.causal and 0 in group and len(groups) > 1 for group in groups],
    )


def load(
    source: str | Path | tuple[nn.Module, Any] | None = None,
    *,
    trust_remote_code: bool = False,
    device: str | torch.device | None = None,
    patch: int | None = None,
) -> Workbench:
    """Load a model: a hub id, a folder, (model, tokenizer), or None for the embedded sentiment model.

    Weights come from safetensors only, and no remote code runs unless asked for. patch: of a model of images, the
    pixels to a side of one feature; None for the model's own patches, or 16 where it has none.
    """
    adapter = load_adapter(source, trust_remote_code=trust_remote_code, device=device)
    return Workbench(adapter if patch is None else in_squares(adapter, patch))
