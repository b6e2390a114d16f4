"""The manifest of an audit: model, weights, inputs, precision, options, versions, machine and time."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from looprop.auditing.catalogue import CHECKED
from looprop.auditing.original import AuditSetup, Original
from looprop.errors import ModelError
from looprop.methods.base import Method
from looprop.models.cutting import cut_of
from looprop.models.subject import Subject
from looprop.running.provenance import hardware, now, versions, weights_hash


class Manifest:
    """The weights and the time before anything is computed, and the manifest afterwards."""

    def __init__(self, setup: AuditSetup, methods: Mapping[str, Method]) -> None:
        self._setup = setup
        self._options = {name: method.options for name, method in methods.items()}
        self._started, self._processor, self._clock = now(), time.process_time(), time.perf_counter()
        self._weights = weights_hash(setup.adapter.model)

    def check_weights(self) -> None:
        """Raise if the weights have changed."""
        adapter = self._setup.adapter
        if weights_hash(adapter.model) != self._weights:
            raise ModelError(f"the audit has changed the weights of {adapter.name}: this is a fault of looprop")

    def about(self, original: Original, *, checks: bool, account: Mapping[str, Any] | None) -> dict[str, Any]:
        """The manifest as plain data, with the time it took. account: which machines of an engine computed."""
        adapter, features, subjects = self._setup.adapter, self._setup.features, original.subjects
        about: dict[str, Any] = {
            "model": adapter.name,
            "class": type(adapter.model).__name__,
            "parameters": sum(p.numel() for p in adapter.model.parameters()),
            "weights": self._weights,
            "inputs": len(subjects),
            "checked_inputs": min(CHECKED, len(subjects)) if checks else 0,
            "inputs_hash": _inputs_hash(subjects),
            "features": features if isinstance(features, str) else "groups",
            "precision": self._setup.precision,
            "computed_in": str(original.dtype).removeprefix("torch."),
            "started": self._started,
            "seconds": round(time.perf_counter() - self._clock, 1),
            "cpu_seconds": round(time.process_time() - self._processor, 1),
            "versions": versions(),
            "hardware": hardware(),
            "options": self._options,
        }
        if cut := cut_of([subject.encoded.cut for subject in subjects]):
            about["truncated"] = str(cut)
        return about if account is None else {**about, "engine": account}


def _inputs_hash(subjects: Sequence[Subject]) -> str:
    total = hashlib.sha256()
    for subject in subjects:
        for name, value in sorted(subject.encoded.inputs.items()):
            total.update(f"{name}:{value.dtype}:{tuple(value.shape)}:".encode())
            total.update(value.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
