"""The table of changes: each is a function of the world, one of its modules and dice."""

from collections.abc import Callable
from typing import Any

from attacks.changes.worlds import Dice, World

Change = Callable[[World, Any, Dice], None]
CHANGES: dict[str, Change] = {}


def change(made: Change) -> Change:
    """Put a change into the table under its name."""
    CHANGES[made.__name__.replace("_", " ").strip()] = made
    return made


def changes(names: dict[str, Change]) -> None:
    """Put several into the table."""
    CHANGES.update(names)
