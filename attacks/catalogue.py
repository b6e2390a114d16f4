"""The campaigns: what each tries, and how much of it in ten minutes."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from attacks.verdict import HANG, Outcome

Case = Callable[[int], Outcome]


@dataclass(frozen=True)
class Campaign:
    """A kind of attack. module: has `case(seed)`, and `prepare()` where cases share something that takes its time.

    share: of the whole time. hang: a case that computes longer than so many seconds hangs.
    """

    name: str
    module: str
    about: str
    share: float
    hang: int = HANG

    def prepare(self) -> None:
        """Everything that is done once per process, so that no case is blamed for it."""
        getattr(import_module(self.module), "prepare", lambda: None)()

    def case(self, seed: int) -> Outcome:
        """One case."""
        found: Case = import_module(self.module).case
        return found(seed)


CAMPAIGNS = {
    c.name: c
    for c in (
        Campaign("programs", "attacks.programs.campaign", "random networks against relevance by hand", 0.25),
        Campaign(
            "models", "attacks.models.campaign", "odd Transformers, 40 texts each, against the naive loop", 0.2, 300
        ),
        Campaign("texts", "attacks.texts", "hostile texts through explanations, pages, files and evaluations", 0.2),
        Campaign("files", "attacks.files", "broken and hostile data files, model folders and run folders", 0.15, 60),
        Campaign("changes", "attacks.changes.campaign", "models that change, against a new process", 0.1, 60),
        Campaign("kills", "attacks.kills", "runs, commands and Ray workers killed at any moment", 0.1, 300),
    )
}
