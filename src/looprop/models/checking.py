"""Models that would give wrong numbers, or none, are refused before anything is computed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from looprop.errors import InputError, LoopropError, ModelError


def check_model(model: nn.Module) -> None:
    """Raise for a model that would give wrong or no numbers."""
    if not isinstance(model, nn.Module):
        raise ModelError(f"a model must be a torch.nn.Module, got {type(model).__name__}")
    if next(model.parameters(), None) is None:
        raise ModelError(f"{type(model).__name__} has no parameters")
    halves = (p for p in model.parameters() if p.dtype in (torch.float16, torch.bfloat16) and p.device.type == "cpu")
    if (half := next(halves, None)) is not None:
        raise ModelError(
            f"{type(model).__name__} is in {half.dtype} on a CPU, where its rounding spoils relevance: "
            "use model.float()"
        )
    if any(p.is_meta for p in model.parameters()):
        raise ModelError(f"{type(model).__name__} has parameters without data (device 'meta'): load its weights first")
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if isinstance(implementation, str) and ("flash" in implementation or "flex" in implementation):
        raise ModelError(
            f"attention is {implementation!r}, a kernel the engine cannot see into: load with "
            "attn_implementation='sdpa' or 'eager'"
        )


def check_table(model: nn.Module, name: str) -> None:
    """Raise for a text model that gives no table of word embeddings (T, D)."""
    try:
        table = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        table = None
    weight = getattr(table, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.dim() != 2:
        raise ModelError(
            f"get_input_embeddings() of {name} gives {type(table).__name__} and no table with one row per token, which "
            "is what texts are explained by: explain the part that reads embeddings as a plain module with "
            "looprop.attribute"
        )


def out_of_memory(error: BaseException) -> bool:
    """Does an error say that memory ran out, on whatever device?"""
    said = str(error).lower() if isinstance(error, RuntimeError) else ""
    spoken = any(words in said for words in ("out of memory", "allocate memory", "not enough memory"))
    return spoken or isinstance(error, torch.OutOfMemoryError | MemoryError)


def no_memory() -> ModelError:
    """The error of an input that does not fit into memory by itself."""
    return ModelError("memory runs out on a single input: use a shorter one")


RAISED = (RuntimeError, MemoryError, ValueError, TypeError, AttributeError, LookupError, AssertionError)
"""What models raise on an input that they do not take."""


def named_failure(name: str, error: Exception) -> ModelError:
    """What a model itself raises on an input, such as a missing image, as an error that names the model."""
    if out_of_memory(error):
        return no_memory()
    return ModelError(f"{name} cannot be run on this input alone, {type(error).__name__}: {error}")


PASSED_ON = (LoopropError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""What is raised on as it is, also where anything else becomes an error of ours."""


@contextmanager
def raised_as(make: Callable[[Any], LoopropError], *kinds: type[BaseException]) -> Iterator[None]:
    """Whatever is raised inside, of these kinds, becomes an error of ours; a panic of Rust code is no Exception."""
    try:
        yield
    except PASSED_ON:
        raise
    except kinds as error:
        raise make(error) from error


def tokenizer_failed(name: str, error: BaseException) -> ModelError:
    """Whatever a tokenizer raises, a panic of its Rust code included, as an error that names it."""
    said = " ".join(str(error).split())[:200]
    return ModelError(
        f"the tokenizer of {name} fails on this text, {type(error).__name__}: {said}. Look at its files "
        "(tokenizer.json, tokenizer_config.json), or load (model, tokenizer)"
    )


def tokenizer_named(name: str) -> AbstractContextManager[None]:
    """Whatever a tokenizer raises inside becomes an error that names it."""
    return raised_as(partial(tokenizer_failed, name), BaseException)


def items_named(wanted: str, item: object) -> AbstractContextManager[None]:
    """What a processor raises on something that it cannot read becomes an error that says what is wanted."""
    got = f"the text {item[:40]!r}" if isinstance(item, str) else type(item).__name__
    return raised_as(lambda error: InputError(f"{wanted}; got {got}"), Exception)
