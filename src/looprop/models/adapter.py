"""What every kind of model offers to methods. An adapter owns its model: nobody else asks of which kind it is.

In this order below: what a model is given (encode, collate), what it answers (forward, logits, resolve), how its input
can be altered (masked, zeroed, replaced, some rows only, moved along a line), what is read off a run under a plan
(traced), and what has to be found out about it by trying (facts).
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from itertools import chain
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from looprop.errors import InputError, ModelError
from looprop.intercept.program import LISTENING, PathMode
from looprop.models import predicting
from looprop.models.answer_rows import AnswerRows
from looprop.models.checking import check_model
from looprop.models.encoded import Encoded
from looprop.models.ledger import BATCHES, PADDING, SHORTEST_PROOF, Ledger, ledger_of
from looprop.models.origin import Origin
from looprop.models.positions import Positions, positions_of
from looprop.models.predicting import PlanFor
from looprop.models.prediction import Predict, Prediction, Resolved, Traced
from looprop.models.target import TargetLike, labels_of, resolve_target
from looprop.models.trying import answers_alike_with_padding, find_answer_rows
from looprop.propagation.modules import evaluating
from looprop.propagation.plan import GRADIENT, Plan
from looprop.propagation.tape import relevance

Removal = Literal["attention-mask", "zero", "mask-token", "pad-token", "delete"]
"""How a feature can be removed from an input."""

Altered = tuple[dict[str, Tensor], AbstractContextManager[object]]
"""Inputs of an altered batch, and the `with` block inside which the model has to run on them."""


class Adapter(ABC):
    """A model, with the little that differs between kinds of models."""

    noun = "inputs"
    """What inputs of this kind are called in messages."""
    removals: tuple[Removal, ...] = ("zero", "attention-mask")
    """How features of such an input can be removed; the first is the default."""
    tokens = True
    """Are positions tokens that attend to each other?"""
    causal = False
    takes_mask = False
    """Does the model take an attention mask of its own?"""
    takes_past = False
    """Can it be given the keys and values of a prefix that was computed before?"""
    two_stacks = False
    """Does a decoder, with positions of its own, read what an encoder has made of the input?"""
    target_words: Literal["class", "token", "text"] = "class"
    """How a target is written on a command line: a class or two, a token or two, or a text that is taken whole."""
    classifies = False
    """Are its logits those of classes, with names in the model's configuration?"""
    batches = True
    """Can several inputs run in one batch at all?"""
    ends_at_padding = False
    """Is an input answered at its last token that is no padding, and one at a time where padding is not known?"""
    pads = False
    """Can they be filled up to one length for it?"""
    draws = False
    """Can an input be shown as a picture?"""
    explained_input = ""
    """The input that is explained itself; empty where a look-up is."""

    def __init__(self, model: nn.Module, *, name: str = "", check: bool = True) -> None:
        if check:
            check_model(model)
        self.model = model
        self.name = name or type(model).__name__
        self.ledger = ledger_of(model, type(self))
        self.origin: Origin | None = None  # stays None for ready-made objects
        parameters = inspect.signature(model.forward).parameters
        self.arguments = frozenset(parameters)
        self.takes_others = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())

    def renewed(self, model: nn.Module | None = None) -> Self:
        """A copy for this or another writing of the model, with an empty ledger of its own: what is proven of one
        writing need not hold for another. How much fits into memory stays.
        """
        other = copy(self)
        other.model, other.ledger = model or self.model, Ledger(self.ledger.batch_positions)
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "ledger"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.ledger = ledger_of(self.model, type(self))

    @property
    def labels(self) -> dict[int, str]:
        """The names of the classes, as the model's configuration has them now."""
        return labels_of(getattr(self.model, "config", None)) if self.classifies else {}

    @property
    def device(self) -> torch.device:
        """Where inputs go: the device of the first parameter or buffer."""
        first = next(chain(self.model.parameters(), self.model.buffers()), None)
        return torch.device("cpu") if first is None else first.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which the model computes."""
        first = next(self.model.parameters(), None)
        return torch.get_default_dtype() if first is None else first.dtype

    @property
    def one_is_true(self) -> bool:
        """Are its logits those of classes or tokens of which one is true, so that their softmax is a probability?"""
        config = getattr(self.model, "config", None)
        if self.target_words != "class":
            return self.target_words == "token"
        several = len(getattr(config, "id2label", None) or ()) > 1
        return several and getattr(config, "problem_type", None) in (None, "single_label_classification")

    def picture(self, encoded: Encoded) -> Mapping[str, Any]:
        """What an input looks like, as plain data: of an image its file and its patches, of others nothing."""
        return {}

    def evaluating(self) -> AbstractContextManager[None]:
        """The model as it predicts."""
        return evaluating(self.model)

    # What it is given

    @abstractmethod
    def encode(self, item: Any, *, truncation: bool = False) -> Encoded:
        """An input as the model takes it, or an error that says why it cannot be."""

    def collate(self, items: Sequence[Encoded]) -> tuple[dict[str, Tensor], Tensor]:
        """Several inputs as one batch, and for each row the positions of its own tokens (B, longest); -1 is padding."""
        if len({len(item) for item in items}) > 1:
            raise InputError("inputs of one batch must have one size")
        inputs = {key: torch.cat([item.inputs[key] for item in items]) for key in items[0].inputs}
        return inputs, torch.arange(len(items[0])).expand(len(items), -1)

    def whole(self, encoded: Encoded, count: int) -> dict[str, Tensor]:
        """One input, `count` times."""
        return {key: value.expand(count, *value.shape[1:]) for key, value in encoded.inputs.items()}

    def batch_positions(self, encoded: Encoded) -> int:
        """How many positions one variant of an input takes in a batch."""
        return len(encoded.names)

    # What it answers

    def forward(self, inputs: Mapping[str, Any], *, positions: int = 1) -> Tensor:
        """The logits of the last `positions` positions that the model answers: (B, K, C)."""
        output = self.model(**inputs)
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if not isinstance(logits, Tensor):
            raise ModelError(
                f"{self.name} must return logits (B, C) or an object with .logits, got {type(output).__name__}"
            )
        if logits.dim() not in (1, 2):
            raise ModelError(
                f"{self.name} must return one row of logits per input, (B,) or (B, C), got {tuple(logits.shape)}"
            )
        return logits.reshape(len(logits), 1, -1)

    def logits(self, inputs: Mapping[str, Any], *, positions: int = 1) -> Tensor:
        """The logits (B, K, C) of one forward pass: the only door to the model. Its path is noted for who listens."""
        if (listening := LISTENING.get()) is None:
            return self.forward(inputs, positions=positions)
        with PathMode(inputs) as mode:
            logits = self.forward(inputs, positions=positions)
        listening.append(mode.path)
        return logits

    def predict(self, encoded: Encoded, *, positions: int = 1, plan_for: PlanFor | None = None) -> Prediction:
        """The model's own prediction for one input, checked to be numbers: every other route is compared with it.

        plan_for: of the method that relevance will be asked of; where passes under its plan were seen to answer as the
        model does, such a pass is the prediction as well.
        """
        return predicting.predict(self, encoded, positions, plan_for, one_is_true=self.one_is_true)

    def resolve(self, encoded: Encoded, target: TargetLike, predict: Predict | None = None) -> Resolved:
        """Find the target on the input: a class by number or label, a contrast of two, or the predicted one.

        predict: another way to predict an input than `self.predict`.
        """
        prediction = (predict or self.predict)(encoded)
        labels = labels_of(getattr(self.model, "config", None)) if self.classifies else {}
        return Resolved(encoded, resolve_target(target, prediction.logits[-1], labels), prediction)

    # How its input can be altered

    def masked(self, encoded: Encoded, keep: Tensor) -> dict[str, Tensor]:
        """Variants (B, T) with the keys of what is not kept barred by the model's own mask."""
        raise NotImplementedError

    def zeroed(self, encoded: Encoded, keep: Tensor) -> dict[str, Tensor]:
        """Variants (B, T) with what is not kept set to zero."""
        ((name, whole),) = encoded.inputs.items()
        return {name: whole * self.spread(keep, whole).to(whole.dtype)}

    def spread(self, keep: Tensor, whole: Tensor) -> Tensor:
        """Kept positions (B, T) in the shape of the explained input (1, ...)."""
        return keep.reshape(len(keep), *whole.shape[1:])

    def replaced(self, encoded: Encoded, keep: Tensor, token: int) -> dict[str, Tensor]:
        """Variants (B, T) with what is not kept replaced by another token, which everybody still reads."""
        raise NotImplementedError

    def token_id(self, kind: Literal["mask-token", "pad-token"]) -> int:
        """The number of a special token; an error where there is none."""
        raise NotImplementedError

    @property
    def runs_rows(self) -> bool:
        """Can some rows of a sequence be run on their own, each at its place?"""
        return False

    def at_rows(self, encoded: Encoded, rows: Tensor, *, read: Tensor | None = None) -> Altered:
        """Rows (B, R) of an input, each at its place. read: (B, R) which of them have a key; None for all."""
        raise NotImplementedError

    def explained_values(self, encoded: Encoded) -> Tensor:
        """The values (1, ...) of the explained tensor on an input: here the input itself."""
        (values,) = encoded.inputs.values()
        return values

    def baseline(self, values: Tensor, kind: Literal["zero", "space", "pad", "mask"]) -> Tensor:
        """What stands for "nothing there" in place of the explained values."""
        if kind != "zero":
            raise InputError(f"baseline={kind!r} is for texts; tensors and images start from zero")
        return torch.zeros_like(values)

    def at_values(self, encoded: Encoded, values: Tensor) -> Altered:
        """An input with other values (B, ...) in place of the explained ones."""
        (name,) = encoded.inputs
        return {name: values}, nullcontext()

    # What is read off a run under a plan

    @property
    def explained_weight(self) -> Tensor | None:
        """The embedding table whose look-up is explained; None where the input itself is."""
        return None

    @contextmanager
    def traced(
        self,
        inputs: Mapping[str, Tensor],
        plan: Plan = GRADIENT,
        *,
        positions: int = 1,
        record: bool = False,
        within: AbstractContextManager[object] | None = None,
    ) -> Iterator[Traced]:
        """A batch has run under a plan, also within inference mode.

        record: keep what every attention site computed. within: another mode that looks on at the forward pass.
        """
        with (
            self.evaluating(),
            relevance(self.model, plan, explained_weight=self.explained_weight, record=record) as tape,
        ):
            with within or nullcontext():
                watched = dict(inputs)
                if name := self.explained_input:
                    watched[name] = tape.watch(inputs[name])
                logits = self.logits(watched, positions=positions)
            yield Traced(tape, watched, logits)

    def explained(self, traced: Traced, readout: str) -> Tensor:
        """The tensor whose relevance is the explanation: the explained input, or a look-up."""
        if self.explained_input:
            return traced.inputs[self.explained_input]
        if readout not in ("word", "sum"):
            raise InputError(f"readout must be 'word' or 'sum', got {readout!r}")
        return traced.tape.explained if readout == "word" else traced.tape.embedding_sum

    @abstractmethod
    def token_scores(self, relevance: Tensor) -> Tensor:
        """Relevance at the explained tensor, summed to one number per position: (B, ...) -> (B, positions)."""

    # What has to be found out about it

    @property
    def takes_batches(self) -> bool:
        """Can several inputs run in one batch, as far as is known?"""
        told = not self.ends_at_padding or getattr(getattr(self.model, "config", None), "pad_token_id", 0) is not None
        return self.batches and told and BATCHES not in self.ledger.dropped

    @property
    def positions(self) -> Positions:
        """How the model numbers positions."""
        found: Positions | None = self.ledger.found.get("positions")
        return found or self.ledger.once("positions", lambda: positions_of(self.model, self.arguments))

    def leading_positions(self, encoded: Encoded) -> int:
        """Positions of the sequence that stand before the first feature and are none (class tokens of images)."""
        return 0

    def attention_layers(self, encoded: Encoded) -> int:
        """How many attention layers the model has, as the engine counts them."""
        return self._count_attention(encoded)[1]

    def attention_sites(self, encoded: Encoded) -> int:
        """How many attention sites a forward pass has: a layer may have more than one."""
        return self._count_attention(encoded)[0]

    def _count_attention(self, encoded: Encoded) -> tuple[int, int]:
        def count() -> tuple[int, int]:
            with self.traced(encoded.inputs) as traced:
                return traced.attention

        found: tuple[int, int] | None = self.ledger.found.get("attention")
        return found or self.ledger.once("attention", count)

    def may_pad(self, encoded: Encoded) -> bool:
        """May this input be filled up to the length of another? Tried: padding can reach the answer unseen."""
        if not (self.takes_batches and self.pads) or len(encoded) < SHORTEST_PROOF or PADDING in self.ledger.dropped:
            return False
        return self.ledger.once("padding", lambda: answers_alike_with_padding(self, encoded))

    def halved(self, encoded: Encoded, keep: Tensor) -> dict[str, Tensor]:
        """An input with what is not kept replaced by something plain, to see how much the logits move."""
        return self.zeroed(encoded, keep)

    def spare_position(self, encoded: Encoded) -> int:
        """A position that can be cut out of an input and still leaves one."""
        return len(encoded) // 2

    def answer_rows(self, encoded: Encoded, *, positions: int = 1) -> AnswerRows:
        """Which rows the answer to an input is read from; the first where the engine cannot tell."""
        return find_answer_rows(self, encoded)
