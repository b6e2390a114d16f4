"""Answers of language models, matrices, pairs, checks, every method, every head, lists of short texts."""

from typing import Any

from benchmarks.bit_for_bit.asked import BARE, CATALOGUE, DEMO, WHOLE_DEMO, Asked, asked_name
from benchmarks.bit_for_bit.explaining import Entries, over
from benchmarks.bit_for_bit.heads import TEXT, decoder, images_and_sounds, texts
from benchmarks.bit_for_bit.models import PAIR, TEXTS, bert, llama, stirred, vit
from benchmarks.bit_for_bit.plain import explained, packed, timeless

PROMPT = "the film is good. It was not bad! Is it?"
DOCUMENTS = {"one": "the film is bad. Very bad.", "two": "a good movie."}


def catalogue() -> Entries:
    """Every method of `looprop methods`, with the options that the other sections leave out."""
    import torch

    import looprop

    embedded = looprop.load()
    yield from over(embedded, {text: text for text in (DEMO[1], DEMO[5])}, CATALOGUE, [{"features": "token"}])
    image = torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(3))
    kinds = {
        "bert": (bert(), {"short": TEXTS["short"], "pieces": TEXTS["pieces"], "pair": PAIR}, "word"),
        "llama": (llama(), {"short": TEXTS["short"], "pieces": TEXTS["pieces"]}, "word"),
        "vit": (vit(), {"image": image}, "chunk:3"),
    }
    for name, (pair, items, features) in kinds.items():
        for label, run in over(looprop.load(pair), items, CATALOGUE, [{}, {"features": features}]):
            yield f"{name}/{label}", run


def heads() -> Entries:
    """Every other head: all methods with the default target, a few with other targets and removals."""
    import looprop

    few: list[Asked] = [("loo", {}), ("loo", {"removal": "delete"}), ("looprop", {}), ("attnlrp", {})]
    for name, (build, tokenizer, items, targets) in {**texts(), **images_and_sounds()}.items():
        m = looprop.load((stirred(build), tokenizer))
        numbered = {f"input {i}": item for i, item in enumerate(items)}
        for label, run in over(m, numbered, [*BARE, *CATALOGUE], [{}]):
            yield f"{name}/{label}", run
        kinds = [{"target": target} for target in targets[1:]] + [{"features": "word"}, {"features": "chunk:3"}]
        for label, run in over(m, numbered, few, kinds):
            yield f"{name}/{label}", run
        if len(items) > 1:
            for method in ("loo", "looprop", "attnlrp"):
                yield (
                    f"{name}/batch/{method}",
                    lambda m=m, items=items, method=method: [explained(e) for e in m.explain(items, method)],
                )


def answers() -> Entries:
    """Answers and what explains them: sentences, words, turns, documents, parts, coarse to fine, removing again."""
    import looprop

    for name, chat in (("chat", True), ("plain", False)):
        m = looprop.load(decoder(chat=chat))
        made = {
            "generated": m.answer(PROMPT, system="be kind" if chat else None, max_new_tokens=5),
            "given": m.answer(PROMPT, answer=" very good film"),
            "part": m.answer(PROMPT, answer=" very good film")["6:"],
            "documents": m.context(DOCUMENTS, "is it good?", max_new_tokens=4),
        }
        for kind, answer in made.items():
            yield f"{name}/{kind}/answer", lambda answer=answer: packed(answer.to_dict())
            forms = [{}, {"features": "sentence"}, {"features": "word"}, {"within": "all", "features": "token"}]
            for label, run in over(m, {kind: answer}, BARE, forms):
                yield f"{name}/{label}", run
            yield f"{name}/{kind}/without", lambda answer=answer: packed(answer.without(0).to_dict())
            for given in ({}, {"levels": ["sentence", "token"]}, {"budget": 6}):
                yield (
                    f"{name}/{kind}/coarse to fine {given}",
                    lambda m=m, answer=answer, given=given: explained(m.coarse_to_fine(answer, **given)),
                )
            yield (
                f"{name}/{kind}/estimates",
                lambda m=m, answer=answer: packed(
                    [m.estimate(answer, method).passes for method in ("loo", "looprop", "ig", "shapley", "cp-lrp")]
                ),
            )
        yield f"{name}/generate", lambda m=m: packed([m.generate("the film is", 5), m.chat("is it?")])
    seq = looprop.load((stirred(texts()["t5"][0]), texts()["t5"][1]))
    answer = seq.answer(TEXT, max_new_tokens=3)
    yield "t5/answer", lambda: packed(answer.to_dict())
    for label, run in over(seq, {"t5": answer}, BARE, [{"features": "word"}]):
        yield f"t5/{label}", run
    m = looprop.load()
    yield "text/coarse to fine", lambda: explained(m.coarse_to_fine(" ".join(WHOLE_DEMO[:4]), share=0.2))


