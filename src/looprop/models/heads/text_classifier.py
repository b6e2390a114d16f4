"""Text classifiers: single text or pair, several labels, or one logit (regression)."""

from looprop.models.kinds import Head
from looprop.models.text import TextAdapter


class TextClassifier(TextAdapter):
    """A model that answers a text with one logit per class."""

    classifies = True

    @property
    def takes_batches(self) -> bool:
        """Classifiers on decoders look for the last token that is no padding: without it, one text at a time."""
        return super().takes_batches and getattr(getattr(self.model, "config", None), "pad_token_id", 0) is not None


HEADS = (Head(("ForSequenceClassification",), TextClassifier, "AutoModelForSequenceClassification"),)
