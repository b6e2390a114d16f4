"""What was cut out of the graph, remembered by the memory that holds it.

A detached tensor, its views, an array over its memory and a buffer that it was copied into are different objects. They
have one storage in common, and by it they are known when they come back to activations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

if TYPE_CHECKING:
    from looprop.propagation.call import Trace

# What a note forbids, the strictest last: a tensor made of two is forbidden what either is.
_STRICTNESS = ("", "rotation", "weights", "coefficient", "normaliser", "integer", "cut")


def strictest(*notes: Trace | None) -> Trace | None:
    """The note that forbids most."""
    return max(
        (note for note in notes if note is not None), key=lambda note: _STRICTNESS.index(note.held), default=None
    )


class Cuts:
    """Notes on storages; a storage that is gone takes its note with it."""

    def __init__(self) -> None:
        # The weak reference keeps a storage's address from being taken for that of a later one.
        self._notes: dict[int, tuple[StorageWeakRef, Trace, bool]] = {}

    def __bool__(self) -> bool:
        return bool(self._notes)

    def add(self, tensor: Tensor, note: Trace, *, shared: bool = False) -> None:
        """Note what a tensor's memory holds; shared: an activation lives in the same memory."""
        address = _address(tensor)
        if address:
            _, before, was_shared = self._live(address) or (None, None, False)
            reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            self._notes[address] = (reference, strictest(note, before) or note, shared or was_shared)

    def of(self, tensor: Tensor) -> Trace | None:
        """The note on what a tensor's memory holds."""
        found = self._live(_address(tensor))
        return None if found is None else found[1]

    def shared(self, tensor: Tensor) -> bool:
        """Whether a change of this tensor would change an activation behind the graph's back."""
        found = self._live(_address(tensor))
        return found is not None and found[2]

    def _live(self, address: int) -> tuple[StorageWeakRef, Trace, bool] | None:
        found = self._notes.get(address)
        if found is not None and found[0].expired():  # type: ignore[no-untyped-call]
            del self._notes[address]
            return None
        return found


def same_memory(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one storage."""
    address = _address(one)
    return address != 0 and address == _address(other)


def _address(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # sparse, or a wrapper of torch's own transformations: no memory to see
        return 0