def matrices() -> Entries:
    """`output="each"`: every token of an answer by itself."""
    import looprop

    m = looprop.load(decoder())
    answer = m.answer(PROMPT, system="be kind", max_new_tokens=4)
    asked = {"answer": (answer, {}), "continuation": (PROMPT, {"target": "continuation: good fun"})}
    for name, (item, more) in asked.items():
        for method, options in [*BARE, *CATALOGUE]:
            for features in (None, "word"):
                given = {**more, **options, **({"features": features} if features else {})}

                def run(item: Any = item, method: str = method, given: Any = given) -> Any:
                    found = m.explain(item, method, output="each", **given)
                    return {**timeless(packed(found)), "third": explained(found[0])}

                yield f"{name} [{features}]/{asked_name(method, options)}", run


def pairs() -> Entries:
    """`m.interactions`: what pairs of features do that their parts do not."""
    import torch

    import looprop

    image = torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(3))
    small = looprop.load(decoder())
    asked: dict[str, tuple[Any, Any]] = {
        "embedded": (looprop.load(), DEMO[1]),
        "bert": (looprop.load(bert()), TEXTS["pieces"]),
        "bert, pair": (looprop.load(bert()), PAIR),
        "llama": (looprop.load(llama()), TEXTS["short"]),
        "vit": (looprop.load(vit()), image),
        "answer": (small, small.answer(PROMPT, answer=" very good")),
    }
    forms: list[dict[str, Any]] = [{}, {"most": 7}, {"removal": "delete"}, {"keep": "none"}, {"features": "chunk:2"}]
    for name, (m, item) in asked.items():
        for given in forms:
            yield f"{name}/{given}", lambda m=m, item=item, given=given: timeless(packed(m.interactions(item, **given)))
    yield "target", lambda: timeless(packed(looprop.load().interactions(DEMO[4], target=(0, 1))))


def checks() -> Entries:
    """`check=`: true values of some features beside the scores."""
    import looprop

    methods: list[Asked] = [("loo", {}), ("looprop", {}), ("looprop", {"rows": 0}), ("looprop", {"budget": 6})]
    methods += [("attnlrp", {}), ("cp-lrp", {}), ("rollout", {}), ("random", {}), ("shapley", {}), ("both-ends", {})]
    for name, m, items in (
        ("embedded", looprop.load(), DEMO),
        ("bert", looprop.load(bert()), [TEXTS["long"], TEXTS["short"], PAIR]),
        ("llama", looprop.load(llama()), [TEXTS["pieces"]]),
    ):
        for method, options in methods:
            for count in (4, 8):
                yield (
                    f"{name}/{asked_name(method, options)}, check={count}",
                    lambda m=m, items=items, method=method, options=options, count=count: [
                        explained(e) for e in m.explain(items, method, check=count, **options)
                    ],
                )


def packed_lists() -> Entries:
    """Lists of short texts, which may be computed side by side."""
    import looprop

    short = [*TEXTS.values(), "good", "bad", "the film", PAIR, "was it great fun ?"]
    decoders = [text for text in short if isinstance(text, str)]
    for name, m, items in (
        ("embedded", looprop.load(), WHOLE_DEMO),
        ("bert", looprop.load(bert()), short),
        ("llama", looprop.load(llama()), decoders),
    ):
        for method, options in (("loo", {}), ("looprop", {}), ("attnlrp", {}), ("loo", {"removal": "delete"})):
            for features in ("token", "word"):
                yield (
                    f"{name} [{features}]/{asked_name(method, options)}",
                    lambda m=m, items=items, method=method, options=options, features=features: [
                        explained(e) for e in m.explain(items, method, features=features, **options)
                    ],
                )
