"""Where a model was loaded from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """Where a model was loaded from, so that another process can load the same. accelerated: for a device that is not
    the CPU.
    """

    source: str | None
    trust_remote_code: bool = False
    accelerated: bool = False
