"""Measure the cost of `explain` as a user calls it against code that a careful user would write.

    python -m benchmarks.verb --repeats 15            the table, and results/verb.json
    python -m benchmarks.verb --anyway                also on a machine that has other work

By hand: for relevance a forward pass and the gradient at the embeddings, weights frozen, without the tokenizer; for
leave-one-out batched masking at the batch size that is quickest here; for a list the padded batch. All take turns in
one process; given are ratios of medians of CPU time, ours over theirs for relevance, theirs over ours for
leave-one-out. Models: the embedded one, and one of the size of BERT-base with random weights.
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

torch.set_num_threads(1)

import transformers  # noqa: E402

import looprop  # noqa: E402
from benchmarks.common import RESULTS, machine, take_turns, write_json  # noqa: E402
from looprop.workbench import Workbench  # noqa: E402

WORDS = "good bad film not very this that one all story plot actor fun dull love hate".split()
RELEVANCE, LISTED = ("attnlrp", "cp-lrp"), 64
LENGTHS = {"embedded": (8, 16, 64, 128), "BERT-base": (16,)}
SIZES = (4, 8, 16, 32, 64)
LEAST_LOAD = 0.5


def text_of(tokens: int, seed: int = 0) -> str:
    """A text of so many tokens, both ends included; every word is one."""
    dice = torch.Generator().manual_seed(seed)
    return " ".join(WORDS[i] for i in torch.randint(len(WORDS), (tokens - 2,), generator=dice).tolist())


def benches() -> dict[str, Workbench]:
    """The models, with frozen weights."""
    own = looprop.load()
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(own.tokenizer), num_labels=2)
    base = looprop.load((transformers.BertForSequenceClassification(config).eval(), own.tokenizer))
    for bench in (own, base):
        bench.model.requires_grad_(False)
    return {"embedded": own, "BERT-base": base}


def gradient(bench: Workbench, texts: list[str]) -> Callable[[], Any]:
    """Forward and gradient of the predicted class at the embeddings, for one padded batch."""
    model, given = bench.model, bench.tokenizer(texts, return_tensors="pt", padding=True)

    def by_hand() -> Any:
        x = model.get_input_embeddings()(given["input_ids"]).detach().requires_grad_()
        logits = model(inputs_embeds=x, attention_mask=given["attention_mask"]).logits
        (found,) = torch.autograd.grad(logits.max(1).values.sum(), x)
        return (found * x.detach()).sum(-1)

    return by_hand


def masking(bench: Workbench, text: str, size: int) -> Callable[[], Any]:
    """Leave-one-out by the attention mask, so many variants at a time."""
    model, given = bench.model, bench.tokenizer(text, return_tensors="pt")
    ids, count = given["input_ids"], given["input_ids"].shape[1]

    def by_hand() -> Any:
        with torch.inference_mode():
            whole = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
            masks, target, found = 1 - torch.eye(count, dtype=torch.long), int(whole.argmax()), []
            for start in range(0, count, size):
                part = masks[start : start + size]
                found.append(model(input_ids=ids.expand(len(part), -1), attention_mask=part).logits[:, target])
            return whole[target] - torch.cat(found)

    return by_hand


def cells(name: str, bench: Workbench, repeats: int) -> dict[str, dict[str, float]]:
    """Ratios of one model by cell."""
    found: dict[str, dict[str, float]] = {"relevance": {}, "loo": {}}
    for tokens in LENGTHS[name]:
        text = text_of(tokens)
        jobs: dict[str, Callable[[], Any]] = {"by hand": gradient(bench, [text])}
        jobs |= {method: partial(bench.explain, text, method) for method in RELEVANCE}
        for job in jobs.values():  # what is proven of a model once is no part of it
            job(), job(), job()
        times = take_turns(jobs, repeats=repeats)
        for method in RELEVANCE:
            found["relevance"][f"{method}, {tokens} tokens"] = times[method].cpu / times["by hand"].cpu
        jobs = {f"by hand, {size}": masking(bench, text, size) for size in SIZES if size == SIZES[0] or size <= tokens}
        jobs["ours"] = partial(bench.explain, text, "loo")
        for job in jobs.values():
            job()
        times = take_turns(jobs, repeats=max(3, repeats // (1 + tokens // 64)))
        quickest = min(times[own].cpu for own in times if own != "ours")
        found["loo"][f"{tokens} tokens"] = quickest / times["ours"].cpu
        print(name, tokens, {kind: list(own.values())[-1] for kind, own in found.items()}, flush=True)
    texts = [text_of(5 + seed % 25, seed) for seed in range(LISTED)]
    jobs = {"by hand": gradient(bench, texts), "ours": partial(bench.explain, texts, "attnlrp")}
    jobs["ours"](), jobs["ours"]()
    times = take_turns(jobs, repeats=max(3, repeats // 3))
    found["relevance"][f"attnlrp, a list of {LISTED} texts"] = times["ours"].cpu / times["by hand"].cpu
    return found


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verb")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--anyway", action="store_true")
    asked = parser.parse_args()
    if not asked.anyway and os.getloadavg()[0] > LEAST_LOAD:
        raise SystemExit(f"the load is {os.getloadavg()[0]:.2f}: wait until it is below {LEAST_LOAD}, or say --anyway")
    about = machine()
    found = {name: cells(name, bench, asked.repeats) for name, bench in benches().items()}
    write_json(RESULTS / "verb.json", {"machine": about, "repeats": asked.repeats, "ratios": found})
    for name, kinds in found.items():
        for kind, own in kinds.items():
            for cell, ratio in own.items():
                print(f"{name:<10} {kind:<10} {cell:<32} {ratio:.2f}")


if __name__ == "__main__":
    main()
