"""The main object: a loaded model that explains inputs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import nn

from looprop.checking import check_count
from looprop.coarse_to_fine import Limits, coarse_to_fine
from looprop.errors import InputError, UnknownNameError
from looprop.explained import explain_each, explain_list, explain_one, explain_subjects, explain_together
from looprop.interacting import MOST, interactions_of
from looprop.measure import CostEstimate, estimate
from looprop.methods.base import Method
from looprop.methods.default import by_default
from looprop.methods.names import DEFAULT
from looprop.methods.parts.players import Keep
from looprop.methods.registry import make_method
from looprop.models.adapter import Adapter, Removal
from looprop.models.answers import Answer, answered, answered_from
from looprop.models.conversation import Messages
from looprop.models.features import FeaturesLike
from looprop.models.heads.image_classifier import in_squares
from looprop.models.layout import Within
from looprop.models.ledger import refresh
from looprop.models.loading import load_adapter
from looprop.models.prompts import chat_text, generated, language_model
from looprop.models.subject import Subject, bind, bind_encoded
from looprop.models.target import TargetLike
from looprop.progress import Progress, Steps
from looprop.removal.value import Precision, SetFunction
from looprop.result.explanation import Explanation, Explanations
from looprop.result.matrix import ExplanationMatrix
from looprop.result.pairs import Interactions


class Workbench:
    """A model with everything needed to explain it. Made by `looprop.load`."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    def __repr__(self) -> str:
        return f"<Workbench: {', '.join(dict.fromkeys((self.adapter.name, type(self.model).__name__)))}>"

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

    def refresh(self) -> None:
        """Forget everything remembered about the model. Call it after a change that looprop cannot see: a write through
        `.data` or numpy to a few values of a large tensor, or a change outside of the model's modules.
        """
        refresh(self.model, self.adapter.ledger)

    def subject(
        self,
        item: Any,
        *,
        target: TargetLike = None,
        features: FeaturesLike | None = None,
        within: Within = None,
        truncation: bool = False,
    ) -> Subject:
        """The model bound to one input, target and partition; arguments as in `explain`."""
        return bind(self.adapter, item, target=target, features=features, within=within, truncation=truncation)

    def set_function(
        self,
        item: Any,
        *,
        target: TargetLike = None,
        features: FeaturesLike | None = None,
        within: Within = None,
        removal: Removal | None = None,
        truncation: bool = False,
        precision: Precision = "float32",
    ) -> SetFunction:
        """f(kept features) -> the target's value: called with a boolean matrix (N, F), answers with N numbers.

        removal: how features are removed; None is the default of the kind of input. All else as in `explain`.
        """
        return SetFunction(
            self.subject(item, target=target, features=features, within=within, truncation=truncation),
            removal=removal,
            precision=precision,
        )

    @overload
    def explain(
        self, item: Any, method: str | Method | None = ..., *, output: Literal["each"], **more: Any
    ) -> ExplanationMatrix: ...

    @overload
    def explain(self, item: list[Any], method: str | Method | None = ..., **more: Any) -> Explanations: ...

    @overload
    def explain(
        self, item: Any, method: str | Method | None = ..., *, target: list[Any], **more: Any
    ) -> Explanations: ...

    @overload
    def explain(
        self,
        item: Any,
        method: str | Method | None = ...,
        *,
        target: TargetLike = ...,
        features: FeaturesLike | None = ...,
        within: Within = ...,
        truncation: bool = ...,
        check: int | None = ...,
        output: Literal["sum"] = ...,
        progress: Progress = ...,
        stop: Callable[[], bool] | None = ...,
        **options: Any,
    ) -> Explanation: ...

    def explain(
        self,
        item: Any,
        method: str | Method | None = None,
        *,
        target: TargetLike | list[Any] = None,
        features: FeaturesLike | None = None,
        within: Within = None,
        truncation: bool = False,
        check: int | None = None,
        output: Literal["sum", "each"] = "sum",
        progress: Progress = False,
        stop: Callable[[], bool] | None = None,
        **options: Any,
    ) -> Explanation | Explanations | ExplanationMatrix:
        """Explain one input, or a list of inputs in batches.

        method: a name, with options in brackets (`ig[steps=20]`) or after it, or a method that is made already. None is
            "looprop", and where that refuses the model "attnlrp" or "loo", with a warning that says why.
        item: a text, a pair of texts (a tuple), an image, an `Answer` (`m.answer`, `m.context`), or a list of them.
        target: a class number, a label, a contrast (a, b), an object (`Continuation`, `Contrast`, `Token`), or None for
            the predicted class. A list is one target for each of a list of inputs, or several targets of one input,
            which share a forward pass where the method allows it. An answer is its own target.
        features: "token", "word", "sentence", "paragraph", "line", "turn", "document", "chunk:16", a regular expression
            (`re.compile(...)` or "regex:..."), named spans of characters {"doc 1": (0, 120)}, or groups of positions.
            None is tokens, and of an answer its documents, or sentences where there are none.
        within: where features are sought: a role or several ("user"), "documents", "all", or spans of characters. All
            else is always kept and gets no score. None: of an answer its documents or what stands inside the chat
            template, of other inputs everything.
        check: how many true leave-one-out values to compute (8 is a good number) to say how far the scores can be
            trusted: `e.check`, an estimate of r to leave-one-out. Each costs a forward pass.
        truncation: cut what is too long for the model; else that is an error.
        output: "each" explains every token of an answer (or of a continuation) by itself: a matrix of features and
            tokens. Its removals are those of the whole answer, and relevance takes one forward pass for all tokens.
        progress: True shows a bar; a function is called as `progress(done, total)`. A list of inputs, and the features
            of one input with "loo", are then computed a few at a time; last digits may differ from those of one batch.
        stop: a function that is asked after each of these steps. Where it returns True, and on Ctrl-C, the result holds
            what is known so far, fewer explanations or fewer features, and an `InterruptedWarning` says so.
        """
        if check is not None:
            check_count(check)
        steps = Steps(progress, stop) if progress or stop else None
        chosen = make_method(method or DEFAULT, **options) if method is not None or options else None
        if output not in ("sum", "each"):
            raise UnknownNameError("output", str(output), ("sum", "each"))
        if output == "each":
            if isinstance(item, list) or isinstance(target, list) or check is not None:
                raise InputError("output='each' is for one input and one target, without check=")
            one = self.subject(item, target=target, features=features, within=within, truncation=truncation)
            if chosen:
                return explain_each(one, chosen, steps)
            return by_default(lambda own: explain_each(one, own, steps))[0]
        if isinstance(item, list):
            if not item:
                raise InputError("the list of inputs is empty")
            targets = target if isinstance(target, list) else [target] * len(item)
            if len(targets) != len(item):
                raise InputError(
                    f"a list of targets must have one for each input: {len(item)} inputs, got {len(targets)} targets"
                )
            each: dict[str, Any] = {"features": features, "within": within, "truncation": truncation}
            if chosen and not steps and check is None and not any(isinstance(one, Answer) for one in item):
                together = explain_together(self.adapter, item, targets, chosen, **each)
                if together is not None:
                    return together
            bound = [partial(self.subject, i, target=t, **each) for i, t in zip(item, targets, strict=True)]
            return explain_list(bound, chosen, check=check, steps=steps)
        if isinstance(target, list):
            if not target:
                raise InputError("the list of targets is empty")
            encoded = self.adapter.encode(item, truncation=truncation)
            subjects = [bind_encoded(self.adapter, encoded, t, features, within) for t in target]
            return explain_subjects(subjects, chosen, check=check)
        plan = chosen.plan_for if chosen else None
        how: dict[str, Any] = {"features": features, "within": within}
        one = bind(self.adapter, item, target=target, truncation=truncation, plan_for=plan, **how)
        return explain_one(one, chosen, check=check, steps=steps)

    def estimate(
        self,
        item: Any,
        method: str | Method = "loo",
        *,
        target: TargetLike = None,
        features: FeaturesLike | None = None,
        within: Within = None,
        truncation: bool = False,
        output: Literal["sum", "each"] = "sum",
        **options: Any,
    ) -> CostEstimate:
        """What `explain` with the same arguments will cost, in forward passes and seconds: it takes one pass to say."""
        subject = self.subject(item, target=target, features=features, within=within, truncation=truncation)
        return estimate(subject, make_method(method, **options), each=output == "each")

    def coarse_to_fine(
        self,
        item: Any,
        *,
        levels: Sequence[str] | None = None,
        target: TargetLike = None,
        within: Within = None,
        budget: int | None = 200,
        seconds: float | None = None,
        share: float = 0.1,
        removal: Removal | None = None,
        truncation: bool = False,
    ) -> Explanation:
        """Leave-one-out by document or paragraph, then by sentence inside what mattered, then by token.

        levels: kinds of features from coarse to fine; None for documents, paragraphs, sentences and tokens, as far as
            there are any. budget: removals in all, seconds: of time; None is no limit. share: a part is looked into if
            its score is at least this share of the largest. What was not opened keeps the score of its group;
            `details["levels"]` says where each feature stands, `details["not_opened"]` what was left and why.
        """
        subject = self.subject(item, target=target, features="token", within=within, truncation=truncation)
        limits = Limits(budget, seconds, share)
        return coarse_to_fine(subject, within=within, levels=levels, limits=limits, removal=removal)

    def interactions(
        self,
        item: Any,
        *,
        target: TargetLike = None,
        features: FeaturesLike = "token",
        within: Within = None,
        most: int = MOST,
        keep: Keep = "special",
        removal: Removal | None = None,
        truncation: bool = False,
    ) -> Interactions:
        """What pairs of features do that their parts do not: f(x) - f(-i) - f(-j) + f(-ij).

        `says` of the result tells whether two features need each other ("not", "bad") or replace each other, as two
        words do that say the same. most: all pairs where there are no more of them, else those among the features with
        the largest effects, by leave-one-out or alone; how many of how many were asked for, and their cost, is said.
        """
        subject = self.subject(item, target=target, features=features, within=within, truncation=truncation)
        return interactions_of(subject, most=most, keep=keep, removal=removal)

    def answer(
        self,
        prompt: str | Messages,
        system: str | None = None,
        *,
        answer: str | Sequence[int] | None = None,
        max_new_tokens: int = 50,
    ) -> Answer:
        """What a language model says to a prompt, by always taking the likeliest token, as an object to be explained.

        prompt: a text, put into the model's own chat template as the user's turn, or messages {"role", "content"}.
        system: what its system turn says, if there is to be one. max_new_tokens: how long the answer may be.
        answer: an answer of one's own, as a text or as tokens; then nothing is generated.
        """
        adapter = language_model(self.adapter, "an answer")
        return answered(adapter, prompt, system=system, given=answer, max_new_tokens=max_new_tokens)

    def context(
        self,
        documents: Sequence[str] | Mapping[str, str],
        question: str,
        answer: str | Sequence[int] | None = None,
        *,
        system: str | None = None,
        template: str | None = None,
        max_new_tokens: int = 50,
    ) -> Answer:
        """The answer to a question about documents (a list, or texts by name). They are its features, and everything
        else is kept; features="sentence" are those inside the documents.

        template: how a prompt is made of them, with {documents} and {question}.
        """
        adapter = language_model(self.adapter, "an answer")
        more = {"system": system, "template": template, "given": answer, "max_new_tokens": max_new_tokens}
        return answered_from(adapter, documents, question, **more)  # type: ignore[arg-type]

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


def load(
    source: str | Path | tuple[nn.Module, Any] | None = None,
    *,
    trust_remote_code: bool = False,
    device: str | torch.device | None = None,
    patch: int | None = None,
) -> Workbench:
    """Load a model: a hub id, a folder, (model, tokenizer), or None for the embedded sentiment model.

    Weights come from safetensors only, and no remote code runs unless asked for.

    trust_remote_code: run code that comes with the model.
    device: where it computes; None is the CPU, or where a given model is.
    patch: of a model of images, the pixels to a side of one feature; None for the model's own patches, or 16 where it
        has none.

    >>> m = load()
    >>> m.explain("A warm and funny film.", "loo").label
    'positive'
    """
    adapter = load_adapter(source, trust_remote_code=trust_remote_code, device=device)
    return Workbench(adapter if patch is None else in_squares(adapter, patch))
