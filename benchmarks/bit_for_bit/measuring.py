"""Evaluations, audits, saved explanations and the command line."""

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.bit_for_bit.asked import DEMO, EVALUATED, METRICS, REMOVALS, REWRITES, WHOLE_DEMO
from benchmarks.bit_for_bit.explaining import Entries
from benchmarks.bit_for_bit.models import PAIR, TEXTS, bert, llama, others, plain_modules, vit
from benchmarks.bit_for_bit.plain import audited, explained, measured, packed, timeless, without_time


def evaluate_embedded() -> Entries:
    import numpy as np

    import looprop

    m = looprop.load()
    yield "everything", lambda: measured(looprop.evaluate(m, DEMO, EVALUATED, METRICS))
    few_methods = ["loo", "looprop", "attnlrp", "cp-lrp", "random"]
    yield "defaults", lambda: measured(looprop.evaluate(m, DEMO))

    def saved() -> Any:
        result = looprop.evaluate(m, DEMO[:2], few_methods)
        with tempfile.TemporaryDirectory() as place:
            return measured(type(result).load(result.save(f"{place}/kept")))

    yield "saved and loaded", saved
    yield (
        "all of the demo",
        lambda: measured(looprop.evaluate(m, WHOLE_DEMO, ["loo", "cp-lrp", "attnlrp", "random"], METRICS)),
    )
    yield "paper", lambda: measured(looprop.evaluate(m, DEMO, few_methods, METRICS, protocol="paper", yardsticks=True))
    for features in ("word", "chunk:3"):
        yield (
            f"curves {features}",
            lambda features=features: measured(
                looprop.evaluate(m, DEMO[:4], few_methods, METRICS, curve_features=features)
            ),
        )
    for removal in REMOVALS:
        yield (
            f"removal {removal}",
            lambda removal=removal: measured(looprop.evaluate(m, DEMO[:3], few_methods, METRICS, removal=removal)),
        )
    yield (
        "target",
        lambda: measured(looprop.evaluate(m, DEMO[:3], few_methods, METRICS, target=(0, 1), seed=5, confidence=0.9)),
    )
    texts = DEMO[:3]

    def given() -> Any:
        maps = {"mine": [np.linspace(-1, 1, len(m.explain(t, "random"))) for t in texts], "short": [np.ones(2)] * 3}
        return measured(looprop.evaluate(m, texts, ["loo", "cp-lrp"], METRICS, scores=maps))

    yield "given", given


def evaluate_bert() -> Entries:
    import looprop

    m = looprop.load(bert())
    yield "everything", lambda: measured(looprop.evaluate(m, [*TEXTS.values(), PAIR, " "], EVALUATED, METRICS))
    yield (
        "words",
        lambda: measured(
            looprop.evaluate(
                m, list(TEXTS.values()), ["loo", "looprop", "attnlrp", "cp-lrp"], METRICS, curve_features="word"
            )
        ),
    )


def evaluate_llama() -> Entries:
    import looprop

    m = looprop.load(llama())
    texts = [text for name, text in TEXTS.items() if name != "long"]
    yield "everything", lambda: measured(looprop.evaluate(m, texts, EVALUATED, METRICS))
    yield (
        "continuation",
        lambda: measured(
            looprop.evaluate(
                m, texts, ["loo", "looprop", "attnlrp", "cp-lrp", "rollout"], METRICS, target="continuation: good"
            )
        ),
    )


def evaluate_vit() -> Entries:
    import torch

    import looprop

    m = looprop.load(vit())
    draw = torch.Generator().manual_seed(3)
    images = [torch.randn(1, 16, 16, generator=draw) for _ in range(2)]
    for removal in (None, "attention-mask"):
        yield (
            f"removal {removal}",
            lambda removal=removal: measured(looprop.evaluate(m, images, EVALUATED, METRICS, removal=removal)),
        )


