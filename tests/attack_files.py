"""Hostile files: folders of models and files of texts, damaged by a seed. They load, or are refused in words.

A campaign of any length: `python tests/attack_files.py COUNT SEED`.
"""

import gzip
import json
import random
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import transformers as hf

import looprop
import tiny
from looprop.errors import LoopropError
from looprop.inputs import read_texts

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3.5, -7, 10**6, 10**12, 10**30, 1e300, float("nan"), float("inf"), "", "x"),
    *("768", "../x.bin", "\ud800", "\x00", [], {}, [None], [[]], ["x"], {"x": "y"}, {"0": "a", "1": "b"}, [0] * 9),
    *("auto", "gelu", "float16", "BertForSequenceClassification", "bert", "gpt2", "a/b", "BertTokenizer", "own.Own"),
]
KEYS = (
    "architectures model_type num_hidden_layers hidden_size vocab_size id2label label2id auto_map num_labels n_layer "
    "max_position_embeddings quantization_config torch_dtype dtype attn_implementation experts_implementation "
    "transformers_weights num_attention_heads problem_type pad_token_id tokenizer_class chat_template "
    "model_max_length added_tokens_decoder extra_special_tokens"
).split()


def write_json(path: Path, data: Any) -> None:
    """Writes a JSON file."""
    path.write_text(json.dumps(data), encoding="utf-8")


def configure(folder: Path, **changes: Any) -> None:
    """Changes the configuration of a model."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    write_json(folder / "config.json", {**config, **changes})


class Bomb:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.mark,)


def make_models(place: Path) -> list[Path]:
    """Small sound models of three kinds, a folder each."""
    folders = [place / name for name in ("classifier", "decoder", "image")]
    for folder, parts in zip(folders[:2], (tiny.tiny_classifier(), tiny.tiny_decoder()), strict=True):
        for part in parts:
            part.save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    hf.ViTForImageClassification(hf.ViTConfig(image_size=8, patch_size=4, **sizes)).save_pretrained(folders[2])
    (folders[2] / "preprocessor_config.json").write_text(
        json.dumps({"image_processor_type": "ViTImageProcessorPil", "size": {"height": 8, "width": 8}})
    )
    return folders


def damage(folder: Path, draw: random.Random) -> str:
    """Changes one to three files of a folder and says how."""
    done = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        files = sorted(path for path in folder.iterdir() if path.is_file())
        if not files:
            break
        path = draw.choice([*files, folder / "config.json", folder / "tokenizer.json"])
        change = draw.choice([_bytes, _cut, _gone, _values, _values, _values, _weights, _index, _raw])
        if path.is_file() or change is _index:
            done.append(f"{change.__name__[1:]} {path.name} {change(path, draw)}")
    return "; ".join(done)


def _bytes(path: Path, draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice([1, 4, 64])):
        if content:
            content[draw.randrange(min(len(content), draw.choice([16, 4096, 10**9])))] = draw.randrange(256)
    path.write_bytes(content)
    return ""


def _cut(path: Path, draw: random.Random) -> str:
    length = int(path.stat().st_size * draw.random())
    path.write_bytes(path.read_bytes()[:length])
    return f"to {length}"


def _gone(path: Path, draw: random.Random) -> str:
    path.unlink()
    what = draw.randrange(3)
    if what == 1:
        path.mkdir()
    elif what == 2:
        path.symlink_to(path.name)
    return ("gone", "a folder", "a link to itself")[what]


def _raw(path: Path, draw: random.Random) -> str:
    content = draw.choice(
        ["", "null", "[]", "{}", "7" * 5000, "[" * 100_000, '{"a":' * 50_000, "NaN", "\ufeff{}", "{}{}"]
    )
    path.write_text(content, encoding="utf-8")
    return repr(content[:20])


def _values(path: Path, draw: random.Random) -> str:
    """Another value somewhere in a JSON file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return "no JSON"
    here, way = data, []
    while isinstance(here, dict | list) and here:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key: Any = draw.choice(keys)
        if isinstance(here, dict) and not way and draw.random() < 0.5:
            key = draw.choice(KEYS)
        way.append(key)
        inner = here.get(key) if isinstance(here, dict) else here[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.4:
            value = draw.choice(VALUES)
            if draw.random() < 0.2 and inner is not None:
                del here[key]
                value = "gone"
            else:
                here[key] = value
            path.write_text(json.dumps(data), encoding="utf-8")
            return f"{way}: {value!r}"
        here = inner
    return "nothing"


def _weights(path: Path, draw: random.Random) -> str:
    """Another header of a file of weights."""
    path = path.with_name("model.safetensors")
    if not path.is_file() or path.stat().st_size < 8:
        return "no weights"
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    try:
        header = json.loads(content[8 : 8 + length])
        name = draw.choice([key for key in header if key != "__metadata__"])
        key = draw.choice(["shape", "dtype", "data_offsets", "name", "length", "gone"])
    except (ValueError, IndexError, TypeError):
        return "no header"
    value: Any = draw.choice([[0], [-1], [10**12, 4], [2**63, 2], [], "F64", "X", None, [0, 0], [8, 4], [0, 2**62], 7])
    if key == "length":
        wrong = draw.choice([0, 1, length - 1, length + 1, 2**31, 2**63])
        path.write_bytes(struct.pack("<Q", wrong) + content[8:])
        return f"length {wrong}"
    if key == "gone":
        del header[name]
    elif key == "name":
        header[f"{name}x"] = header.pop(name)
    else:
        header[name][key] = value
    changed = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(changed)) + changed + content[8 + length :])
    return f"{name} {key} {value!r}"


