"""Every head by plain load: values are the model's own, leave-one-out is the naive loop, the gradient is autograd's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import looprop
from looprop.errors import InputError, RuleError
from looprop.methods.registry import CATALOGUE
from models.naive_heads import ids_of, leave_out, target_of, value
from tiny import wordpiece
from tiny_heads import MASKED, TAGGERS, TEXTS, TWO_STACKS, bench, model_of, text_of

each = pytest.mark.parametrize("name", TEXTS)
pytestmark = pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")


def close(found: Any, wanted: Any, rounding: float = 1e-8) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rounding * max(1.0, float(np.abs(wanted).max())))


@each
@pytest.mark.parametrize("length", [6, 12, 33, 70])
def test_leave_one_out_is_the_naive_loop(name: str, length: int) -> None:
    item, own = text_of(name, length), bench(name)
    ids = ids_of(own, item)
    assert ids.shape[1] == length
    e = own.explain(item, "loo", target=target_of(name, length))
    with torch.no_grad():
        assert e.output == pytest.approx(float(value(name, own, ids, torch.ones_like(ids))), rel=1e-9)
    close(e.scores, leave_out(name, own, item, [[i] for i in range(length)]))
    assert np.abs(e.scores).max() > 1e-6


@each
def test_groups_of_features_are_left_out_together(name: str) -> None:
    item, own, length = text_of(name, 14), bench(name), 14
    groups = [[0, 13], [1, 2, 3], [4, 5, 6, 7, 8], [9, 10, 11, 12]]
    target = target_of(name, length)
    close(own.explain(item, "loo", target=target, features=groups).scores, leave_out(name, own, item, groups))
    chunks = [list(range(i, min(i + 3, length))) for i in range(0, length, 3)]
    close(own.explain(item, "loo", target=target, features="chunk:3").scores, leave_out(name, own, item, chunks))
    words = own.explain(item, "loo", target=target, features="word")
    close(words.scores, leave_out(name, own, item, [[i] for i in range(length)]))  # here every token is a word


@each
def test_what_is_removed_is_not_read(name: str) -> None:
    """Another token in the place of the removed one changes nothing: no attention, crossed or not, has seen it."""
    own, length, place = bench(name), 12, 9
    item = text_of(name, length)
    texts = list(item) if isinstance(item, tuple) else [item]
    other = texts[-1].split(" ")
    inside = place - (length - 1 - len(other))
    other[inside] = "z" if other[inside] != "z" else "q"
    changed: Any = (*texts[:-1], " ".join(other)) if len(texts) > 1 else " ".join(other)
    target = target_of(name, length) if name not in ("bert-qa", "distilbert-qa", "big_bird-qa") else (7, 8)
    keep = np.ones((1, length), dtype=bool)
    keep[0, place] = False
    one, two = (own.set_function(text, target=target)(keep)[0] for text in (item, changed))
    assert one == pytest.approx(two, rel=1e-9)


@each
def test_the_gradient_is_autograds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own, item = bench(name), text_of(name, 12)
    e = own.explain(item, "grad-x-input", target=target_of(name, 12))
    ids, found, plain = ids_of(own, item), [], functional.embedding

    def first_is_a_leaf(places: Any, table: Any, *rest: Any, **more: Any) -> Any:
        out = plain(places, table, *rest, **more)
        if found or places.shape != ids.shape or not torch.equal(places, ids):
            return out.detach()
        found.append(out.detach().requires_grad_())
        return found[0].clone()

    monkeypatch.setattr(functional, "embedding", first_is_a_leaf)
    (gradient,) = torch.autograd.grad(value(name, own, ids, torch.ones_like(ids)), found)
    close(e.scores, (found[0] * gradient).sum(-1).detach()[0].numpy())


@each
@pytest.mark.parametrize("method", [about.example or about.name for about in CATALOGUE.values()])
def test_every_method_answers_or_refuses_by_name(name: str, method: str) -> None:
    own, items = bench(name), [text_of(name, length) for length in (9, 14, 9)]
    try:
        together = own.explain(items, method)
    except (InputError, RuleError):
        with pytest.raises((InputError, RuleError), match=r"encoder-decoder|no relevance rule"):
            own.explain(items[0], method)
        return
    for item, e in zip(items, together, strict=True):
        alone = own.explain(item, method)
        assert (e.target, e.features) == (alone.target, alone.features)
        close(e.scores, alone.scores)
        assert np.isfinite(e.scores).all()


@pytest.mark.parametrize("name", TWO_STACKS)
@pytest.mark.parametrize(
    "method", ["rollout", "looprop", "generic-attention", "attention-norm", "value-zeroing", "pa-lrp", "libragrad"]
)
def test_what_chains_rows_is_refused_for_two_stacks(name: str, method: str) -> None:
    with pytest.raises(InputError, match=f"{method} has no meaning for an encoder-decoder"):
        bench(name).explain(text_of(name, 9), method)


@pytest.mark.parametrize("name", ["t5", "bart", "gemma3", "bert-generation", "bert-mlm", "bert-ner", "bert-qa"])
def test_from_a_folder(name: str, tmp_path: Path) -> None:
    model, tokenizer = model_of(name, torch.float32), wordpiece()
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path)
    loaded, ready, item = looprop.load(tmp_path), looprop.load((model, tokenizer)), text_of(name, 12)
    assert type(loaded.adapter) is type(ready.adapter)
    for method in ("loo", "grad-x-input"):
        one, two = (m.explain(item, method) for m in (loaded, ready))
        assert one.target == two.target
        close(one.scores, two.scores, 1e-4)


@pytest.mark.parametrize("name", [*MASKED, *TAGGERS, "bert-qa"])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_all_exact_rows_are_leave_one_out(name: str, place: str) -> None:
    """Wherever in the text the answer is read."""
    own, length = bench(name), 13
    item: Any = text_of(name, length)
    position = {"first": 1, "middle": 6, "last": length - 2}[place]
    target: Any = (position, 1)
    if name in MASKED:
        tokens = item.replace("[MASK]", "k").split(" ")
        tokens[position - 1] = "[MASK]"
        item, target = " ".join(tokens), 17
    elif name == "bert-qa":
        target = ("start", position)
    exact = own.explain(item, "looprop", target=target, rows="all")
    close(exact.scores, own.explain(item, "loo", target=target).scores)


@pytest.mark.parametrize("name", ["t5", "bart", "bert-mlm", "bert-ner", "bert-qa"])
def test_in_an_evaluation(name: str) -> None:
    found = looprop.evaluate(bench(name), [text_of(name, 9), text_of(name, 12)], methods=["loo", "attnlrp", "random"])
    for method in ("loo", "attnlrp", "random"):
        assert found[method].errors == 0
        assert all(metric.undefined == 0 for metric in found[method].metrics.values())
