"""The base of methods that look at attention, and what they read off a forward pass."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from looprop.errors import InputError
from looprop.intercept.attention import AttentionSite, heads_of_one, shared_by_groups
from looprop.intercept.layers import UnfollowedAttention, layers_of
from looprop.methods.base import Attribution, Method
from looprop.models.prediction import Traced
from looprop.models.subject import Subject
from looprop.propagation.tape import unseen
from looprop.removal.trust import check_version

INSTEAD = "use 'looprop', 'loo' or a method of propagation"


def check_tokens(subject: Subject, method: str, two_stacks: str) -> None:
    """Raise for models that are no single stack of tokens. two_stacks: why the method refuses an encoder-decoder."""
    if not subject.adapter.tokens:
        raise InputError(
            f"{method} has no meaning for a plain tensor model: its inputs are no tokens that attend to each other"
        )
    if subject.adapter.two_stacks:
        raise InputError(f"{method} has no meaning for an encoder-decoder{two_stacks}")


class AttentionMethod(Method):
    """The base of methods whose scores are a row of one matrix that says how positions reach each other."""

    inputs = ("text", "image")

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        found = []
        for subject in subjects:
            check_tokens(subject, self.name, ": its attention maps are of two sequences and no chain")
            scores = read_rows(subject, self.flow(subject)).double().cpu().numpy()
            found.append(Attribution(subject.group(scores), cost=self.passes(subject)))
        return found

    @abstractmethod
    def flow(self, subject: Subject) -> Tensor:
        """How much of each position (columns) reaches each position (rows): (T, T)."""


@contextmanager
def attention_layers(subject: Subject, method: str) -> Iterator[tuple[Traced, list[list[AttentionSite]]]]:
    """An input has run under the ordinary gradient: the run, and the sites of each layer, first layer first."""
    adapter, encoded, unfollowed = subject.adapter, subject.encoded, UnfollowedAttention()
    positions = subject.target.positions
    with adapter.traced(encoded.inputs, positions=positions, record=True, within=unfollowed) as traced:
        with unseen():
            subject.check_route(float(subject.target.value(traced.logits.detach())[0]), "under the engine")
        yield traced, _checked(subject, method, traced.tape.sites, unfollowed)
    check_version(subject)


def _checked(
    subject: Subject, method: str, sites: list[AttentionSite], unfollowed: UnfollowedAttention
) -> list[list[AttentionSite]]:
    adapter = subject.adapter
    if not sites:
        raise InputError(f"{method} needs attention, and {adapter.name} has none that the engine recognises")
    if missed := unfollowed.off + unfollowed.constant:
        raise InputError(
            f"{method} needs every layer, and {adapter.name} computes {missed} of its attention calls with "
            f"gradients turned off or on constants, where nothing is recorded: {INSTEAD}"
        )
    if unread := [site.number for site in sites if site.products == 0 or site.changed]:
        raise InputError(
            f"{method} needs weights that meet values as the softmax made them, and those of attention site "
            f"{unread[0]} of {adapter.name} are mixed, changed or used in another way first: {INSTEAD}"
        )
    layers = layers_of(sites)
    if layers is None:
        raise InputError(
            f"{method} needs layers that follow each other, and the {len(sites)} attention sites of {adapter.name} do "
            "not: there is more than one stream (an encoder and a decoder, two flows), or attention runs in pieces: "
            f"{INSTEAD}"
        )
    length = adapter.leading_positions(subject.encoded) + len(subject.encoded)
    shapes = {tuple(weights_of(layer[0]).shape[-2:]) for layer in layers}
    if others := sorted(shapes - {(length, length)}):
        raise InputError(
            f"{method} needs weights of every position on every other, ({length}, {length}), and {adapter.name} has "
            f"{others[0]}: its positions are other than those of the input: {INSTEAD}"
        )
    return layers


def weights_of(site: AttentionSite) -> Tensor:
    """The attention weights (H, T, T) of a site on one input; what an attention sink takes is left out."""
    weights = site.all_weights().detach()
    return heads_of_one(weights, weights)


def values_of(site: AttentionSite) -> Tensor:
    """The values (H, T, d) of a site on one input, one for each head of the weights."""
    assert site.value is not None
    weights = site.all_weights()
    values = heads_of_one(site.value.detach(), weights)
    return shared_by_groups(values, heads_of_one(weights, weights))


def read_rows(subject: Subject, flow: Tensor) -> Tensor:
    """The row of a matrix (T, T) that is read out, or the mean of those that are, at the positions of the input."""
    rows = subject.rows_read
    if subject.target.continuation:
        rows = rows[:-1]  # the last token of a continuation predicts nothing that is asked for
    return flow[rows].mean(0)[subject.adapter.leading_positions(subject.encoded) :]


def rollout(maps: Sequence[Tensor], *, residual: bool) -> Tensor:
    """The product of attention matrices (T, T), first layer first; residual: each counts half, the other half stays."""
    identity = torch.eye(maps[0].shape[-1], dtype=maps[0].dtype, device=maps[0].device)
    flow = identity
    for weights in maps:
        flow = ((weights + identity) / 2 if residual else weights) @ flow
    return flow


def rows_to_one(matrix: Tensor) -> Tensor:
    """A matrix of sizes with rows that add up to 1; a row of zeros reads from itself."""
    total = matrix.sum(-1, keepdim=True)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.where(total > 0, matrix / total.masked_fill(total == 0, 1.0), identity)