def _index(path: Path, draw: random.Random) -> str:
    """An index of weights in several files."""
    shard = draw.choice(
        ["model.safetensors", "../m.safetensors", "/etc/passwd", "m.bin", "m.safetensors", None, 3, [], ""]
    )
    index = draw.choice([{"weight_map": {"a": shard}}, {"weight_map": [shard]}, {"weight_map": shard}, {"map": shard}])
    name = draw.choice(["model.safetensors.index.json", "pytorch_model.bin.index.json"])
    path.with_name(name).write_text(json.dumps(index), encoding="utf-8")
    if draw.random() < 0.7 and path.with_name("model.safetensors").is_file():
        path.with_name("model.safetensors").rename(path.with_name(draw.choice(["m.safetensors", "m.bin"])))
    return f"{name}: {index}"


def check_model(folder: Path) -> None:
    """A damaged folder loads, or the error is one of ours and one line of Unicode."""
    try:
        looprop.load(folder)
    except LoopropError as refusal:
        said = str(refusal)
    else:
        return
    assert said.strip()
    assert len(said) < 2000


def make_texts(folder: Path) -> list[Path]:
    """The same texts in a file of every format."""
    rows = [{"text": f"text {i} is good", "label": i % 2} for i in range(20)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "a.parquet")
    lines = {"a.jsonl": [json.dumps(row) for row in rows], "a.txt": [row["text"] for row in rows]}
    for ending, comma in (("csv", ","), ("tsv", "\t")):
        lines[f"a.{ending}"] = [f"text{comma}label", *(f"{row['text']}{comma}{row['label']}" for row in rows)]
    for name, content in lines.items():
        (folder / name).write_text("\n".join(map(str, content)) + "\n", encoding="utf-8")
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    return sorted(folder.iterdir())


def check_texts(path: Path) -> None:
    """A damaged file of texts is read, or the error is one of ours and names the file."""
    try:
        read_texts(path, label_column=None if path.name.startswith("a.txt") else "label")
    except LoopropError as refusal:
        said = str(refusal)
    else:
        return
    assert str(path) in said, said


def files_campaign(count: int, seed: int) -> list[str]:
    """What went wrong with `count` damaged files: one line each, nothing if all is well."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "texts").mkdir()
        models, texts = make_models(place), make_texts(place / "texts")
        for number in range(count):
            draw = random.Random(f"{seed}:{number}")
            case = place / "case"
            check: Callable[[Path], None]
            if draw.random() < 0.5:
                shutil.copytree(draw.choice(models), case)
                target, check, how = case, check_model, damage(case, draw)
            else:
                case.mkdir()
                target, check = Path(shutil.copy(draw.choice(texts), case)), check_texts
                how = draw.choice([_bytes, _cut, _gone, _raw])(target, draw)
            try:
                check(target)
            except Exception as error:
                wrong.append(
                    f"case {number} of seed {seed}, {target.name}, {how}: {type(error).__name__}: {error}"[:700]
                )
            shutil.rmtree(case)
    return wrong


if __name__ == "__main__":
    found = files_campaign(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(found) or "all is well")
    sys.exit(bool(found))
