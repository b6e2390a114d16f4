"""Text classifiers: single text or pair, several labels, or one logit (regression)."""

from typing import Any

from torch import nn

from looprop.models.head import Kind
from looprop.models.target import labels_of
from looprop.models.text import TextAdapter


class TextClassifier(TextAdapter):
    """A model that answers a text with one logit per class."""

    def __init__(self, model: nn.Module, tokenizer: Any, *, name: str = "") -> None:
        super().__init__(model, tokenizer, name=name)
        self.labels = labels_of(getattr(model, "config", None))
        # Classifiers on top of decoders look for the last token that is no padding, and take one text at a time without
        # it.
        self.batches = getattr(getattr(model, "config", None), "pad_token_id", 0) is not None


KINDS = (Kind(("ForSequenceClassification",), TextClassifier, "AutoModelForSequenceClassification"),)
