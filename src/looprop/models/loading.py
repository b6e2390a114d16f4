"""Finding and loading models: a hub id, a folder, ready-made objects, or the embedded model."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from looprop.errors import ModelError
from looprop.models.adapter import Adapter
from looprop.models.checking import PASSED_ON
from looprop.models.folder import (
    ADAPTER,
    INDEX,
    adapter_found,
    check_config,
    check_folder,
    check_index,
    check_tokenizer_files,
    read_config,
)
from looprop.models.heads.image_classifier import ImageClassifier
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.kinds import kind_of_config, kind_of_model
from looprop.models.memory import check_size
from looprop.models.origin import Origin, model_folder
from looprop.models.tensor_module import TensorModule

EMBEDDED = "sentiment"
# So much is shown of what another library says.
LONGEST = 300


def load_adapter(
    source: str | Path | tuple[nn.Module, Any] | None = None,
    *,
    trust_remote_code: bool = False,
    device: str | torch.device | None = None,
) -> Adapter:
    """The adapter of a model; None is the embedded sentiment model."""
    accelerated = _check_device(device)
    if isinstance(source, tuple):
        if len(source) != 2:
            raise ModelError(f"ready-made objects come as (model, tokenizer), got {len(source)} objects")
        return adapt(*source)
    if source is None:
        with resources.as_file(resources.files("looprop") / "assets" / EMBEDDED) as folder:
            adapter = _from_pretrained(folder, "looprop-sentiment", trust_remote_code, device)
        adapter.origin = Origin(None, trust_remote_code, accelerated)
        return adapter
    _check_source(source)
    folder = Path(source)
    if not folder.is_dir() and model_folder(str(source)).is_dir():
        folder = model_folder(str(source))
    if folder.is_dir():
        check_folder(folder, trust_remote_code=trust_remote_code)
    elif folder.exists():
        raise ModelError(f"{folder} is a file: a model is loaded from its folder, {str(folder.parent)!r}")
    adapter = _from_pretrained(folder if folder.is_dir() else str(source), str(source), trust_remote_code, device)
    # A folder of one's own by its whole path: other processes work in other folders.
    own = Path(source).resolve() if Path(source).is_dir() else source
    adapter.origin = Origin(str(own), trust_remote_code, accelerated)
    return adapter


def _check_device(device: Any) -> bool:
    """Whether this is a device beside the CPU; what is none raises."""
    try:
        return device is not None and torch.device(device).type != "cpu"
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device must be one of torch's, such as 'cpu' or 'cuda:0', got {device!r}") from error


def _check_source(source: Any) -> None:
    """Raise for what is neither a name nor a path."""
    if isinstance(source, nn.Module):
        raise ModelError(
            "a model needs its tokenizer: load((model, tokenizer)); a plain module on tensors goes to looprop.attribute"
        )
    if isinstance(getattr(source, "model", None), nn.Module) and hasattr(source, "tokenizer"):  # a pipeline
        part = "tokenizer" if source.tokenizer is not None else "image_processor"
        raise ModelError(
            f"a {type(source).__name__} is given as its two parts: load((pipeline.model, pipeline.{part}))"
        )
    if not isinstance(source, str | os.PathLike) or not str(source).strip() or "\0" in str(source):
        raise ModelError(
            "a model is given as a hub id, a folder, (model, tokenizer) or None for the embedded one, got "
            f"{source if isinstance(source, str) else type(source).__name__!r}"
        )


def adapt(model: nn.Module, tokenizer: Any, *, name: str = "") -> Adapter:
    """The adapter for ready-made objects, chosen by the model's class."""
    if (kind := kind_of_model(model)) is not None:
        return kind.adapter(model, tokenizer, name=name)
    if hasattr(tokenizer, "image_mean"):
        return ImageClassifier(model, tokenizer, name=name)
    return TextClassifier(model, tokenizer, name=name)


def adapt_module(module: nn.Module | Callable[[Tensor], Tensor], *, name: str = "") -> Adapter:
    """The adapter for a plain module, or a function, on float tensors (B, ...)."""
    return TensorModule(module, name=name)


