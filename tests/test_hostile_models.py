"""Folders of models that are broken or out to harm: refused in words, with the way out, before anything is built."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers as hf

import attack_files
import looprop
import tiny
from attack_files import Bomb, configure, write_json
from looprop.errors import InputError, ModelError
from looprop.limits import ALL, LAYERS
from looprop.models import memory
from looprop.models.folder import INDEX


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    for part in tiny.tiny_classifier():
        part.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "model"))


@pytest.fixture
def sharded(folder: Path) -> Path:
    """The same model with its weights in two files."""
    state = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(state)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for name, keys in parts.items():
        safetensors.torch.save_file({key: state[key] for key in keys}, folder / name, metadata={"format": "pt"})
    write_json(folder / INDEX, {"metadata": {}, "weight_map": {key: name for name in parts for key in parts[name]}})
    return folder


# ----- weights


def test_weights_in_several_files(sharded: Path, sound: Path) -> None:
    found = looprop.load(sharded).explain("the film", target=1)
    assert found.scores == pytest.approx(looprop.load(sound).explain("the film", target=1).scores, rel=1e-4)


@pytest.mark.parametrize(
    ("shard", "said"),
    [
        ("pytorch_model.bin", "only safetensors are read, since pickled weights can run code"),
        ("../a.safetensors", "not in the folder"),
        ("/a.safetensors", "not in the folder"),
        ("..\\a.safetensors", "not in the folder"),
        ("c.safetensors", "names 'c.safetensors', which is not there"),
        (None, "only safetensors"),
        (["a.safetensors"], "only safetensors"),
    ],
)
def test_an_index_that_names_something_else(sharded: Path, tmp_path: Path, shard: Any, said: str) -> None:
    mark = tmp_path / "ran"
    torch.save(Bomb(mark), sharded / "pytorch_model.bin")
    shutil.copy(sharded / "a.safetensors", tmp_path / "a.safetensors")  # where ../ leads to
    index = json.loads((sharded / INDEX).read_text(encoding="utf-8"))
    index["weight_map"]["classifier.bias"] = shard
    write_json(sharded / INDEX, index)
    with pytest.raises(ModelError, match=said):
        looprop.load(sharded)
    assert not mark.exists()


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": ["a.safetensors"]}, {"weight_map": None}])
def test_an_index_that_is_none(sharded: Path, index: Any) -> None:
    write_json(sharded / INDEX, index)
    with pytest.raises(ModelError, match="must map tensors to files"):
        looprop.load(sharded)


def test_an_index_of_pickles(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    torch.save(Bomb(mark), folder / "a.bin")
    write_json(folder / "pytorch_model.bin.index.json", {"weight_map": {"classifier.bias": "a.bin"}})
    assert looprop.load(folder).explain("the film").output  # from the safetensors beside it
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"names 'a\.bin'; only safetensors are read"):
        looprop.load(folder)
    assert not mark.exists()


def test_pickles_beside_safetensors_are_not_opened(folder: Path, tmp_path: Path, sound: Path) -> None:
    mark = tmp_path / "ran"
    for name in ("pytorch_model.bin", "model.pt", "training_args.bin"):
        torch.save(Bomb(mark), folder / name)
    found = looprop.load(folder).explain("the film", target=0)
    assert found.scores == pytest.approx(looprop.load(sound).explain("the film", target=0).scores, rel=1e-4)
    assert not mark.exists()


def test_a_configuration_that_names_its_weights(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    torch.save(Bomb(mark), folder / "own.bin")
    for name in ("own.bin", "../model.safetensors", 3):
        configure(folder, transformers_weights=name)
        with pytest.raises(ModelError, match=r"transformers_weights in config\.json names"):
            looprop.load(folder)
    assert not mark.exists()


def test_weights_of_another_shape(folder: Path) -> None:
    configure(folder, intermediate_size=64)
    with pytest.raises(ModelError, match=r"cannot load|another shape"):
        looprop.load(folder)


# ----- code of others


def test_an_adapter_of_peft_is_not_followed(folder: Path) -> None:
    write_json(folder / "adapter_config.json", {"base_model_name_or_path": "somebody/else", "peft_type": "LORA"})
    with pytest.raises(ModelError, match=r"adapter of peft.*merge_and_unload.*load\(\(model, tokenizer\)\)"):
        looprop.load(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_beside_a_known_kind_is_not_run(folder: Path, tmp_path: Path, file: str) -> None:
    mark = tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(mark)!r}, 'w')\nclass Own: pass\n", encoding="utf-8")
    names = ("AutoConfig", "AutoModelForSequenceClassification", "AutoTokenizer")
    data = json.loads((folder / file).read_text(encoding="utf-8"))
    own = {name: "own.Own" if name != "AutoTokenizer" else ["own.Own", "own.Own"] for name in names}
    write_json(folder / file, {**data, "auto_map": own})
    looprop.load(folder)
    assert not mark.exists()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "experts_implementation"])
def test_kernels_of_others_are_not_downloaded(folder: Path, key: str) -> None:
    configure(folder, **{key: "somebody/kernel"})
    with pytest.raises(ModelError, match="names code to download"):
        looprop.load(folder)


# ----- what a small file asks for


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"num_hidden_layers": 10**9}, "LOOPROP_MAX_LAYERS"),
        ({"text_config": {"n_layer": 10**9}}, "LOOPROP_MAX_LAYERS"),
        ({"depths": [2, 10**9]}, "LOOPROP_MAX_LAYERS"),
        ({"num_hidden_layers": 1e400}, "LOOPROP_MAX_LAYERS"),
        ({"num_labels": 10**10}, "LOOPROP_MAX_LABELS"),
        ({"max_position_embeddings": 10**15}, "LOOPROP_MAX_POSITIONS"),
        ({"hidden_size": 4 * 10**7}, "LOOPROP_MAX_MODEL_BYTES"),
        ({"hidden_size": 4 * 10**9}, "cannot load"),
        ({"vocab_size": 10**14}, "LOOPROP_MAX_MODEL_BYTES"),
        ({"intermediate_size": 10**14}, "LOOPROP_MAX_MODEL_BYTES"),
    ],
    ids=str,
)
def test_a_configuration_that_asks_for_too_much(folder: Path, changes: dict[str, Any], variable: str) -> None:
    configure(folder, **changes)
    with pytest.raises(ModelError, match=variable):
        looprop.load(folder)


def test_the_limits_can_be_moved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPROP_MAX_LAYERS", "1")
    with pytest.raises(ModelError, match=r"asks for too much: \d layers, and at most 1 are taken"):
        looprop.load(folder)
    monkeypatch.setenv("LOOPROP_MAX_LAYERS", "1_000")
    looprop.load(folder)
    monkeypatch.setenv("LOOPROP_MAX_MODEL_BYTES", "1000")
    with pytest.raises(ModelError, match="LOOPROP_MAX_MODEL_BYTES"):
        looprop.load(folder)
    monkeypatch.delenv("LOOPROP_MAX_MODEL_BYTES")
    monkeypatch.setenv("LOOPROP_MAX_TOKENIZER_BYTES", "100")
    with pytest.raises(ModelError, match=r"too large for a tokenizer.*LOOPROP_MAX_TOKENIZER_BYTES"):
        looprop.load(folder)
    monkeypatch.delenv("LOOPROP_MAX_TOKENIZER_BYTES")
    monkeypatch.setenv("LOOPROP_MAX_JSON_BYTES", "100")
    with pytest.raises(ModelError, match="LOOPROP_MAX_JSON_BYTES"):
        looprop.load(folder)


@pytest.mark.parametrize("given", ["many", "-1", "1e9", "9" * 40])
def test_limits_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(LAYERS.variable, given)
    with pytest.raises(InputError, match="LOOPROP_MAX_LAYERS must be a whole number of layers"):
        _ = LAYERS.value


def test_every_limit_is_documented() -> None:
    page = (Path(__file__).parents[1] / "SECURITY.md").read_text(encoding="utf-8")
    for limit in ALL:
        assert limit.variable in page
        assert limit.default is None or f"{limit.default:,}" in page


def test_a_model_larger_than_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure is what the weights of the sound model take, counted one by one."""
    size = 4 * sum(p.numel() for p in tiny.tiny_classifier()[0].parameters())
    monkeypatch.setattr(memory, "free_memory", lambda: size - 1)
    with pytest.raises(ModelError, match=rf"take {size:,} bytes.*{size - 1:,} are free.*LOOPROP_MAX_MODEL_BYTES"):
        looprop.load(folder)
    monkeypatch.setattr(memory, "free_memory", lambda: size)
    looprop.load(folder)
    monkeypatch.setattr(memory, "free_memory", lambda: 0)
    monkeypatch.setenv("LOOPROP_MAX_MODEL_BYTES", str(size))
    looprop.load(folder)


