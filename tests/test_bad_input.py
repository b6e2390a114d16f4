"""Bad input gets an error that says what was wrong, what was got and what is allowed. (That nothing stays behind:
test_no_trace.py.)
"""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import looprop
import tiny
from looprop.errors import InputError, ModelError, PlanError, UnknownNameError


@pytest.fixture(scope="module")
def bench() -> looprop.Workbench:
    return looprop.load(tiny.tiny_classifier())


# ----- texts


@pytest.mark.parametrize("text", ["", "   ", "\n\t", ("", " ")])
def test_empty_text(bench: looprop.Workbench, text: Any) -> None:
    with pytest.raises(InputError, match="the text is empty"):
        bench.explain(text)


@pytest.mark.parametrize("item", [None, 3, b"text", ("a", "b", "c"), ("a", 1), {"text": "a"}], ids=str)
def test_no_text(bench: looprop.Workbench, item: Any) -> None:
    with pytest.raises(InputError, match="an input must be a text or a pair of texts"):
        bench.explain(item)


def test_empty_list(bench: looprop.Workbench) -> None:
    with pytest.raises(InputError, match="list of inputs is empty"):
        bench.explain([])


def test_text_without_tokens() -> None:
    bench = looprop.load(tiny.tiny_decoder(tiny.wordpiece()))
    bench.tokenizer.backend_tokenizer.post_processor = None
    with pytest.raises(InputError, match="makes no token"):
        bench.explain("\u200b")


def test_text_longer_than_the_model_takes(bench: looprop.Workbench) -> None:
    long = "the film is bad " * 20
    with pytest.raises(InputError, match="the text has 82 tokens and the model takes 32: pass truncation=True"):
        bench.explain(long)
    e = bench.explain(long, truncation=True)
    assert len(e) == 32
    assert e.features[0] == "[CLS]"
    assert e.features[-1] == "[SEP]"
    with torch.no_grad():
        encoding = bench.tokenizer(long, truncation=True, max_length=32, return_tensors="pt")
        assert e.output == pytest.approx(float(bench.model(**encoding).logits[0].max()), rel=1e-5)


def test_a_text_of_just_the_right_length(bench: looprop.Workbench) -> None:
    assert len(bench.explain(" ".join(["the"] * 30))) == 32


@pytest.mark.parametrize("pad", [0, 1])
def test_models_whose_positions_begin_after_the_padding(pad: int) -> None:
    """RoBERTa: of max_position_embeddings places the first padding_idx + 1 are never used."""
    import transformers as hf

    tokenizer = tiny.wordpiece()
    config = hf.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=20,
        pad_token_id=pad,
    )
    bench = looprop.load((hf.RobertaForSequenceClassification(config), tokenizer))
    longest = 20 - pad - 1
    assert len(bench.explain(" ".join(["the"] * (longest - 2)))) == longest
    with pytest.raises(InputError, match=f"the model takes {longest}"):
        bench.explain(" ".join(["the"] * (longest - 1)))


