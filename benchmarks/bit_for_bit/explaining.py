"""Explanations by every method, on every kind of model."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.bit_for_bit.asked import DEMO, REMOVALS, Asked, asked_name, few, methods
from benchmarks.bit_for_bit.models import PAIR, TEXTS, bert, llama, others, vit
from benchmarks.bit_for_bit.plain import explained, packed

Entries = Iterator[tuple[str, Callable[[], Any]]]


def over(m: Any, items: Mapping[str, Any], asked: list[Asked], kinds: list[dict[str, Any]]) -> Entries:
    """Every item under every method; kinds: features and targets."""
    for name, item in items.items():
        for kind in kinds:
            for method, options in asked:
                given = {k: v[1] if isinstance(v, tuple) else v for k, v in options.items()}
                label = ", ".join(f"{k}={v}" for k, v in kind.items())
                yield (
                    f"{name} [{label}]/{asked_name(method, options)}",
                    lambda item=item, method=method, kind=kind, given=given: explained(
                        m.explain(item, method, **kind, **given)
                    ),
                )


def batches(m: Any, items: list[Any], targets: list[Any]) -> Entries:
    """Several inputs in one call, and several targets of one input."""
    for method, options in few():
        if method != "random":
            yield (
                f"batch/{asked_name(method, options)}",
                lambda a=method, o=options: [explained(e) for e in m.explain(items, a, **o)],
            )
            yield (
                f"targets/{asked_name(method, options)}",
                lambda a=method, o=options: [explained(e) for e in m.explain(items[0], a, target=targets, **o)],
            )


def set_functions(m: Any, items: Mapping[str, Any]) -> Entries:
    """The set function itself, on drawn subsets."""
    import numpy as np

    def values(item: Any, count: int, **given: Any) -> Any:
        keep = np.random.default_rng(0).random((24, count)) < 0.6
        keep[:, 0] |= ~keep.any(1)
        return m.set_function(item, **given)(keep)

    for name, item in items.items():
        for removal in (None, *REMOVALS):
            for precision in ("float32", "bfloat16"):
                given = {"removal": removal, "precision": precision}

                def run(item: Any = item, given: Any = given) -> Any:
                    return values(item, len(m.explain(item, "random")), **given)

                yield f"{name}/set function, {removal}, {precision}", lambda run=run: packed(run())


TOKENS = [{"features": "token"}, {"features": "word"}, {"features": "chunk:3"}]


def explain_embedded() -> Entries:
    import looprop

    m = looprop.load()
    texts = {text: text for text in DEMO}
    yield from over(m, texts, methods(), TOKENS[:1])
    yield from over(
        m,
        dict(list(texts.items())[1:4]),
        few(),
        [*TOKENS[1:], {"target": 0}, {"target": "negative"}, {"target": (0, 1)}, {"target": 5}],
    )
    yield from batches(m, DEMO, [None, 0, 1, (1, 0)])
    yield from set_functions(m, {DEMO[1]: DEMO[1], DEMO[5]: DEMO[5]})


def explain_bert() -> Entries:
    import looprop

    m = looprop.load(bert())
    yield from over(m, {**TEXTS, "pair": PAIR}, methods(), TOKENS)
    own = [[0], [1, 2], [3], [4, 5, 6]]
    yield from over(
        m,
        {"short": TEXTS["short"]},
        few(),
        [{"target": t} for t in (0, 1, 2, "neutral", (2, 0))] + [{"features": own}, {"features": own[:2]}],
    )
    yield from over(m, {"empty": " ", "too long": TEXTS["long"] * 4}, few()[:1], [{}, {"truncation": True}])
    yield from batches(m, [TEXTS["short"], *TEXTS.values(), PAIR], [0, 1, 2, (0, 1)])
    yield from set_functions(m, {"pieces": TEXTS["pieces"]})


def explain_llama() -> Entries:
    import looprop

    m = looprop.load(llama())
    texts = {k: v for k, v in TEXTS.items() if k != "long"}
    yield from over(
        m,
        {"short": texts["short"], "pieces": texts["pieces"]},
        methods(),
        [{"target": t} for t in (None, " good", (" good", " bad"), "continuation: bad good")],
    )
    yield from over(
        m,
        texts,
        few(),
        [*TOKENS[1:], {"target": 7}, {"target": (7, 9)}, {"target": " unheard"}, {"target": "continuation:"}],
    )
    yield from over(m, {"short": texts["short"]}, few(), [{"target": "continuation: not good", "features": "word"}])
    yield from batches(m, list(texts.values()), [None, 7, (7, 9)])
    yield from set_functions(m, {"short": texts["short"]})


def explain_vit() -> Entries:
    import torch

    import looprop

    m = looprop.load(vit())
    draw = torch.Generator().manual_seed(3)
    images = {f"image {i}": torch.randn(1, 16, 16, generator=draw) for i in range(3)}
    yield from over(m, images, methods(), [{"features": "patch"}])
    yield from over(
        m,
        {"image 0": images["image 0"]},
        few(),
        [{"features": "chunk:3"}, {"features": "word"}, {"target": 1}, {"target": (2, 0)}],
    )
    yield from batches(m, list(images.values()), [0, 1, 2])
    yield from set_functions(m, {"image 1": images["image 1"]})


def explain_others() -> Entries:
    import looprop

    texts = {"pieces": TEXTS["pieces"], "long": TEXTS["long"][:60]}
    for name, pair in others().items():
        m = looprop.load(pair)
        for label, run in over(m, texts, few(), TOKENS[:2]):
            yield f"{name}/{label}", run
        for label, run in batches(m, list(TEXTS.values())[:3], [0, 1]):
            yield f"{name}/{label}", run
