"""A head: which models an adapter is for, and what loads them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from looprop.models.adapter import Adapter


@dataclass(frozen=True)
class Head:
    """Models whose class ends in some way.

    endings: of the names of their classes. adapter: makes them one of ours. auto: the transformers class that loads
    them; empty for the model's own. reader: the transformers class of what reads their inputs.
    main_inputs: what their main input may be called; empty for any.
    """

    endings: tuple[str, ...]
    adapter: Callable[..., Adapter]
    auto: str = ""
    reader: str = "AutoTokenizer"
    main_inputs: frozenset[str] = frozenset()

    def fits(self, name: str, main_input: str | None) -> bool:
        """Is a class of this name, with this main input, of the kind?"""
        return name.endswith(self.endings) and (not self.main_inputs or main_input in self.main_inputs)

    def loader(self, architecture: str) -> Any:
        """What has `from_pretrained` for such a model."""
        import transformers

        return getattr(transformers, self.auto or architecture, transformers.AutoModelForSeq2SeqLM)