def test_free_memory_is_some() -> None:
    free = memory.free_memory()
    assert free is None or free > 0


# ----- tokenizers and processors


def test_a_folder_without_a_tokenizer(folder: Path) -> None:
    for path in folder.glob("*token*"):
        path.unlink()
    with pytest.raises(ModelError, match=r"no tokenizer.*every word would be unknown.*load\(\(model, tokenizer\)\)"):
        looprop.load(folder)


def test_a_tokenizer_without_a_vocabulary(folder: Path) -> None:
    """Nothing but a configuration: the library makes a tokenizer that knows its special tokens."""
    (folder / "tokenizer.json").unlink()
    config = {"tokenizer_class": "BertTokenizer"}
    write_json(folder / "tokenizer_config.json", config)
    with pytest.raises(ModelError, match=r"knows no word|its tokenizer cannot be used"):
        looprop.load(folder)


def test_the_tokenizer_of_another_model() -> None:
    model, _ = tiny.tiny_classifier()
    bench = looprop.load((model, tiny.byte_level()))
    with pytest.raises(ModelError, match="the tokenizer of another model"):
        bench.explain("the unbelievable film, isn't it?")


def test_an_image_model_without_its_processor(tmp_path: Path) -> None:
    folder = attack_files.make_models(tmp_path)[2]
    assert looprop.load(folder).adapter.noun == "images"
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match=r"its processor cannot be used.*load\(\(model, None\)\)"):
        looprop.load(folder)


