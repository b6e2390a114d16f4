"""Models of every kind behind one interface: encode an input, run it, read the target off its logits."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.models.adapter import Adapter as Adapter
    from looprop.models.answers import Answer as Answer
    from looprop.models.encoded import Encoded as Encoded, partition as partition
    from looprop.models.features import FeaturesLike as FeaturesLike, divide as divide
    from looprop.models.kinds import Head as Head
    from looprop.models.layout import Layout as Layout, Part as Part, Within as Within
    from looprop.models.subject import Subject as Subject, bind as bind
    from looprop.models.target import Continuation as Continuation, Contrast as Contrast, Target as Target
    from looprop.models.target import TargetLike as TargetLike, Token as Token
    from looprop.models.text import TextAdapter as TextAdapter

# Imported when first used: torch takes its time.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "adapter": "Adapter",
        "answers": "Answer",
        "encoded": "Encoded partition",
        "features": "FeaturesLike divide",
        "kinds": "Head",
        "layout": "Layout Part Within",
        "subject": "Subject bind",
        "target": "Continuation Contrast Target TargetLike Token",
        "text": "TextAdapter",
    },
)
