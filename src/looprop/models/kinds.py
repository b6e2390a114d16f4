"""Which adapter a model gets, and what loads it, by the name of its class."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from looprop.errors import ModelError
from looprop.models.adapter import Adapter
from looprop.models.audio_classifier import SOUNDS, AudioClassifier
from looprop.models.causal_lm import CausalLanguageModel
from looprop.models.encoder_decoder import EncoderDecoder
from looprop.models.image_classifier import ImageClassifier
from looprop.models.masked_lm import MaskedLanguageModel
from looprop.models.question_answering import QuestionAnswering
from looprop.models.text_classifier import TextClassifier
from looprop.models.token_classifier import TokenClassifier


@dataclass(frozen=True)
class Kind:
    """How models whose class ends in some way are loaded.

    auto: the transformers class that loads them; empty for the model's own. adapter: what makes them one of ours.
    reader: the transformers class of what reads their inputs.
    """

    auto: str
    adapter: Callable[..., Adapter]
    reader: str = "AutoTokenizer"

    def loader(self, architecture: str) -> Any:
        """What has `from_pretrained` for such a model."""
        import transformers

        return getattr(transformers, self.auto or architecture, transformers.AutoModelForSeq2SeqLM)


def _says(model: nn.Module, tokenizer: Any, *, name: str = "") -> Adapter:
    """The adapter of a model that says something: with an encoder, or, of several kinds of input, by its text alone."""
    two = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    return (EncoderDecoder if two else CausalLanguageModel)(model, tokenizer, name=name)


_KINDS: dict[str, Kind] = {
    "ForSequenceClassification": Kind("AutoModelForSequenceClassification", TextClassifier),
    "ForCausalLM": Kind("AutoModelForCausalLM", CausalLanguageModel),
    "LMHeadModel": Kind("AutoModelForCausalLM", CausalLanguageModel),
    "GenerationDecoder": Kind("", CausalLanguageModel),
    "ForConditionalGeneration": Kind("", _says),
    "ForTextToText": Kind("", _says),
    "MTModel": Kind("", _says),
    "EncoderDecoderModel": Kind("", _says),
    "ForMaskedLM": Kind("AutoModelForMaskedLM", MaskedLanguageModel),
    "ForTokenClassification": Kind("AutoModelForTokenClassification", TokenClassifier),
    "ForQuestionAnswering": Kind("AutoModelForQuestionAnswering", QuestionAnswering),
    "ForQuestionAnsweringSimple": Kind("", QuestionAnswering),
    "ForImageClassification": Kind("AutoModelForImageClassification", ImageClassifier, "AutoImageProcessor"),
    **{
        f"ForImageClassification{way}": Kind("", ImageClassifier, "AutoImageProcessor")
        for way in ("Learned", "Fourier", "ConvProcessing")  # Perceiver
    },
}
_SOUNDS = Kind("", AudioClassifier, "AutoFeatureExtractor")

# What can be done with a kind that is not loaded, by how the name of its class ends.
_INSTEAD = {
    "ForPreTraining": "it has several heads: load the model with the one that is to be explained",
    "Model": "it has no head, and so no answer to explain: load it with one, or put one on top in a module",
}


def kind_of_model(model: nn.Module) -> Kind | None:
    """The kind of a ready-made model, by its class and those it derives from; None where they say nothing."""
    return _kind((kind.__name__ for kind in type(model).__mro__), getattr(model, "main_input_name", None))


def kind_of_config(config: Any, name: str) -> tuple[Kind, str]:
    """The kind of a model, and its class, by the class that its configuration names."""
    import transformers

    architecture = (getattr(config, "architectures", None) or [None])[0]
    if architecture is None:
        raise ModelError(
            f"the configuration of {name} does not say which class the model has: set architectures in config.json, "
            'such as ["BertForSequenceClassification"], or load((model, tokenizer))'
        )
    kind = _kind([architecture], getattr(getattr(transformers, architecture, None), "main_input_name", None))
    if kind is not None:
        return kind, architecture
    instead = next((f"; {hint}" for ending, hint in _INSTEAD.items() if architecture.endswith(ending)), "")
    raise ModelError(
        f"{name} is a {architecture}: looprop loads classifiers of texts, tokens, images and sounds, and models that "
        "fill in masks, answer questions or say something; give other models as objects, "
        f"load((model, tokenizer)){instead}"
    )


def _kind(names: Iterable[str], main_input: str | None) -> Kind | None:
    """By the names of classes, and by what the main input is called: classifiers of texts and of sounds have names
    alike.
    """
    ends = tuple(names)
    if main_input in SOUNDS and any(n.endswith(("ForSequenceClassification", "ForAudioClassification")) for n in ends):
        return _SOUNDS
    return next((kind for ending, kind in _KINDS.items() if any(n.endswith(ending) for n in ends)), None)
