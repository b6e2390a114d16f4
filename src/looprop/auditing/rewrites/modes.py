"""Rewrites that change what a model calls while it runs, instead of its weights.

A mode stands inside the model's forward pass and answers some calls in another way. Which calls those are is known only
when a pass has run. So one pass is tried, and the places met in it are those of the rewrite; every later pass makes the
same changes again.
"""

from typing import ClassVar

from torch import nn

from looprop.auditing.rewrites.base import Model, Places, Rewrite
from looprop.auditing.rewrites.changes import Changes
from looprop.intercept.mode import InterceptMode
from looprop.propagation.location import module_path


class RewritingMode(InterceptMode):
    """Answers calls in another way, and notes where. root: the model, whose modules give places their names."""

    def __init__(self, root: nn.Module, places: Places) -> None:
        super().__init__()
        self.root, self.places = root, places

    def note_change(self) -> None:
        """The call that is being answered is changed."""
        self.places.changed.append(module_path(self.root))

    def note_left(self, reason: str) -> None:
        """The call that is being answered is left as it is."""
        self.places.leave(module_path(self.root), reason)


class ModeRewrite(Rewrite):
    """A rewrite by nothing but a mode."""

    mode: ClassVar[type[RewritingMode]]

    def apply(self, model: Model, changes: Changes) -> Places:
        return run_under(self.mode, model, changes)


def run_under(mode: type[RewritingMode], model: Model, changes: Changes) -> Places:
    """Every forward pass runs under such a mode; the places are those of one pass that is tried now."""
    tried = Places()
    # Later passes note their places where nobody reads them.
    lists = iter([tried])
    changes.run_under(model.module, lambda: mode(model.module, next(lists, Places())))
    model.run()
    return Places(tried.changed, list(dict.fromkeys(tried.unsupported)))
