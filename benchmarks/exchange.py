"""How a model and its inputs travel between environments: weights as safetensors, configuration and texts as JSON, ids
as numpy.

Configurations are the few plain numbers that every version of transformers reads alike, so no version has to read
another's files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

TARGET = 1
CLASSES = {"bert": ("BertConfig", "BertForSequenceClassification"), "llama": ("LlamaConfig", "LlamaForCausalLM")}


@dataclass(frozen=True)
class Case:
    """A model and some inputs of one length or of several.

    model: a folder. ids: token ids, one array per text. texts: the same as strings; empty for models without a
        tokenizer.
    target: the explained class of each text, or token.
    """

    model: Path
    ids: tuple[NDArray[np.int64], ...]
    texts: tuple[str, ...]
    targets: tuple[int, ...]


def write_model(folder: Path, kind: str, config: Mapping[str, Any], *, spread: float = 0.02, seed: int = 0) -> Path:
    """A random model: normal weights with this standard deviation, norms and biases as they are initialised."""
    torch.manual_seed(seed)
    save_model(
        folder,
        kind,
        {**config, "initializer_range": spread},
        build(kind, {**config, "initializer_range": spread}).state_dict(),
    )
    return folder


def save_model(folder: Path, kind: str, config: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> None:
    """Weights and configuration, for any environment."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps({"kind": kind, "config": dict(config)}), encoding="utf-8")
    save_file(
        {name: tensor.float().contiguous().clone() for name, tensor in state.items()}, folder / "model.safetensors"
    )


def build(kind: str, config: Mapping[str, Any], attention: str = "sdpa") -> Any:
    """A model of the installed transformers."""
    import transformers

    configuration, model = (getattr(transformers, name) for name in CLASSES[kind])
    return model._from_config(configuration(**config), attn_implementation=attention).eval()


@lru_cache(maxsize=1)
def load_model(folder: Path, attention: str = "sdpa") -> Any:
    """The model of a folder; one at a time, so that memory holds one."""
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    model = build(about["kind"], about["config"], attention)
    missing, unexpected = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    # Buffers of positions exist in some versions only.
    if [name for name in (*missing, *unexpected) if "position_ids" not in name and "token_type_ids" not in name]:
        raise RuntimeError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    return model


@lru_cache(maxsize=1)
def load_tokenizer(folder: Path) -> Any:
    """The tokenizer beside a model, in the one form that all versions read."""
    from transformers import PreTrainedTokenizerFast

    special = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "pad", "mask", "unk")}
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), model_max_length=1024, **special)


def write_case(
    folder: Path, model: Path, ids: Sequence[NDArray[np.int64]], texts: Sequence[str], targets: Sequence[int]
) -> Path:
    """Inputs beside the name of their model."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "ids.npz", *ids)
    about = {"model": str(model), "texts": list(texts), "targets": [int(t) for t in targets]}
    (folder / "case.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


def read_case(folder: Path) -> Case:
    """What `write_case` wrote."""
    about = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    with np.load(folder / "ids.npz") as stored:
        ids = tuple(stored[name] for name in stored.files)
    return Case(Path(about["model"]), ids, tuple(about["texts"]), tuple(about["targets"]))
