"""What every kind of model offers to methods: encode, run, read out."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from looprop.errors import InputError, LoopropError, ModelError
from looprop.intercept.attention import heads_of_one
from looprop.models.encoded import Encoded
from looprop.models.read_out import ReadOut, read_out_of
from looprop.models.target import Target, TargetLike
from looprop.propagation.location import modules_of
from looprop.propagation.plan import GRADIENT
from looprop.propagation.tape import Tape, relevance

# Padding may change an answer by rounding only: this much, relative to the size of the logits.
AGREEMENT = 2e-5
# On fewer positions there is too little to prove anything by.
SHORTEST_PROOF = 3

_evaluating_lock = Lock()
# How many runs hold a model in eval mode, and which of its modules were in training mode before the first of them.
_evaluating: WeakKeyDictionary[nn.Module, tuple[int, list[nn.Module]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Origin:
    """Where a model was loaded from, so that another process can load the same. accelerated: for a device that is not
    the CPU.
    """

    source: str | None
    trust_remote_code: bool = False
    accelerated: bool = False


class Adapter(ABC):
    """A model, with the little that differs between kinds of models."""

    causal = False
    # Can several inputs run in one batch at all? Can they be filled up to one length for it?
    batches = True
    pads = False

    def __init__(self, model: nn.Module, *, name: str = "", check: bool = True) -> None:
        self.model = model
        self.name = name or type(model).__name__
        self.labels: dict[int, str] = {}
        self._layers: int | None = None
        # Where the last answer was read from, and of which input; None for the input where it is so for all.
        self._read: tuple[ReadOut, Mapping[str, Tensor] | None] | None = None
        # What was found out about this model once and need not be tried again.
        self.proofs: dict[Any, bool] = {}
        # None for ready-made objects.
        self.origin: Origin | None = None
        # How many positions fit into one batch, where memory allows fewer than is usual.
        self.budget: int | None = None
        if check:
            check_model(model)
        parameters = inspect.signature(model.forward).parameters
        self.arguments = frozenset(parameters)
        self.takes_others = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())

    @property
    def device(self) -> torch.device:
        """Where inputs go: the device of the first parameter."""
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which the model computes."""
        return next(self.model.parameters()).dtype

    @property
    def explained_weight(self) -> Tensor | None:
        """The embedding table whose look-up is explained; None where the input itself is."""
        return None

    @abstractmethod
    def encode(self, item: Any, *, truncation: bool = False) -> Encoded:
        """An input as the model takes it, or an error that says why it cannot be."""

    @abstractmethod
    def resolve(self, encoded: Encoded, target: TargetLike) -> tuple[Encoded, Target]:
        """The target on the intact input; a continuation also extends the input."""

    @abstractmethod
    def token_scores(self, relevance: Tensor) -> Tensor:
        """Relevance at the explained tensor, summed to one number per position: (B, ...) -> (B, positions)."""

    def collate(self, items: Sequence[Encoded]) -> tuple[dict[str, Tensor], Tensor]:
        """Several inputs as one batch, and for each row the positions of its own tokens (B,
        longest), -1 for padding.
        """
        if len({len(item) for item in items}) > 1:
            raise InputError("inputs of one batch must have one size")
        inputs = {key: torch.cat([item.inputs[key] for item in items]) for key in items[0].inputs}
        return inputs, torch.arange(len(items[0])).expand(len(items), -1)

    def may_pad(self, encoded: Encoded) -> bool:
        """May this input be filled up to the length of another? Tried once per model: padding can reach the answer
        unseen.
        """
        if not (self.batches and self.pads) or len(encoded) < SHORTEST_PROOF:
            return False
        if "padding" not in self.proofs:
            self.proofs["padding"] = self._answers_alike_with_padding(encoded)
        return self.proofs["padding"]

    @torch.no_grad()
    def _answers_alike_with_padding(self, encoded: Encoded) -> bool:
        kept = [i for i in range(len(encoded)) if i != len(encoded) // 2]
        shorter = encoded.only(kept)
        with self.evaluating():
            alone = self.forward(self.collate([shorter])[0])
            try:
                beside = self.forward(self.collate([shorter, encoded])[0])[:1]
            except (RuntimeError, ValueError, TypeError, IndexError):  # a model that checks what it gets
                return False
        rounding = max(AGREEMENT, 4 * torch.finfo(alone.dtype).eps)
        return beside.shape == alone.shape and bool(
            (beside - alone).abs().max() <= rounding * alone.abs().max().clamp(min=1.0)
        )

    def forward(self, inputs: Mapping[str, Tensor], *, positions: int = 1) -> Tensor:
        """The logits of the last `positions` positions that the model answers: (B, K, C)."""
        output = self.model(**inputs)
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if not isinstance(logits, Tensor):
            raise ModelError(
                f"{self.name} must return logits (B, C) or an object with .logits, got {type(output).__name__}"
            )
        return self._read_out(logits, positions)

    def _read_out(self, logits: Tensor, positions: int) -> Tensor:
        if logits.dim() not in (1, 2):
            raise ModelError(
                f"{self.name} must return one row of logits per input, (B,) or (B, C), got {tuple(logits.shape)}"
            )
        return logits.reshape(len(logits), 1, -1)

    def watch(self, tape: Tape, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The inputs with the explained one watched, where it is an input and no look-up."""
        return dict(inputs)

    def explained(self, tape: Tape, inputs: Mapping[str, Tensor], readout: str) -> Tensor:
        """The tensor whose relevance is the explanation."""
        if readout == "word":
            return tape.explained
        if readout == "sum":
            return tape.embedding_sum
        raise InputError(f"readout must be 'word' or 'sum', got {readout!r}")

    def leading_positions(self, encoded: Encoded) -> int:
        """Positions of the sequence that stand before the first feature and are none (class tokens of images)."""
        return 0

    def spread(self, keep: Tensor, whole: Tensor) -> Tensor:
        """Kept positions (B, T) in the shape of the explained input (1, ...), for removal by zero."""
        return keep.reshape(len(keep), *whole.shape[1:])

    def attention_layers(self, encoded: Encoded) -> int:
        """How many attention layers the model has, as the engine counts them."""
        if self._layers is None:
            with self.evaluating(), relevance(self.model, GRADIENT, explained_weight=self.explained_weight) as tape:
                self.forward(self.watch(tape, encoded.inputs))
            self._layers = len(tape.sites)
        return self._layers

    def read_out(self, encoded: Encoded, *, positions: int = 1) -> ReadOut:
        """Which rows the answer is read from; the first where the engine cannot tell.

        Looked for once per model, and for each input where it may be another.
        """
        if len(encoded) < 2:
            return ReadOut(first=1)
        known = self._read
        if known is not None and (known[1] is None or known[1] is encoded.inputs):
            return known[0]
        try:
            found = self._find_read_out(encoded)
        except LoopropError:  # a model that the engine cannot follow: what asks has to prove it
            self._read = (ReadOut(first=1), None)
            return ReadOut(first=1)
        except (RuntimeError, MemoryError):  # too large for it
            return ReadOut(first=1)
        # One row at one end of a short input may have been looked for; a class token is none that moves.
        always = found.everything or (found == ReadOut(first=1) and len(encoded) > SHORTEST_PROOF)
        self._read = (found, None if always else encoded.inputs)
        return found

    @contextmanager
    def recorded(self, encoded: Encoded) -> Iterator[tuple[Tape, Tensor]]:
        """An intact input has run with the ordinary gradient, and every attention site is recorded; also within
        inference mode.
        """
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            self.evaluating(),
            relevance(self.model, GRADIENT, explained_weight=self.explained_weight, record=True) as tape,
        ):
            yield tape, self.forward(self.watch(tape, encoded.inputs))

    def _find_read_out(self, encoded: Encoded) -> ReadOut:
        with self.recorded(encoded) as (tape, logits):
            site = tape.sites[-1] if tape.sites else None
            if site is None or site.output is None:
                return ReadOut(first=1)
            with torch._C.DisableTorchFunction():
                mixed = (
                    logits * torch.linspace(1.0, 2.0, logits.shape[-1], device=logits.device)
                ).sum()  # probabilities add up to 1
            (gradient,) = tape.gradients(mixed, [site.output])
        like = site.weights if site.weights is not None else gradient
        return read_out_of(heads_of_one(gradient, like))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """The model as it predicts; modules that were in training mode are put back into it
        by the last run that ends.
        """
        with _evaluating_lock:
            runs, training = _evaluating.get(self.model, (0, []))
            if not runs:
                training = [module for module in modules_of(self.model) if module.training]
                for module in training:
                    module.training = False
            _evaluating[self.model] = (runs + 1, training)
        try:
            # On a CPU the half precision of autocast would spoil relevance.
            with torch.autocast("cpu", enabled=False):
                yield
        finally:
            with _evaluating_lock:
                runs, training = _evaluating.pop(self.model)
                if runs > 1:
                    _evaluating[self.model] = (runs - 1, training)
                else:
                    for module in training:
                        module.training = True

    @torch.no_grad()
    def logits(self, encoded: Encoded, *, positions: int = 1) -> Tensor:
        """The logits (K, C) of one intact input, checked to be numbers."""
        with self.evaluating():
            logits = self.forward(encoded.inputs, positions=positions)[0]
        if not torch.isfinite(logits).all():
            raise ModelError(f"{self.name} answers with NaN or infinite logits on this input: nothing can be explained")
        return logits


def check_model(model: nn.Module) -> None:
    """Raise for a model that would give wrong or no numbers."""
    if not isinstance(model, nn.Module):
        raise ModelError(f"a model must be a torch.nn.Module, got {type(model).__name__}")
    if next(model.parameters(), None) is None:
        raise ModelError(f"{type(model).__name__} has no parameters")
    half = next(
        (p for p in model.parameters() if p.dtype in (torch.float16, torch.bfloat16) and p.device.type == "cpu"), None
    )
    if half is not None:
        raise ModelError(
            f"{type(model).__name__} is in {half.dtype} on a CPU, where its rounding spoils relevance: use "
            "model.float()"
        )
    if any(p.is_meta for p in model.parameters()):
        raise ModelError(f"{type(model).__name__} has parameters without data (device 'meta'): load its weights first")
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if isinstance(implementation, str) and ("flash" in implementation or "flex" in implementation):
        raise ModelError(
            f"attention is {implementation!r}, a kernel the engine cannot see into: load with "
            "attn_implementation='sdpa' or 'eager'"
        )
