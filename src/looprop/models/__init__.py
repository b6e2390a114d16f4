"""Models of every kind behind one interface: encode an input, run it, read the target off its logits."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.models.adapter import Adapter
    from looprop.models.answers import Answer
    from looprop.models.encoded import Encoded, partition
    from looprop.models.features import FeaturesLike, divide
    from looprop.models.layout import Layout, Part, Within
    from looprop.models.subject import Subject, bind
    from looprop.models.target import Target, TargetLike
    from looprop.models.target_forms import Continuation, Contrast, Token

# Imported when first used: torch takes its time.
_HOMES = {
    "Adapter": "looprop.models.adapter",
    "Answer": "looprop.models.answers",
    "Continuation": "looprop.models.target_forms",
    "Contrast": "looprop.models.target_forms",
    "Encoded": "looprop.models.encoded",
    "FeaturesLike": "looprop.models.features",
    "Layout": "looprop.models.layout",
    "Part": "looprop.models.layout",
    "Subject": "looprop.models.subject",
    "Target": "looprop.models.target",
    "TargetLike": "looprop.models.target",
    "Token": "looprop.models.target_forms",
    "Within": "looprop.models.layout",
    "bind": "looprop.models.subject",
    "divide": "looprop.models.features",
    "partition": "looprop.models.encoded",
}

__all__ = [
    "Adapter",
    "Answer",
    "Continuation",
    "Contrast",
    "Encoded",
    "FeaturesLike",
    "Layout",
    "Part",
    "Subject",
    "Target",
    "TargetLike",
    "Token",
    "Within",
    "bind",
    "divide",
    "partition",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