# ----- sources of every kind


@pytest.mark.parametrize(
    "source",
    [3, b"x", [], {}, object(), "", "  ", "a\0b", 1.5, hf.BertConfig()],
    ids=lambda source: type(source).__name__,
)
def test_what_is_no_model(source: Any) -> None:
    with pytest.raises(ModelError, match="a model is given as a hub id, a folder"):
        looprop.load(source)


def test_a_pipeline() -> None:
    model, tokenizer = tiny.tiny_classifier()
    with pytest.raises(ModelError, match=r"load\(\(pipeline.model, pipeline.tokenizer\)\)"):
        looprop.load(hf.pipeline("text-classification", model=model, tokenizer=tokenizer))  # type: ignore[arg-type]


def test_a_file_of_weights(folder: Path) -> None:
    with pytest.raises(ModelError, match="is a file: a model is loaded from its folder"):
        looprop.load(folder / "model.safetensors")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", 3.5, ""], ids=repr)
def test_what_is_no_device(device: Any) -> None:
    with pytest.raises(ModelError, match="device must be one of torch's"):
        looprop.load(device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="cannot load"):
        looprop.load(device="cuda")


@pytest.mark.parametrize("architectures", [None, [], "BertForSequenceClassification", [None], {"a": 1}, 3], ids=str)
def test_a_configuration_that_does_not_say_its_class(folder: Path, architectures: Any) -> None:
    configure(folder, architectures=architectures)
    with pytest.raises(ModelError, match=r"architectures in config\.json"):
        looprop.load(folder)


def test_every_kind_that_is_not_loaded_says_what_can_be_done(folder: Path) -> None:
    for name in ("BertModel", "BertForPreTraining", "BertForNextSentencePrediction"):
        configure(folder, architectures=[name])
        with pytest.raises(ModelError, match=rf"is a {name}: looprop loads .*load\(\(model, tokenizer\)\)"):
            looprop.load(folder)


# ----- drawn by a seed


@pytest.mark.filterwarnings("ignore")
def test_files_drawn_by_a_seed() -> None:
    assert attack_files.files_campaign(150, seed=16) == []