def audits() -> Entries:
    import torch

    import looprop

    m = looprop.load()
    yield (
        "embedded",
        lambda: audited(
            looprop.audit(
                m,
                DEMO[:3],
                ["loo", "looprop[rows=2]", "attnlrp", "cp-lrp", "grad-x-input", "rollout", "random"],
                REWRITES,
            )
        ),
    )
    yield (
        "embedded, model precision",
        lambda: audited(looprop.audit(m, DEMO[1:2], ["loo", "cp-lrp"], precision="model", features="word")),
    )
    small = looprop.load(bert())
    texts = [TEXTS["short"], TEXTS["pieces"], TEXTS["one word"]]
    yield "bert", lambda: audited(looprop.audit(small, texts))
    yield (
        "bert, no checks",
        lambda: audited(
            looprop.audit(
                small, texts, ["loo", "attnlrp", "cp-lrp"], ["vo-turned", "norm-split"], checks=False, target=1
            )
        ),
    )

    def saved() -> Any:
        result = looprop.audit(small, texts[:1], ["loo", "cp-lrp"], ["vo-turned"])
        with tempfile.TemporaryDirectory() as place:
            pages = [len(result.save(f"{place}/kept.html").read_text()) > 1000]
            return [audited(type(result).load(result.save(f"{place}/kept.json"))), pages]

    yield "saved and loaded", saved
    decoder = looprop.load(llama())
    yield (
        "llama",
        lambda: audited(looprop.audit(decoder, texts[:2], ["loo", "looprop[rows=2]", "attnlrp", "cp-lrp", "rollout"])),
    )
    more = others()
    for name in ("eager bert", "mean", "gpt2", "modernbert mean"):
        yield (
            name,
            lambda name=name: audited(looprop.audit(looprop.load(more[name]), texts[:2], ["loo", "attnlrp", "cp-lrp"])),
        )
    seeing = looprop.load(vit())
    draw = torch.Generator().manual_seed(3)
    image = torch.randn(1, 16, 16, generator=draw)
    yield "vit", lambda: audited(looprop.audit(seeing, [image], ["loo", "attnlrp", "cp-lrp", "rollout"]))
    x = [torch.randn(3, 6, generator=draw) for _ in range(2)]
    for name, module in plain_modules().items():
        yield (
            f"plain {name}",
            lambda module=module: audited(
                looprop.audit(module, x, ["loo", "attnlrp", "lrp[bilinear=canonical]", "grad-x-input", "ig[steps=5]"])
            ),
        )


def explanations() -> Entries:
    """What explanations do with themselves."""
    import looprop

    m = looprop.load()
    found = without_time(m.explain(DEMO[:3], "cp-lrp"))
    exact = without_time(m.explain(DEMO[:3], "loo"))
    for i, (e, loo) in enumerate(zip(found, exact, strict=True)):
        yield f"{i}/repr", lambda e=e: repr(e)
        yield f"{i}/correlation", lambda e=e, loo=loo: packed([e.correlation(loo), e.words().correlation(loo.words())])
        yield f"{i}/dict", lambda e=e: packed({k: v for k, v in e.to_dict().items() if k != "seconds"})
        yield f"{i}/again", lambda e=e: explained(looprop.Explanation.from_dict(e.to_dict()))
        yield f"{i}/html", lambda e=e: e._repr_html_()

    def saved(e: Any) -> Any:
        with tempfile.TemporaryDirectory() as place:
            html = e.save(f"{place}/kept.html").read_text(encoding="utf-8")
            return [explained(looprop.Explanation.load(e.save(f"{place}/kept.json"))), html]

    yield "saved", lambda: saved(found[0])
    both = looprop.Explanations([*found, *exact])
    yield "html", lambda: both._repr_html_()
    yield "pandas", lambda: both.to_pandas().to_csv(float_format="%r")
    yield (
        "labels",
        lambda: packed([m.labels, looprop.load(bert()).labels, sorted(looprop.__all__), looprop.__version__]),
    )


def command_line() -> Entries:
    """`python -m looprop`: what it prints, times left out."""
    text = DEMO[1]
    asked = [
        ["--help"],
        ["methods"],
        ["methods", "--json"],
        ["explain", "--help"],
        ["evaluate", "--help"],
        ["audit", "--help"],
        ["reproduce", "--help"],
        ["explain", text, "-m", "looprop", "-m", "cp-lrp", "-m", "attnlrp", "--no-color"],
        ["explain", text, "-m", "cp-lrp", "--json", "--features", "word"],
        ["evaluate", "demo", "--limit", "3", "--json"],
        ["audit", "--json", "--limit", "1", "-m", "loo", "-m", "cp-lrp", "demo"],
        ["explain", text, "-m", "cp-lpr"],
    ]

    def run(arguments: list[str]) -> Any:
        environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "looprop", *arguments], capture_output=True, text=True, env=environment, check=False
        )
        out: Any = done.stdout
        if "--json" in arguments and done.returncode == 0:
            out = timeless(json.loads(out))
        return packed({"code": done.returncode, "out": out, "said": done.stderr})

    for arguments in asked:
        yield " ".join(arguments), lambda arguments=arguments: run(arguments)
