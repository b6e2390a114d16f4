"""ContextCite: random ablations of the sentences of a context, and a sparse linear model of them."""

from typing import Any

import numpy as np
from context_cite import ContextCiter
from context_cite.context_partitioner import BaseContextPartitioner

from benchmarks.sides import Job
from benchmarks.sides.prompted import ANSWER, QUESTION, language_model, sentences


class Given(BaseContextPartitioner):  # type: ignore[misc]
    """Sentences as they are, so that no other library cuts the context anew."""

    def __init__(self, parts: list[str]) -> None:
        super().__init__(" ".join(parts))
        self.parts = parts

    @property
    def num_sources(self) -> int:
        """How many there are."""
        return len(self.parts)

    def split_context(self) -> None:
        """Split already."""

    def get_source(self, index: int) -> str:
        """One of them."""
        return self.parts[index]

    def get_context(self, mask: Any = None) -> str:
        """Those that are left."""
        kept = self.parts if mask is None else [part for part, keep in zip(self.parts, mask, strict=True) if keep]
        return " ".join(kept)


def ablations(case: None, *, layers: int, count: int) -> Job:
    """As many random ablations as there are sentences, of the answer that the other sides explain; a unit is one of
    them.
    """
    model, tokenizer = language_model(layers)
    parts = sentences(count)

    def run() -> list[Any]:
        citer = ContextCiter(model, tokenizer, " ".join(parts), QUESTION, partitioner=Given(parts), num_ablations=count)
        # The answer is given: it would generate one of its own.
        citer._cache["output"] = citer._get_prompt_ids(return_prompt=True)[1] + ANSWER
        return [np.asarray(citer.get_attributions(as_dataframe=False, verbose=False))]

    return Job(run, count)


JOBS = {"context-loo": ablations}
