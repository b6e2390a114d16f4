"""Which model computed, and whether a run is the one that was begun."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from evaluation.tiny import save_tiny, tiny_model, tiny_tokenizer
from looprop.errors import ModelError
from looprop.models.adapter import Adapter
from looprop.models.loading import load_adapter
from looprop.running.manifest import compare, plain
from looprop.running.model_identity import model_identity
from looprop.running.ray.workers import load_again
from looprop.running.store import OldManifestWarning, open_store
from looprop.workbench import Workbench


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = save_tiny(tmp_path_factory.mktemp("model"))
    return folder, model_identity(load_adapter(folder))


def edited(folder: Path, name: str, **change: object) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda f: edited(f, "config.json", num_attention_heads=4), "configuration.num_attention_heads (was 2, is 4)"),
        (lambda f: edited(f, "config.json", hidden_act="relu"), 'configuration.hidden_act (was "gelu", is "relu")'),
        (lambda f: edited(f, "config.json", layer_norm_eps=0.1), "configuration.layer_norm_eps (was 1e-12, is 0.1)"),
        (lambda f: edited(f, "tokenizer.json", normalizer={"type": "Lowercase"}), "tokenizer (was"),
        (lambda f: edited(f, "tokenizer_config.json", model_max_length=9), "tokenizer (was"),
    ],
)
def test_the_same_weights_under_other_settings_are_another_model(
    before: tuple[Path, dict], tmp_path: Path, change: Callable[[Path], None], named: str
) -> None:
    folder = save_tiny(tmp_path / "model")
    assert model_identity(load_adapter(folder)) == before[1], "where it lies does not matter"
    change(folder)
    found = model_identity(load_adapter(folder))
    assert found["weights"] == before[1]["weights"]
    assert any(line.startswith(named) for line in compare(before[1], found).changed)


def test_what_a_model_was_used_for_does_not_matter(before: tuple[Path, dict]) -> None:
    adapter = load_adapter(before[0])
    for truncation in (True, False):
        adapter.encode("a great film", truncation=truncation)
        Workbench(adapter).explain(["a great film", "not bad"], "cp-lrp")
        Workbench(adapter).explain("a great film", "loo")
        assert model_identity(adapter) == before[1]


def test_a_worker_that_loads_another_configuration_refuses(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model")
    adapter = load_adapter(folder)
    identity = json.loads(json.dumps(model_identity(adapter)))
    assert adapter.origin is not None
    loaded = load_again(adapter.origin, identity, device=torch.device("cpu"))
    assert model_identity(loaded) == identity
    edited(folder, "config.json", hidden_act="relu")
    with pytest.raises(ModelError, match=r"is not the model of the driver, changed: .*configuration\.hidden_act"):
        load_again(adapter.origin, identity, device=torch.device("cpu"))


class Other(nn.LayerNorm):
    """The same settings, other code."""


def with_eps(model: nn.Module) -> None:
    model.bert.encoder.layer[0].output.LayerNorm.eps = 0.5


def with_other_code(model: nn.Module) -> None:
    own = model.bert.encoder.layer[0].output
    other = Other(own.LayerNorm.normalized_shape, eps=own.LayerNorm.eps)
    other.load_state_dict(own.LayerNorm.state_dict())
    own.LayerNorm = other


def with_a_hook(model: nn.Module) -> None:
    model.bert.encoder.layer[0].register_forward_hook(lambda *_: None)


def with_a_hidden_buffer(model: nn.Module) -> None:
    model.bert.embeddings.position_ids.add_(1)


@pytest.mark.parametrize("change", [with_eps, with_other_code, with_a_hook, with_a_hidden_buffer])
def test_code_and_settings_that_no_file_holds_count(change: Callable[[nn.Module], None]) -> None:
    model = tiny_model()

    def identity(of: nn.Module) -> dict:
        adapter: Adapter = load_adapter((of, tiny_tokenizer()))
        return model_identity(adapter)

    assert identity(copy.deepcopy(model)) == identity(model)
    other = copy.deepcopy(model)
    change(other)
    changed = compare(identity(model), identity(other)).changed
    assert len(changed) == 1
    assert changed[0].startswith("code (was")


def test_an_older_manifest_is_taken_for_what_it_says(tmp_path: Path) -> None:
    old = {"model": {"weights": "w"}, "seed": 0}
    new = {"model": {"weights": "w", "configuration": {"heads": 2}}, "seed": 0, "numerics": 1}
    with open_store(tmp_path, old) as store:
        store.add([{"example": "a"}])
    said = r"does not say numerics, model\.configuration"
    with pytest.warns(OldManifestWarning, match=said), open_store(tmp_path, new) as store:
        assert store.manifest["sessions"][-1]["unstated"] == ["numerics", "model.configuration"]
    assert json.loads((tmp_path / "manifest.json").read_text())["identity"] == old, "nothing was computed under the new"
    with pytest.warns(OldManifestWarning), open_store(tmp_path, new) as store:
        store.add([{"example": "b"}])
    assert json.loads((tmp_path / "manifest.json").read_text())["identity"] == new
    with open_store(tmp_path, new):
        pass
    other = {**plain(new), "model": {"weights": "w", "configuration": {"heads": 4}}}
    with pytest.raises(ValueError, match=r"model\.configuration\.heads \(was 2, is 4\)"), open_store(tmp_path, other):
        pass