# ----- names and options


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "lrpp"}, UnknownNameError, "unknown method 'lrpp'; did you mean 'lrp'"),
        ({"method": "lrp", "cpp": 1}, UnknownNameError, "did you mean 'cp'"),
        ({"method": "lrp[cp=3]"}, PlanError, "names layer 3, but this model has 2 attention layers"),
        ({"method": "lrp[cp=5:]"}, PlanError, "layer 5 does not exist: this model has 2 attention layers"),
        ({"method": "cp-lrp", "epsilon": -1}, PlanError, "epsilon must be a number >= 0, got -1"),
        ({"method": "cp-lrp", "bias": "no"}, UnknownNameError, "unknown bias share 'no'"),
        ({"method": "cp-lrp", "readout": "embedding"}, InputError, "readout must be 'word'.*, got 'embedding'"),
        ({"features": "syllable"}, InputError, "features must be 'token', 'word'.*got 'syllable'"),
        ({"features": "chunk:0"}, InputError, "chunk:N"),
        ({"features": [[0, 1], [1, 2]]}, InputError, "position 1 is in feature 0 and again in feature 1"),
        ({"features": [[0], [9]]}, InputError, "names position 9; positions run from 0 to 3"),
        ({"features": [[0], []]}, InputError, "feature 1 of the partition is empty"),
        ({"features": [[0, 1]]}, InputError, "leaves out position 2, 3"),
        ({"method": "random", "seed": -1}, InputError, "seed must be an integer >= 0, got -1"),
    ],
)
def test_options(bench: looprop.Workbench, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bench.explain("the film", **options)


# ----- models


def test_a_model_that_answers_with_nan() -> None:
    model, tokenizer = tiny.tiny_classifier()
    with torch.no_grad():
        model.classifier.bias.fill_(torch.nan)
    with pytest.raises(ModelError, match="NaN or infinite logits"):
        looprop.load((model, tokenizer)).explain("the film")


class EveryToken(nn.Module):
    """A model of nobody's kind that answers every token."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(size, 3)

    def get_input_embeddings(self) -> nn.Module:
        return self.table

    def forward(self, input_ids: Tensor) -> Tensor:
        found: Tensor = self.table(input_ids)
        return found


def test_a_model_that_answers_every_token() -> None:
    tokenizer = tiny.wordpiece()
    with pytest.raises(ModelError, match="one row of logits per input"):
        looprop.load((EveryToken(len(tokenizer)), tokenizer)).explain("the film")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((nn.Linear(2, 2), None), "needs its tokenizer"),
        ((nn.Linear(2, 2), tiny.wordpiece()), "get_input_embeddings"),
        ((nn.ReLU(), tiny.wordpiece()), "has no parameters"),
        (("model", tiny.wordpiece()), "must be a torch.nn.Module"),
        ((1, 2, 3), "got 3 objects"),
        (nn.Linear(2, 2), r"load\(\(model, tokenizer\)\)"),
        ((nn.Linear(2, 2, device="meta"), tiny.wordpiece()), "without data"),
    ],
    ids=["no tokenizer", "no embedding", "no parameters", "no module", "three", "alone", "meta"],
)
def test_objects_that_are_no_model(source: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        looprop.load(source)


# ----- folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model, tokenizer = tiny.tiny_classifier()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_good_folder(folder: Path, bench: looprop.Workbench) -> None:
    loaded = looprop.load(folder)
    assert loaded.labels == {0: "negative", 1: "neutral", 2: "positive"}
    assert not loaded.model.training
    found, expected = loaded.explain("the film"), bench.explain("the film")
    assert found.scores == pytest.approx(expected.scores, rel=1e-5)
    assert looprop.load(str(folder)).adapter.name == str(folder)


def test_half_precision_weights_are_computed_in_float32(folder: Path) -> None:
    model, _ = tiny.tiny_classifier()
    model.to(torch.bfloat16).save_pretrained(folder)
    loaded = looprop.load(folder)
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    assert loaded.explain("the film").output != 0


def test_a_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"holds no weights \(\*\.safetensors\)"):
        looprop.load(folder)


def test_pickled_weights(folder: Path) -> None:
    state = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"only pickled weights \(pytorch_model.bin\)"):
        looprop.load(folder)


def test_a_folder_without_configuration(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        looprop.load(tmp_path)


def test_weights_that_are_missing_are_not_made_up(folder: Path) -> None:
    state = safetensors.torch.load_file(folder / "model.safetensors")
    del state["classifier.weight"]
    safetensors.torch.save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"has no weights for classifier\.weight"):
        looprop.load(folder)


def test_broken_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"not a tensor in sight")
    with pytest.raises(ModelError, match="cannot load"):
        looprop.load(folder)


def test_a_kind_of_model_that_is_not_understood(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertForNextSentencePrediction"]}))
    with pytest.raises(
        ModelError, match=r"is a BertForNextSentencePrediction: looprop loads classifiers.*load\(\(model, tokenizer\)\)"
    ):
        looprop.load(folder)


def test_remote_code_is_not_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    own = {
        "model_type": "own-kind",
        "architectures": ["OwnForSequenceClassification"],
        "auto_map": {"AutoConfig": "own.OwnConfig"},
    }
    (folder / "config.json").write_text(json.dumps({**config, **own}))
    (folder / "own.py").write_text("raise SystemExit('remote code ran')")
    with pytest.raises(ModelError, match="cannot load"):
        looprop.load(folder)


def test_a_name_that_is_neither_folder_nor_hub_id(tmp_path: Path) -> None:
    for source in (tmp_path / "nowhere", "no such model!", "nobody/nothing"):
        with pytest.raises(ModelError, match="cannot load"):
            looprop.load(source)
