"""What a small file may grow to. Each limit is raised by the environment variable that its error names."""

import os
from dataclasses import dataclass

from looprop.errors import InputError, LoopropError


@dataclass(frozen=True)
class Limit:
    """A bound on something that a file asks for. default: None where only the machine bounds it."""

    variable: str
    default: int | None
    unit: str

    @property
    def value(self) -> int | None:
        """The number that holds: the environment variable's, else the default."""
        given = os.environ.get(self.variable, "").replace("_", "").strip()
        if not given:
            return self.default
        if not given.isdecimal() or len(given) > 30:
            raise InputError(f"{self.variable} must be a whole number of {self.unit}, got {given!r}")
        return int(given)

    def check(self, size: int, what: str, error: type[LoopropError]) -> None:
        """Raise where `what` asks for more than that."""
        bound = self.value
        if bound is not None and size > bound:
            shown = f"{size:,}" if abs(size) < 10**18 else "more than 10^18"
            raise error(
                f"{what}: {shown} {self.unit}, and at most {bound:,} are taken; if that is meant, set "
                f"{self.variable} to a larger number"
            )


UNPACKED_BYTES = Limit("LOOPROP_MAX_UNPACKED_BYTES", 2 * 2**30, "bytes")
"""What a packed data file (gzip, Parquet) may unpack to."""
LAYERS = Limit("LOOPROP_MAX_LAYERS", 1024, "layers")
"""Layers, heads, experts: whatever a configuration says a model has so many of."""
LABELS = Limit("LOOPROP_MAX_LABELS", 1_000_000, "labels")
POSITIONS = Limit("LOOPROP_MAX_POSITIONS", 2**25, "positions")
MODEL_BYTES = Limit("LOOPROP_MAX_MODEL_BYTES", None, "bytes")
"""The weights in memory; by default as much as is free."""
TOKENIZER_BYTES = Limit("LOOPROP_MAX_TOKENIZER_BYTES", 512 * 2**20, "bytes")
JSON_BYTES = Limit("LOOPROP_MAX_JSON_BYTES", 64 * 2**20, "bytes")
"""A configuration, or the index of weights in several files."""

ALL = (UNPACKED_BYTES, LAYERS, LABELS, POSITIONS, MODEL_BYTES, TOKENIZER_BYTES, JSON_BYTES)
