"""Text classifiers: single text or pair, several labels, or one logit (regression)."""

from looprop.models.kinds import Head
from looprop.models.text import TextAdapter


class TextClassifier(TextAdapter):
    """A model that answers a text with one logit per class."""

    classifies = True
    ends_at_padding = True  # on top of decoders


HEADS = (Head(("ForSequenceClassification",), TextClassifier, "AutoModelForSequenceClassification"),)
