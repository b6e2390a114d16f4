"""Which adapter a model gets, and what loads it, by the name of its class: one file a head, found by itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from torch import nn

from looprop.errors import ModelError
from looprop.models import heads
from looprop.models.adapter import Adapter


@dataclass(frozen=True)
class Head:
    """Models whose class ends in some way.

    endings: of the names of their classes. adapter: makes them one of ours. auto: the transformers class that loads
    them; empty for the model's own. reader: the transformers class of what reads their inputs.
    main_inputs: what their main input may be called; empty for any.
    """

    endings: tuple[str, ...]
    adapter: Callable[..., Adapter]
    auto: str = ""
    reader: str = "AutoTokenizer"
    main_inputs: frozenset[str] = frozenset()

    def fits(self, name: str, main_input: str | None) -> bool:
        """Is a class of this name, with this main input, of the kind?"""
        return name.endswith(self.endings) and (not self.main_inputs or main_input in self.main_inputs)

    def loader(self, architecture: str) -> Any:
        """What has `from_pretrained` for such a model."""
        import transformers

        return getattr(transformers, self.auto or architecture, transformers.AutoModelForSeq2SeqLM)


# What can be done with a kind that is not loaded, by how the name of its class ends.
_INSTEAD = {
    "ForPreTraining": "it has several heads: load the model with the one that is to be explained",
    "Model": "it has no head, and so no answer to explain: load it with one, or put one on top in a module",
}


def kind_of_model(model: nn.Module) -> Head | None:
    """The kind of a ready-made model, by its class and those it derives from; None where they say nothing."""
    return _kind((kind.__name__ for kind in type(model).__mro__), getattr(model, "main_input_name", None))


def kind_of_config(config: Any, name: str) -> tuple[Head, str]:
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


def _kind(names: Iterable[str], main_input: str | None) -> Head | None:
    """By the names of classes, the most special first, and by what the main input is called."""
    files = [import_module(f"{heads.__name__}.{file.name}") for file in iter_modules(heads.__path__)]
    kinds: list[Head] = [kind for file in files for kind in file.HEADS]
    kinds.sort(key=lambda kind: not kind.main_inputs)  # who asks for more comes first
    fitting = (kind for name in names for kind in kinds if kind.fits(name, main_input))
    return next(fitting, None)
