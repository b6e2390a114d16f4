"""The how-to is true: the one file that it shows, put among the heads, is found and explains as every other."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import looprop
from looprop.models import heads
from test_how_tos import LINES, ROOT, shown

ITEM = ("a good film with a fine cast", "an excellent movie")


@pytest.fixture
def embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> looprop.Workbench:
    place, code = shown("add-a-head")
    name = Path(place).stem
    (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(heads, "__path__", [*heads.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"{heads.__name__}.{name}", raising=False)
    own = looprop.load()
    return looprop.load((own.model.bert, own.tokenizer))


def cosine(m: looprop.Workbench, text: str, other: str, gone: int | None = None) -> float:
    """By hand, on transformers' own outputs."""
    mean = []
    for number, one in enumerate((text, other)):
        given = m.tokenizer(one, return_tensors="pt")
        if number == 0 and gone is not None:
            given["attention_mask"][0, gone] = 0
        with torch.no_grad():
            hidden = m.model(**given).last_hidden_state[0]
        mean.append(hidden[given["attention_mask"][0].bool()].mean(0))
    return float(torch.nn.functional.cosine_similarity(mean[0], mean[1], dim=0))


def test_leave_one_out_is_that_of_a_loop(embedder: looprop.Workbench) -> None:
    found = embedder.explain(ITEM, "loo")
    own = cosine(embedder, *ITEM)
    assert found.output == pytest.approx(own, abs=1e-5)
    wanted = [own - cosine(embedder, *ITEM, gone=i) for i in range(len(found))]
    np.testing.assert_allclose(found.scores, wanted, atol=1e-5)


@pytest.mark.parametrize("method", ["attnlrp", "looprop[rows=2]", "rollout", "alone"])
def test_methods_take_it_alone_and_in_a_list(method: str, embedder: looprop.Workbench) -> None:
    items = [ITEM, ("a dull film", "an excellent movie")]
    together = embedder.explain(items, method)
    for item, found in zip(items, together, strict=True):
        np.testing.assert_allclose(found.scores, embedder.explain(item, method).scores, atol=1e-5)


def test_the_how_to_is_one_screen() -> None:
    assert len((ROOT / "docs" / "how-to" / "add-a-head.md").read_text(encoding="utf-8").splitlines()) <= LINES
