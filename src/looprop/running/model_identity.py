"""What the numbers of a model depend on beside its input: weights, configuration, tokenizer, and the code that runs.

The same weights under another number of heads, another activation or another normaliser of texts are another model.
"""

import contextlib
import hashlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from looprop.models.adapter import Adapter
from looprop.running.provenance import fingerprint, weights_hash

# Where a model lies and who wrote its file decides nothing.
NOT_OF_THE_FUNCTION = frozenset({"_name_or_path", "name_or_path", "transformers_version", "_commit_hash"})
# Their code is named by the versions that every session notes; the code of others is compared itself.
LIBRARIES = ("torch.", "transformers.")
PREPARATION = (
    "model_max_length",
    "padding_side",
    "truncation_side",
    "model_input_names",
    "special_tokens_map",
    "split_special_tokens",
    "add_bos_token",
    "add_eos_token",
    "chat_template",
)


def model_identity(adapter: Adapter) -> dict[str, Any]:
    """Everything that says which function a model is, as plain data."""
    config, tokenizer = getattr(adapter.model, "config", None), getattr(adapter, "tokenizer", None)
    preparation = {
        "tokenizer": {name: _plain(getattr(tokenizer, name, None)) for name in PREPARATION},
        "processor": _configuration(getattr(adapter, "processor", None)),
    }
    return {
        "weights": weights_hash(adapter.model),
        "tokenizer": tokenizer_hash(adapter),
        "configuration": _configuration(config),
        "attention": _plain(getattr(config, "_attn_implementation", None)),
        "dtype": str(adapter.dtype).removeprefix("torch."),
        "preparation": fingerprint(preparation),
        "code": code_hash(adapter.model),
    }


def tokenizer_hash(adapter: Adapter) -> str:
    """SHA-256 of what a tokenizer does, as far as it can be written down."""
    # A tokenizer remembers whether it cut the last text; this makes that the same whatever it was used for before.
    with contextlib.suppress(Exception):
        adapter.encode("a", truncation=True)
    tokenizer: Any = getattr(adapter, "tokenizer", None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    text = backend.to_str() if backend is not None else repr(sorted(getattr(tokenizer, "get_vocab", dict)().items()))
    return hashlib.sha256(f"{text}:{getattr(tokenizer, 'model_max_length', None)}".encode()).hexdigest()


def code_hash(model: nn.Module) -> str:
    """SHA-256 of what runs: the class and the plain settings of every module, how much is hooked to it, buffers that no
    file of weights holds, and the source of classes that come from neither torch nor transformers.
    """
    total = hashlib.sha256()
    for name, module in model.named_modules():
        of_class = type(module)
        where = f"{of_class.__module__}." if f"{of_class.__module__}.".startswith(LIBRARIES) else ""
        hooks = len(module._forward_hooks) + len(module._forward_pre_hooks)
        code = "" if where else _source(of_class)
        about = [name, f"{where}{of_class.__qualname__}", code, sorted(_settings(module)), hooks]
        total.update(json.dumps(about).encode())
    kept = model.state_dict()
    for name, buffer in sorted(model.named_buffers()):
        if name not in kept:
            total.update(f"{name}:{buffer.dtype}:{tuple(buffer.shape)}:".encode())
            total.update(buffer.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _settings(module: nn.Module) -> Iterator[tuple[str, str]]:
    """Numbers, flags and words that are attributes of a module: eps, heads. `training` is set for each pass."""
    for name, value in vars(module).items():
        decides = name != "training" and not name.startswith("_") and name not in NOT_OF_THE_FUNCTION
        if decides and isinstance(value, int | float | str | tuple | list):
            yield name, json.dumps(_plain(value))


def _source(of_class: type) -> str:
    try:
        return inspect.getsource(of_class)
    except (OSError, TypeError):  # typed into a console, or compiled
        return ""


def _configuration(config: Any) -> Any:
    if not callable(getattr(config, "to_dict", None)):
        return None
    return {name: value for name, value in _plain(config.to_dict()).items() if name not in NOT_OF_THE_FUNCTION}


def _plain(value: Any) -> Any:
    """The value as plain data; what has no plain form is named by its class, never by where it lies in memory."""
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items() if str(key) not in NOT_OF_THE_FUNCTION}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else repr(value)
    return str(value) if isinstance(value, torch.dtype | torch.device) else type(value).__qualname__
