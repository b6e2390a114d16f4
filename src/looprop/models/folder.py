"""The files of a model, looked at before a library reads them: weights that cannot run code, a configuration that does
not ask for the moon, a tokenizer that is there.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from looprop.errors import ModelError
from looprop.limits import JSON_BYTES, LABELS, LAYERS, POSITIONS, TOKENIZER_BYTES, Limit

ADAPTER = "adapter_config.json"
INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
# What the tokenizers of the transformers library are read from; some need no more than their configuration.
TOKENIZERS = tuple(
    "tokenizer.json tokenizer_config.json vocab* merges.txt *.model *.tiktoken tekken.json *.vocab bpe.codes".split()
)
# Numbers in a configuration that make a library build or count so many things, whatever the weights are.
_COUNTS: tuple[tuple[re.Pattern[str], Limit], ...] = (
    (re.compile(r"(layers?|depths?|blocks|experts|stages|heads?|groups)$"), LAYERS),
    (re.compile(r"(num_labels|num_classes)$"), LABELS),
    (re.compile(r"(positions?|position_embeddings|ctx|seq_len)$"), POSITIONS),
)


def check_folder(folder: Path, *, trust_remote_code: bool = False) -> None:
    """Raise for a folder from which no model can be loaded safely."""
    if (folder / ADAPTER).exists():
        raise ModelError(adapter_found(folder))
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no config.json: not a model folder")
    check_config(read_config(folder / "config.json"), str(folder), trust_remote_code=trust_remote_code)
    _check_weights(folder)
    for pattern in TOKENIZERS:
        for path in folder.glob(pattern):
            TOKENIZER_BYTES.check(path.stat().st_size, f"{path} is too large for a tokenizer", ModelError)


def adapter_found(source: str | Path) -> str:
    """Why an adapter is not followed, and what can be done with it."""
    return (
        f"{source} holds an adapter of peft ({ADAPTER}), which names another model to load: merge the two with "
        "merge_and_unload().save_pretrained(...), or load((model, tokenizer))"
    )


def check_tokenizer_files(folder: Path) -> None:
    """Raise where nothing of a tokenizer is there: some libraries make one up that knows no word."""
    if not any(next(folder.glob(pattern), None) for pattern in TOKENIZERS):
        raise ModelError(
            f"{folder} holds no tokenizer (tokenizer.json or a vocabulary): every word would be unknown; copy the "
            "files of the model's tokenizer into it with tokenizer.save_pretrained(...), or load((model, tokenizer))"
        )


def read_config(path: Path) -> Mapping[str, Any]:
    """A configuration or an index as plain data."""
    try:
        JSON_BYTES.check(path.stat().st_size, f"{path} is too large", ModelError)
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # broken, not UTF-8, numbers or nesting without end
        raise ModelError(f"{path} is not whole JSON ({error}): copy or download it anew") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(data, Mapping):
        raise ModelError(f"{path} must hold a JSON object, got {type(data).__name__}: copy or download it anew")
    return data


def check_config(config: Mapping[str, Any], name: str, *, trust_remote_code: bool = False) -> None:
    """Raise for a configuration that asks for too much, or for code from somewhere else."""
    architectures = config.get("architectures")
    if architectures is not None and (
        not isinstance(architectures, list) or not all(isinstance(a, str) for a in architectures)
    ):
        raise ModelError(f"{name}: architectures in config.json must be a list of names, got {architectures!r}")
    for key, value in _leaves(config):
        for pattern, limit in _COUNTS if isinstance(value, int | float) else ():
            if pattern.search(key):
                whole = int(value) if math.isfinite(value) else 2**62
                limit.check(whole, f"{name}: {key} in config.json asks for too much", ModelError)
        if key.endswith("_implementation") and "/" in str(value) and not trust_remote_code:
            raise ModelError(
                f"{name}: {key} in config.json names code to download ({value!r}): take it out, or load with "
                "trust_remote_code=True"
            )
    weights = config.get("transformers_weights")
    if weights is not None:
        _check_shard(weights, f"{name}: transformers_weights in config.json")


def check_index(index: Mapping[str, Any], name: str, folder: Path | None = None) -> None:
    """Raise for an index that names anything but safetensors beside it. folder: where they must be."""
    shards = index.get("weight_map")
    if not isinstance(shards, Mapping) or not shards:
        raise ModelError(f"{name} must map tensors to files under 'weight_map': copy or download it anew")
    for shard in dict.fromkeys(one if isinstance(one, str) else repr(one) for one in shards.values()):
        _check_shard(shard, name)
        if folder is not None and not (folder / shard).is_file():
            raise ModelError(f"{name} names {shard!r}, which is not there: copy or download it, too")


def _check_weights(folder: Path) -> None:
    for path in (folder / INDEX, folder / "pytorch_model.bin.index.json"):
        # The index of pickles is not read where there are safetensors, with one file or an index of their own.
        if path.name != INDEX and any(folder.glob("*.safetensors")):
            continue
        if path.is_file():
            check_index(read_config(path), str(path), folder)
    if any(folder.glob("*.safetensors")):
        return
    pickled = [path.name for pattern in PICKLES for path in folder.glob(pattern)]
    if pickled:
        raise ModelError(
            f"{folder} holds only pickled weights ({pickled[0]}), which can run code on loading: convert them to "
            "safetensors (docs/how-to/papers-models.md says how, without running any)"
        )
    raise ModelError(f"{folder} holds no weights (*.safetensors)")


def _check_shard(shard: Any, name: str) -> None:
    if not isinstance(shard, str) or not shard.endswith(".safetensors"):
        raise ModelError(
            f"{name} names {shard!r}; only safetensors are read, since pickled weights can run code on loading: "
            "convert them"
        )
    if Path(shard).name != shard or "\\" in shard:
        raise ModelError(f"{name} names {shard!r}, a file that is not in the folder: only files beside it are read")


def _leaves(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything that a configuration says, with the key that it stands under, in lists and inner parts, too."""
    left: list[tuple[Any, Any]] = list(config.items())
    while left:
        key, value = left.pop()
        if isinstance(value, Mapping):
            left.extend(value.items())
        elif isinstance(value, list):
            left.extend((key, item) for item in value)
        else:
            yield str(key), value
