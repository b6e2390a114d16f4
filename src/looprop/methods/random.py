"""Random scores: the yardstick that every method has to beat."""

import zlib
from collections.abc import Sequence

import numpy as np

from looprop.methods.base import Attribution, Method
from looprop.methods.parts.players import whole_number
from looprop.models.subject import Subject


class RandomScores(Method):
    """Normal scores drawn from a fixed seed and the input, so that they can be drawn again. Cost 0."""

    name = "random"
    title = "Random scores"
    short = "random"
    summary = "normal random scores from a fixed seed"
    cost = "0"
    kind = "none"
    reads_target = False

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = whole_number("seed", seed, 0)

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        found = []
        for subject in subjects:
            content = b"".join(value.cpu().numpy().tobytes() for value in subject.encoded.inputs.values())
            generator = np.random.default_rng([self.seed, zlib.crc32(content)])
            found.append(Attribution(generator.standard_normal(len(subject.features)), cost=0.0))
        return found
