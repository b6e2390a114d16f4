"""`--model paper`: the real classes, from folders laid out as the paper's two models lie on the hub, with random
weights of a small size.
"""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification

from looprop.errors import ModelError
from looprop.study import reproduce, write_report

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "papers-models.md"
MODELS = {"sst2": "textattack/bert-base-uncased-SST-2", "imdb": "fabriceyhc/bert-base-uncased-imdb"}
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a the film is not very good bad dull great plot and . , ##s".split()
TEXTS = ["a great film , not dull .", "the plot is very bad and dull"]
LAYERS = 3


def converter() -> Any:
    """The function that the page gives its reader."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {}
    exec("\n".join(blocks), space)
    return space["to_safetensors"]


def write_model(folder: Path, name: str) -> None:
    """As on the hub: a configuration of BERT-base's kind, pickled weights, a vocabulary and no tokenizer.json."""
    folder.mkdir(parents=True)
    torch.manual_seed(len(name))
    size = {"hidden_size": 16, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=64, **size)
    config.architectures = ["BertForSequenceClassification"]
    said = {**config.to_diff_dict(), "model_type": "bert", "finetuning_task": "sst-2", "gradient_checkpointing": False}
    (folder / "config.json").write_text(json.dumps(said), encoding="utf-8")
    torch.save(BertForSequenceClassification(config).state_dict(), folder / "pytorch_model.bin")
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    tokenizer = {"do_lower_case": True, "model_max_length": 64, "tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    special = {f"{n.lower()}_token": f"[{n}]" for n in ("UNK", "SEP", "PAD", "CLS", "MASK")}
    (folder / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Both models in the cache of the hub's library, which is offline here, and a little of both data sets."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    places = {}
    for data, name in MODELS.items():
        repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("0123", encoding="utf-8")
        places[data] = repository / "snapshots" / "0123"
        write_model(places[data], name)
    folder = tmp_path / "data"
    (folder / "sst2").mkdir(parents=True)
    rows = "".join(f"{text} \t{i % 2}\n" for i, text in enumerate(TEXTS))
    (folder / "sst2" / "dev.tsv").write_text("sentence\tlabel\n" + rows, encoding="utf-8")
    (folder / "imdb").mkdir()
    with gzip.open(folder / "imdb" / "test.jsonl.gz", "wt", encoding="utf-8") as file:
        for i, text in enumerate(TEXTS):
            file.write(json.dumps({"id": str(i), "label": i % 2, "text": " ".join([text] * 4)}) + "\n")
    monkeypatch.setenv("LOOPROP_DATA", str(folder))
    return places


def test_pickled_weights_are_refused_until_they_are_converted(hub: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="pickled weights"):
        reproduce("baselines", model=str(hub["sst2"]), data="sst2", out=tmp_path / "run", progress=False)
    with pytest.raises(ModelError, match="safetensors"):
        reproduce("baselines", model="paper", data="sst2", out=tmp_path / "run", progress=False)
    converter()(hub["sst2"])
    pickled = torch.load(hub["sst2"] / "pytorch_model.bin", weights_only=True)
    converted = load_file(hub["sst2"] / "model.safetensors")
    assert pickled.keys() == converted.keys()
    assert all(torch.equal(pickled[name], converted[name]) for name in pickled)


class Bomb:
    """A pickle that would run code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("bomb-went-off"),)


def test_the_conversion_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Bomb()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        converter()(tmp_path)
    assert not (tmp_path / "bomb-went-off").exists()
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("experiment", ["baselines", "layers"])
@pytest.mark.parametrize("data", MODELS)
def test_the_papers_models_go_through_its_experiments(
    hub: dict[str, Path], tmp_path: Path, experiment: str, data: str
) -> None:
    converter()(hub[data])
    run = reproduce(experiment, model="paper", data=data, out=tmp_path / "run", progress=False)
    assert run.finished
    assert run.model == MODELS[data]
    assert not [row["error"] for row in run.rows if row["error"]]
    assert run.layers == LAYERS
    write_report(tmp_path / "run")
    assert MODELS[data] in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    by_folder = reproduce(experiment, model=str(hub[data]), data=data, out=tmp_path / "folder", progress=False)
    scores = [[row["scores"] for row in own.rows] for own in (run, by_folder)]
    assert scores[0] == scores[1]
