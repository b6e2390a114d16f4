"""Finding and loading models: a hub id, a folder, ready-made objects, or the embedded model."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from looprop.errors import ModelError
from looprop.models.adapter import Adapter, Origin
from looprop.models.audio_classifier import SOUNDS, AudioClassifier
from looprop.models.cache import model_folder
from looprop.models.causal_lm import CausalLanguageModel
from looprop.models.encoder_decoder import EncoderDecoder
from looprop.models.image_classifier import ImageClassifier
from looprop.models.masked_lm import MaskedLanguageModel
from looprop.models.question_answering import QuestionAnswering
from looprop.models.tensor_module import TensorModule
from looprop.models.text_classifier import TextClassifier
from looprop.models.token_classifier import TokenClassifier

EMBEDDED = "sentiment"


@dataclass(frozen=True)
class Kind:
    """How models whose class ends in some way are loaded.

    auto: the transformers class that loads them; empty for the model's own. adapter: what makes them one of ours.
    reader: the transformers class of what reads their inputs.
    """

    auto: str
    adapter: Callable[..., Adapter]
    reader: str = "AutoTokenizer"


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


def _kind_of(names: Iterable[str], main_input: str | None) -> Kind | None:
    """The kind of a model by the names of its class and of those it derives from, and by what its main input is called:
    classifiers of texts and of sounds have names alike.
    """
    ends = tuple(names)
    if main_input in SOUNDS and any(n.endswith(("ForSequenceClassification", "ForAudioClassification")) for n in ends):
        return _SOUNDS
    return next((kind for ending, kind in _KINDS.items() if any(n.endswith(ending) for n in ends)), None)


def load_adapter(
    source: str | Path | tuple[nn.Module, Any] | None = None,
    *,
    trust_remote_code: bool = False,
    device: str | torch.device | None = None,
) -> Adapter:
    """The adapter of a model; None is the embedded sentiment model."""
    if isinstance(source, tuple):
        if len(source) != 2:
            raise ModelError(f"ready-made objects come as (model, tokenizer), got {len(source)} objects")
        return adapt(*source)
    if isinstance(source, nn.Module):
        raise ModelError(
            "a model needs its tokenizer: load((model, tokenizer)); a plain module on tensors goes to looprop.attribute"
        )
    accelerated = device is not None and torch.device(device).type != "cpu"
    if source is None:
        with resources.as_file(resources.files("looprop") / "assets" / EMBEDDED) as folder:
            adapter = _from_pretrained(folder, "looprop-sentiment", trust_remote_code, device)
        adapter.origin = Origin(None, trust_remote_code, accelerated)
        return adapter
    folder = Path(source)
    if not folder.is_dir() and model_folder(str(source)).is_dir():
        folder = model_folder(str(source))
    if folder.is_dir():
        check_folder(folder)
    adapter = _from_pretrained(folder if folder.is_dir() else source, str(source), trust_remote_code, device)
    # A folder of one's own by its whole path: other processes work in other folders.
    adapter.origin = Origin(
        str(Path(source).resolve() if Path(source).is_dir() else source), trust_remote_code, accelerated
    )
    return adapter


def adapt(model: nn.Module, tokenizer: Any, *, name: str = "") -> Adapter:
    """The adapter for ready-made objects, chosen by the model's class."""
    kind = _kind_of((parent.__name__ for parent in type(model).__mro__), getattr(model, "main_input_name", None))
    if kind is not None:
        return kind.adapter(model, tokenizer, name=name)
    if hasattr(tokenizer, "image_mean"):
        return ImageClassifier(model, tokenizer, name=name)
    return TextClassifier(model, tokenizer, name=name)


def adapt_module(module: nn.Module | Callable[[Tensor], Tensor], *, name: str = "") -> Adapter:
    """The adapter for a plain module, or a function, on float tensors (B, ...)."""
    return TensorModule(module, name=name)


def check_folder(folder: Path) -> None:
    """Raise for a folder from which no model can be loaded safely."""
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no config.json: not a model folder")
    if any(folder.glob("*.safetensors")):
        return
    pickled = [path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern)]
    if pickled:
        raise ModelError(
            f"{folder} holds only pickled weights ({pickled[0]}), which can run code on loading: convert them to "
            "safetensors"
        )
    raise ModelError(f"{folder} holds no weights (*.safetensors)")


def _from_pretrained(
    source: str | Path, name: str, trust_remote_code: bool, device: str | torch.device | None
) -> Adapter:
    import transformers

    options = {"trust_remote_code": trust_remote_code}
    try:
        config = transformers.AutoConfig.from_pretrained(source, **options)
        architecture = (getattr(config, "architectures", None) or ["?"])[0]
        kind = _kind_of([architecture], getattr(getattr(transformers, architecture, None), "main_input_name", None))
        if kind is None:
            raise ModelError(
                f"{name} is a {architecture}: looprop loads classifiers of texts, tokens, images and sounds, models "
                "that answer questions, fill in masks or generate texts; give other models as objects, "
                "load((model, tokenizer))"
            )
        on_cpu = device is None or torch.device(device).type == "cpu"
        dtype = torch.float32 if on_cpu else "auto"
        with _quietly(on_disk=isinstance(source, Path)):
            loader = getattr(transformers, kind.auto or architecture, transformers.AutoModelForSeq2SeqLM)
            model, info = loader.from_pretrained(
                source, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
            )
        if missing := sorted(info["missing_keys"]):
            raise ModelError(
                f"{name} has no weights for {', '.join(missing[:4])}{' and more' * (len(missing) > 4)}: they would be "
                "random"
            )
        tokenizer = getattr(transformers, kind.reader).from_pretrained(source, **options)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelError(f"cannot load {name!r}: {_first_line(error)}") from error
    model = model.eval() if device is None else model.eval().to(device)
    return kind.adapter(model, tokenizer, name=name)


@contextmanager
def _quietly(*, on_disk: bool) -> Iterator[None]:
    """Without the bar of the transformers library where there is nothing to wait for; a download keeps it."""
    from transformers.utils import logging

    if not on_disk or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
