"""What a model predicts for one input as it is: the reference of every explanation."""

from dataclasses import dataclass

from torch import Tensor

from looprop.models.encoded import Encoded
from looprop.models.target import Target
from looprop.models.version import Version


@dataclass(frozen=True, eq=False)
class Prediction:
    """The logits (K, C) of one input, the sequence of operations that gave them as one number (0: not known), and the
    version of the model. one_is_true: are the logits those of classes of which one is true?
    """

    logits: Tensor
    path: int
    version: Version
    one_is_true: bool = False


@dataclass(frozen=True, eq=False)
class Resolved:
    """A target found on an input. The target may extend the input (a continuation) or mark it (a token's label)."""

    encoded: Encoded
    target: Target
    prediction: Prediction
