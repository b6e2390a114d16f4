"""Forty texts of mixed length through one workbench, against the naive loop."""

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import looprop
from attacks.models.families import family
from attacks.models.skeleton import WORDS, tokenizer
from attacks.verdict import Outcome, WrongError
from looprop.errors import LoopropError

TEXTS, ALSO_LOOPROP, TARGET = 40, 8, 0
# Of the scores, relative to the largest number on the way.
TOLERANCE = 1e-7


@torch.no_grad()
def naive(model: nn.Module, ids: list[int], causal: bool) -> tuple[NDArray[np.float64], float]:
    """Leave-one-out in a loop: one text, one mask, one call each; and the intact value."""

    def value(removed: int | None) -> float:
        mask = torch.ones(1, len(ids), dtype=torch.long)
        if removed is not None:
            mask[0, removed] = 0
        more: dict[str, Any] = {"position_ids": torch.arange(len(ids))[None]} if causal else {}
        output = model(input_ids=torch.tensor([ids]), attention_mask=mask, **more)
        logits = getattr(output, "logits", output)
        logits = logits[:, -1] if logits.dim() == 3 else logits
        return float(logits.reshape(1, -1)[0, TARGET])

    whole = value(None)
    return np.array([whole - value(i) for i in range(len(ids))]), whole


def texts_for(seed: int, count: int | None = None) -> list[str]:
    """Texts of mixed length in random order."""
    dice = np.random.default_rng([seed, 1])
    return [" ".join(dice.choice(WORDS, int(dice.integers(1, 15)))) for _ in range(count or TEXTS)]


def _off(found: Any, truth: NDArray[np.float64], scale: float) -> float:
    scores = np.asarray(found)
    return float("inf") if scores.shape != truth.shape else float(np.abs(scores - truth).max() / max(1.0, scale))


class Case:
    """One model, its texts, and what was refused on the way."""

    def __init__(self, seed: int) -> None:
        self.name, self.model, self.causal = family(seed)
        self.tokens = tokenizer()
        self.bench = looprop.load((self.model, self.tokens))
        self.texts = texts_for(seed)
        self.refused: dict[str, str] = {}
        self.done = 0  # explanations that were held to the truth

    def target(self) -> Any:
        """A class or token by number."""
        return TARGET

    def naive(self, text: str) -> tuple[NDArray[np.float64], float]:
        """The truth."""
        return naive(self.model, self.tokens(text)["input_ids"], self.causal)

    def explain(self, what: str, *args: Any, bench: Any = None) -> Any:
        """An explanation, or None where it is refused."""
        try:
            return (bench or self.bench).explain(*args, target=self.target())
        except LoopropError as error:
            self.refused[what] = str(error)[:160]
            return None

    def hold(self, what: str, text: str, found: Any, truth: NDArray[np.float64], scale: float) -> None:
        """Raise for what is not the truth."""
        self.done += 1
        off = _off(found.scores, truth, scale)
        if not off <= TOLERANCE:
            length = len(truth)
            raise WrongError(f"{what} of {self.name} is off by {off:.3g} on a text of {length} tokens: {text!r}")

    def leave_one_out(self) -> None:
        """loo of every text, and looprop with all rows of some, as the naive loop has it."""
        for number, text in enumerate(self.texts):
            truth, whole = self.naive(text)
            scale = max(abs(whole), float(np.abs(truth).max()))
            found = self.explain("loo", text, "loo")
            if found is not None:
                self.hold("loo", text, found, truth, scale)
            if number % (TEXTS // ALSO_LOOPROP) == 0:
                found = self.explain("looprop[rows=all]", text, "looprop[rows=all]")
                if found is not None:
                    self.hold("looprop[rows=all]", text, found, truth, scale)

    def batches(self) -> None:
        """cp-lrp of all texts at once, as of each text alone in a workbench that has seen nothing."""
        together = self.explain("cp-lrp", self.texts, "cp-lrp")
        if together is None:
            return
        for text, found in list(zip(self.texts, together, strict=True))[:: TEXTS // 20]:
            fresh = looprop.load((copy.deepcopy(self.model), self.tokens))
            alone = self.explain("cp-lrp alone", text, "cp-lrp", bench=fresh)
            if alone is None:
                raise WrongError(f"batched cp-lrp of {self.name} answers where a single one is refused: {text!r}")
            self.hold("batched cp-lrp", text, found, alone.scores, float(np.abs(alone.scores).max()))


def case(seed: int) -> Outcome:
    """One model with everything that is asked of it."""
    made = Case(seed)
    made.leave_one_out()
    made.batches()
    if made.refused:
        said = "; ".join(f"{what}: {why}" for what, why in made.refused.items())
        return Outcome("refused", f"{made.name}: {said}", tries=made.done)
    return Outcome("right", made.name, tries=made.done)