def _from_pretrained(
    source: str | Path, name: str, trust_remote_code: bool, device: str | torch.device | None
) -> Adapter:
    import transformers

    on_disk = isinstance(source, Path)
    here = on_disk or not _hub_answers(str(source))
    options = {"trust_remote_code": trust_remote_code, "local_files_only": here}
    with _ours(name, "its configuration"):
        if not on_disk:
            _check_hub(str(source), trust_remote_code, here=here)
        config = transformers.AutoConfig.from_pretrained(source, **options)
        kind, architecture = kind_of_config(config, name)
    on_cpu = device is None or torch.device(device).type == "cpu"
    with _ours(name, "its weights"), _quietly(on_disk=on_disk):
        loader = kind.loader(architecture)
        make = loader if issubclass(loader, nn.Module) else loader.from_config
        check_size(lambda: make(config), name, bytes_per_number=4 if on_cpu else 2)
        dtype = torch.float32 if on_cpu else "auto"
        model, info = loader.from_pretrained(
            source, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
        )
        _check_loaded(info, name)
        model = model.eval() if device is None else model.eval().to(device)
    tokens = kind.reader == "AutoTokenizer"
    again = "copy or download its files anew, or load((model, tokenizer))"
    without = "save one beside it, or load((model, None)) and give tensors"
    with _ours(name, "its tokenizer", again) if tokens else _ours(name, "its processor", without):
        if tokens and on_disk:
            check_tokenizer_files(Path(source))
        reader = getattr(transformers, kind.reader).from_pretrained(source, **options)
        # A tokenizer that a library made up without its files knows its special tokens and nothing else.
        if tokens and not set(reader.get_vocab()) - set(reader.all_special_tokens):
            raise ModelError(
                f"the tokenizer of {name} knows no word: its vocabulary is missing; copy or download its files, or "
                "load((model, tokenizer))"
            )
    with _ours(name, "the model"):
        return kind.adapter(model, reader, name=name)


def _hub_answers(source: str) -> bool:
    """Can the hub be asked for a model, or only its cache? Asked once: for each file its library would ask again for
    half a minute. What is in neither raises.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        get_hf_file_metadata(hf_hub_url(source, "config.json"))
    except HFValidationError:
        raise ModelError(
            f"cannot load {source!r}: there is no such folder, and it is no hub id either, such as 'owner/name'"
        ) from None
    except HfHubHTTPError:  # an answer, of which more is said when files are asked for
        return True
    except Exception as error:  # whatever stands between here and the hub
        if isinstance(try_to_load_from_cache(source, "config.json"), str):
            return False
        raise ModelError(
            f"cannot load {source!r}: it is no folder, the hub's cache does not hold it, and the hub does not answer: "
            f"{_first_line(error)}"
        ) from error
    return True


def _check_hub(source: str, trust_remote_code: bool, *, here: bool) -> None:
    """What is asked of a folder, asked of the hub: files that name others are looked at before those are opened.

    here: only its cache can be asked.
    """
    from transformers.utils import cached_file

    def file(name: str) -> Path | None:
        found = cached_file(source, name, local_files_only=here, _raise_exceptions_for_missing_entries=False)
        return None if found is None else Path(found)

    if file(ADAPTER) is not None:
        raise ModelError(adapter_found(source))
    if (config := file("config.json")) is not None:
        check_config(read_config(config), source, trust_remote_code=trust_remote_code)
    if (index := file(INDEX)) is not None:
        check_index(read_config(index), f"{source}/{INDEX}")


def _check_loaded(info: dict[str, Any], name: str) -> None:
    if missing := sorted(info["missing_keys"]):
        raise ModelError(
            f"{name} has no weights for {', '.join(missing[:4])}{' and more' * (len(missing) > 4)}: they would be "
            "random"
        )
    if wrong := sorted(str(key[0] if isinstance(key, tuple) else key) for key in info.get("mismatched_keys") or ()):
        raise ModelError(f"{name} has weights of another shape than its configuration says for {', '.join(wrong[:4])}")


@contextmanager
def _ours(name: str, part: str, way_out: str = "copy or download its files anew") -> Iterator[None]:
    """Whatever a library raises on the files of others is an error of ours that says what can be done."""
    try:
        yield
    except PASSED_ON:
        raise
    except BaseException as error:  # libraries in Rust panic with an exception that is no Exception
        said = f"{_first_line(error)} ({type(error).__name__})"
        raise ModelError(f"cannot load {name!r}: {part} cannot be used: {said}; {way_out}") from error


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


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["it does not say why"]
    # What ends in a colon goes on in the next line.
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1])[:LONGEST]
