"""`looprop.relevance`: any module under a plan, with the relevance of any tensor that it computed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from looprop.errors import InputError, LoopropError, RuleError, UnseenError
from looprop.intercept.attention import AttentionSite
from looprop.propagation.location import what_failed
from looprop.propagation.mode import RelevanceMode
from looprop.propagation.modules import differentiates_itself, refuse_opaque
from looprop.propagation.plan import Plan

_CHECKPOINTED = (
    "gradient checkpointing (or another hook on saved tensors) computes activations a second time, out of the engine's "
    "sight: "
    "put the model into eval mode or call gradient_checkpointing_disable()"
)


unseen: Callable[[], AbstractContextManager[None]] = torch._C.DisableTorchFunction
"""`with unseen():` what runs in this block is none of the engine's business, nor of any other mode's."""


@contextmanager
def _checkpoints_refused() -> Iterator[None]:
    """An older kind of checkpointing says only in the backward pass that it cannot be asked for single gradients."""
    try:
        yield
    except RuntimeError as error:
        if "torch.utils.checkpoint" in str(error):
            raise UnseenError(_CHECKPOINTED) from error
        if isinstance(error, LoopropError) or "memory" in str(error).lower():
            raise
        said = " ".join(str(error).split())[:200]
        raise RuleError(f"the backward pass fails under the engine: {said}. Use 'loo', which needs none") from error


@dataclass(frozen=True, eq=False)
class Tape:
    """Hands out relevances of a forward pass that ran under a plan."""

    _mode: RelevanceMode

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._mode.plan

    @property
    def sites(self) -> list[AttentionSite]:
        """The attention sites met so far; their tensors are there when recording."""
        return self._mode.sites

    @property
    def explained_inputs(self) -> list[Tensor]:
        """All look-ups of the explained embedding table, in their order: an encoder's input and a decoder's."""
        return list(self._mode.explained_inputs)

    @property
    def explained(self) -> Tensor:
        """The one look-up of the explained embedding table, or the tensor that was last watched."""
        self._refuse_two()
        if self._mode.explained is None:
            raise InputError(
                "the explained embedding table was not looked up; call the model inside the `with` block first"
            )
        return self._mode.explained

    def _refuse_two(self) -> None:
        if self._mode.again:
            raise RuleError(
                f"the explained embedding table is looked up more than once, in {self._mode.again}: its look-ups are "
                "tape.explained_inputs"
            )

    @property
    def embedding_sum(self) -> Tensor:
        """The explained look-up with everything constant that was added to it (positions, token types)."""
        self._refuse_two()
        if self._mode.embedding_sum is None:
            raise InputError(
                "the explained embedding table was not looked up; call the model inside the `with` block first"
            )
        return self._mode.embedding_sum

    @property
    def position_shares(self) -> Tensor | None:
        """One for each position (B, T), of which its gradient is the relevance that rotations gave it; None where there
        was no rotation, or the plan gives it no share.
        """
        return self._mode.position_shares

    @property
    def adds_positions(self) -> bool:
        """Whether something constant was added to the explained look-up."""
        return self._mode.embedding_sum is not self._mode.looked_up

    def watch(self, tensor: Tensor) -> Tensor:
        """Begin to explain a tensor: use what this returns as the model's input."""
        if not tensor.is_floating_point():
            raise InputError(f"only floating-point tensors carry relevance, got {tensor.dtype}")
        self._mode.explained = self._mode.explain(tensor)
        return self._mode.explained

    def check(self, output: Tensor) -> None:
        """Raise if relevance cannot start from an output, or the plan names a layer that was not met."""
        with unseen():
            self._mode.finish(output)

    def gradients(self, output: Tensor, tensors: Sequence[Tensor], *, keep: bool = False) -> list[Tensor]:
        """The modified gradients of an output (summed over all its entries) at some tensors."""
        if not output.requires_grad:
            self.check(output)
        with unseen(), _checkpoints_refused():
            return list(torch.autograd.grad(output.sum(), list(tensors), retain_graph=keep))

    def gradients_or_none(
        self, output: Tensor, tensors: Sequence[Tensor], *, keep: bool = False
    ) -> list[Tensor | None]:
        """The same, with None for tensors that the output does not depend on."""
        with unseen(), _checkpoints_refused():
            return list(torch.autograd.grad(output.sum(), list(tensors), retain_graph=keep, allow_unused=True))

    def relevance(self, output: Tensor, tensor: Tensor, *, keep: bool = False) -> Tensor:
        """R = x * g: the relevance of a tensor for an output, e.g. one logit per row of a batch.

        keep: more outputs of the same forward pass will be asked for.
        """
        (gradient,) = self.gradients(output, [tensor], keep=keep)
        with unseen():
            return tensor.detach() * gradient


@contextmanager
def relevance(
    module: nn.Module | None = None,
    plan: Plan | None = None,
    *,
    explained_weight: Tensor | None = None,
    record: bool = False,
) -> Iterator[Tape]:
    """Run models under a plan: inside the block their backward pass propagates relevance.

    module: what will run, so that errors can name its parts. plan: AttnLRP in every layer unless given.
    explained_weight: the embedding table whose look-up is the tensor to explain; it becomes a leaf of its own.
    record: keep queries, keys, values and outputs of every attention site.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, -1.0]]))
    >>> with relevance(layer, Plan()) as tape:
    ...     x = tape.watch(torch.tensor([[2.0, 5.0]]))
    ...     tape.relevance(layer(x), x)
    tensor([[ 6., -5.]])
    """
    refuse_opaque(module)
    mode = RelevanceMode(plan or Plan(), root=module, explained_weight=explained_weight, record=record)
    hooks = torch.autograd.graph.disable_saved_tensors_hooks(_CHECKPOINTED)
    try:
        with torch.inference_mode(False), torch.enable_grad(), hooks, mode:
            yield Tape(mode)
    except Exception as error:
        said = str(error)
        if said == _CHECKPOINTED:
            raise UnseenError(_CHECKPOINTED) from error
        if "have been used in the graph" in said:  # it finds its leaves replaced by those of the rules
            raise differentiates_itself() from error
        known = isinstance(error, (LoopropError, MemoryError)) or "memory" in said.lower()
        if known or not (failed := what_failed(error, module)):
            raise
        raise RuleError(
            f"{failed} cannot run under the engine, {type(error).__name__}: {' '.join(said.split())[:160]}. "
            "Use 'loo', which runs the model as it is"
        ) from error
