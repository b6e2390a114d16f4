"""What leave-one-out and removal curves cost through the set function, beside the straightforward ways.

Random models: BERT-base, and a Llama of 12 layers, 512 wide; the curves of five methods on the embedded sentiment
model. Rivals are a batched loop over attention masks and captum's FeatureAblation, each at its best batch size. All
take turns; given are medians of the CPU time of the process per variant, with wall time beside it, on a fixed sample of
variants.

    python -m benchmarks.set_function --threads 2 --repeats 5
    python -m benchmarks.set_function --quick            # tiny models: does it run?

Ratios are times of the best rival over times of the set function; bars are the least they should be.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would count as CPU time

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

from benchmarks.common import RESULTS, Times, machine, take_turns, write_json
from benchmarks.rivals import Bools, batched_loop, captum_ablation, masked_forward
from looprop.inputs import demo_sentences
from looprop.methods.registry import make_method
from looprop.metrics import required_states
from looprop.metrics.correlation import pearson
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded, partition
from looprop.models.heads.causal_lm import CausalLanguageModel
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, bind, new_subject
from looprop.models.target import Target
from looprop.removal.value import SetFunction
from looprop.workbench import load

OURS = "set function"
METHODS = ("loo", "ig", "rollout", "attnlrp", "cp-lrp")
BATCHES = (1, 2, 4, 8, 16, 32, 64)
Row = dict[str, Any]


class Sizes:
    """How large everything is: as in the issue, or tiny."""

    def __init__(self, *, quick: bool) -> None:
        self.layers, self.width, self.decoder_width = (2, 64, 64) if quick else (12, 768, 512)
        self.tokens = {16: (16, 0.0), 32: (16, 0.0)} if quick else {32: (32, 0.95), 128: (48, 1.1), 512: (32, 0.95)}
        self.curve_tokens, self.chunked_tokens, self.decoder_tokens = (32, 64, 32) if quick else (128, 512, 256)
        self.sentences = 2 if quick else 12

    def bert(self) -> Any:
        """A random BERT classifier."""
        torch.manual_seed(0)
        size = {"num_hidden_layers": self.layers, "hidden_size": self.width, "num_attention_heads": self.width // 64}
        config = transformers.BertConfig(**size, intermediate_size=4 * self.width, vocab_size=30522, num_labels=2)
        return transformers.BertForSequenceClassification(config).eval()

    def llama(self) -> Any:
        """A random Llama."""
        torch.manual_seed(0)
        size = {
            "num_hidden_layers": self.layers,
            "hidden_size": self.decoder_width,
            "num_attention_heads": self.decoder_width // 64,
        }
        config = transformers.LlamaConfig(**size, intermediate_size=self.decoder_width * 11 // 4, vocab_size=32000)
        return transformers.LlamaForCausalLM(config).eval()


def subject_of(adapter: Adapter, ids: Tensor, features: str = "token") -> Subject:
    """A fresh subject, which knows nothing yet."""
    nothing, flags = (None,) * ids.shape[1], (False,) * ids.shape[1]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    encoded = Encoded(inputs, tuple(map(str, range(ids.shape[1]))), "", nothing, flags, nothing)
    return new_subject(adapter, encoded, Target((1,), "1"), partition(encoded, features))


def random_ids(tokens: int) -> Tensor:
    """A text."""
    return torch.randint(1000, 30000, (1, tokens), generator=torch.Generator().manual_seed(tokens))


def on_tokens(subject: Subject, keep: Bools) -> Bools:
    """Kept positions from kept features."""
    tokens = np.ones((len(keep), len(subject.encoded)), dtype=bool)
    for feature, positions in enumerate(subject.features):
        tokens[:, list(positions)] &= keep[:, feature, None]
    return tokens


def random_curves(count: int, steps: int) -> Bools:
    """Evenly chosen steps of MoRF and LeRF for random scores."""
    keep = required_states(["morf", "lerf"], np.random.default_rng(0).normal(size=count)).keep
    chosen: Bools = keep[np.unique(np.linspace(0, len(keep) - 1, steps).round().astype(int))]
    return chosen


def best_batch(run: Callable[[int], object], tokens: int, variants: int) -> int:
    """The batch size at which a rival is quickest per variant, from two turns of all that hold up to 4096 positions."""
    sizes = [size for size in BATCHES if size <= variants and (size == 1 or size * tokens <= 4096)]
    times = take_turns({str(size): lambda size=size: run(size) for size in sizes}, repeats=2, warm_up=False)  # type: ignore[misc]
    return int(min(times, key=lambda name: times[name].cpu))


def compare(title: str, bar: float, times: dict[str, Times], error: float, **more: Any) -> Row:
    """One row: times per variant, ratios of the rivals to ours, the largest difference between their answers."""
    ratios = {
        name: {"cpu": of.cpu / times[OURS].cpu, "wall": of.wall / times[OURS].wall}
        for name, of in times.items()
        if name != OURS
    }
    least = min(ratio["cpu"] for ratio in ratios.values())
    row = {"title": title, "bar": bar, "least_ratio": least, "met": least >= bar, "largest_difference": error, **more}
    row |= {"milliseconds_per_variant": {name: asdict(of / 1e-3) for name, of in times.items()}, "ratios": ratios}
    answers = "  ".join(f"{name} {1e3 * of.cpu:.1f} ({1e3 * of.wall:.1f})" for name, of in times.items())
    print(
        f"{title}: {least:.2f} times, bar {bar}  |  ms per variant, CPU (wall): {answers}  |  difference {error:.1e}",
        flush=True,
    )
    return row


def loo(sizes: Sizes, repeats: int) -> list[Row]:
    """Leave-one-out on BERT against both rivals; also how far the arithmetic is from a plain matrix product."""
    model, rows = sizes.bert(), []
    adapter = TextClassifier(model, lambda text: text)
    for tokens, (count, bar) in sizes.tokens.items():
        ids = random_ids(tokens)
        positions = sorted({round(p) for p in np.linspace(0, tokens - 1, count)})
        keep = ~np.eye(tokens, dtype=bool)[positions]
        forward = masked_forward(model, ids)
        part = keep[: max(8, 4096 // tokens)]
        loop_size = best_batch(lambda size: batched_loop(forward, part, size), tokens, len(part))  # noqa: B023
        jobs: dict[str, Callable[[], Any]] = {
            OURS: lambda: SetFunction(subject_of(adapter, ids))(keep),  # noqa: B023
            "loop": lambda: batched_loop(forward, keep, loop_size),  # noqa: B023
        }
        counts, chosen = {OURS: len(keep), "loop": len(keep)}, {"loop": loop_size}
        try:
            few = positions[: len(part)]
            size = best_batch(lambda size: captum_ablation(forward, few, tokens, size)[0](), tokens, len(part))  # noqa: B023
            jobs["captum"], counts["captum"] = captum_ablation(forward, positions, tokens, size)
            chosen["captum"] = size
        except ImportError:
            print("captum is not installed: pip install captum", flush=True)
        error = float(np.abs(jobs[OURS]() - jobs["loop"]().numpy()).max())
        times = {name: of / counts[name] for name, of in take_turns(jobs, repeats=repeats).items()}
        ours = arithmetic(sizes, tokens) / times[OURS].wall
        more = {
            "way": SetFunction(subject_of(adapter, ids)).way,
            "batch": chosen,
            "gflops": ours,
            "gflops_limit": limit(sizes),
        }
        rows.append(compare(f"loo, {tokens} tokens", bar, times, error, **more))
        print(
            f"    {ours:.0f} GFLOP/s of plain masking's arithmetic; plain matrix products reach "
            f"{rows[-1]['gflops_limit']:.0f}",
            flush=True,
        )
    return rows


def arithmetic(sizes: Sizes, tokens: int) -> float:
    """10^9 floating-point operations of one masked variant: linear layers and attention of all rows."""
    per_layer = 2 * tokens * 12 * sizes.width**2 + 4 * tokens**2 * sizes.width
    return sizes.layers * per_layer / 1e9


def limit(sizes: Sizes) -> float:
    """GFLOP/s by wall time of plain matrix products of BERT's shapes, 1024 rows at once."""
    width, rows = sizes.width, 1024
    shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    pairs = [(torch.randn(rows, inner), torch.randn(inner, outer)) for inner, outer in shapes]
    with torch.inference_mode():
        seconds = take_turns({"products": lambda: [left @ right for left, right in pairs]}, repeats=15)["products"].wall
    return sum(2 * rows * inner * outer for inner, outer in shapes) / seconds / 1e9


def curves(sizes: Sizes, repeats: int) -> list[Row]:
    """MoRF and LeRF on BERT: single tokens, and chunks of 16."""
    model, rows = sizes.bert(), []
    adapter = TextClassifier(model, lambda text: text)
    for tokens, features in ((sizes.curve_tokens, "token"), (sizes.chunked_tokens, "chunk:16")):
        ids = random_ids(tokens)
        subject = subject_of(adapter, ids, features)
        keep = random_curves(len(subject.features), 64)
        rows.append(
            _against_loop(f"MoRF + LeRF, {tokens} tokens by {features}", 1.8, adapter, ids, features, keep, repeats)
        )
    return rows


def decoder(sizes: Sizes, repeats: int) -> list[Row]:
    """Leave-one-out on a Llama: everything before the removed token is shared."""
    ids, adapter = random_ids(sizes.decoder_tokens), CausalLanguageModel(sizes.llama(), lambda text: text)
    positions = sorted({round(p) for p in np.linspace(0, sizes.decoder_tokens - 1, 64)})
    keep = ~np.eye(sizes.decoder_tokens, dtype=bool)[positions]
    return [_against_loop(f"loo, Llama, {sizes.decoder_tokens} tokens", 1.6, adapter, ids, "token", keep, repeats)]


def _against_loop(
    title: str, bar: float, adapter: Adapter, ids: Tensor, features: str, keep: Bools, repeats: int
) -> Row:
    forward = masked_forward(adapter.model, ids, causal=adapter.causal)
    masks = on_tokens(subject_of(adapter, ids, features), keep)
    part = masks[: max(8, 4096 // ids.shape[1])]
    size = best_batch(lambda size: batched_loop(forward, part, size), ids.shape[1], len(part))
    jobs: dict[str, Callable[[], Any]] = {
        OURS: lambda: SetFunction(subject_of(adapter, ids, features))(keep),
        "loop": lambda: batched_loop(forward, masks, size),
    }
    error = float(np.abs(jobs[OURS]() - jobs["loop"]().numpy()).max())
    times = {name: of / len(keep) for name, of in take_turns(jobs, repeats=repeats).items()}
    return compare(
        title, bar, times, error, way=SetFunction(subject_of(adapter, ids, features)).way, batch={"loop": size}
    )


def five_methods(sizes: Sizes, repeats: int) -> list[Row]:
    """MoRF and LeRF of five methods on the embedded model: what two methods share is computed once."""
    adapter = load(None).adapter
    subjects = [bind(adapter, example.text) for example in list(demo_sentences())[: sizes.sentences]]
    methods = [make_method(name) for name in METHODS]
    states = [
        [required_states(["morf", "lerf"], method.attribute([s])[0].scores).keep for method in methods]
        for s in subjects
    ]
    forwards = [masked_forward(adapter.model, s.encoded.inputs["input_ids"]) for s in subjects]
    subjects = [new_subject(s.adapter, s.encoded, Target((1,), "1"), s.features) for s in subjects]

    def loop(size: int) -> list[Tensor]:
        return [batched_loop(forward, keep, size) for forward, of in zip(forwards, states, strict=True) for keep in of]

    def ours() -> list[Any]:
        fresh = [new_subject(s.adapter, s.encoded, s.target, s.features) for s in subjects]
        return [SetFunction(s)(np.concatenate(of)) for s, of in zip(fresh, states, strict=True)]

    size = best_batch(loop, 1, max(BATCHES))
    error = float(np.abs(np.concatenate(ours()) - torch.cat(loop(size)).numpy()).max())
    count = sum(len(keep) for of in states for keep in of)
    times = {
        name: of / count for name, of in take_turns({OURS: ours, "loop": lambda: loop(size)}, repeats=repeats).items()
    }
    distinct = sum(len({row.tobytes() for keep in of for row in keep}) for of in states)
    title = f"MoRF + LeRF of {len(METHODS)} methods, embedded model"
    return [compare(title, 2.0, times, error, batch={"loop": size}, variants=count, distinct=distinct)]


def precision(sizes: Sizes, repeats: int) -> list[Row]:
    """bfloat16: what it does to leave-one-out, and to its time."""
    ids, adapter = random_ids(sizes.curve_tokens), TextClassifier(sizes.bert(), lambda text: text)
    keep = ~np.eye(sizes.curve_tokens, dtype=bool)[:48]
    jobs = {
        "float32": lambda: SetFunction(subject_of(adapter, ids), precision="float32")(keep),
        "bfloat16": lambda: SetFunction(subject_of(adapter, ids), precision="bfloat16")(keep),
    }
    r = pearson(jobs["bfloat16"](), jobs["float32"]())
    times = take_turns(jobs, repeats=repeats)
    ratio = times["float32"].cpu / times["bfloat16"].cpu
    print(f"bfloat16: r of LOO to float32 {r:.5f}, {ratio:.2f} times as fast", flush=True)
    return [
        {
            "title": "bfloat16",
            "loo_r_to_float32": r,
            "speed": ratio,
            "seconds": {name: asdict(of) for name, of in times.items()},
        }
    ]


PARTS = {"loo": loo, "curves": curves, "decoder": decoder, "five-methods": five_methods, "precision": precision}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write JSON; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="tiny models, one repeat: does it run?")
    parser.add_argument("--output", type=Path, default=RESULTS / "set_function.json")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    sizes = Sizes(quick=given.quick)
    rows = [row for part in given.only for row in PARTS[part](sizes, 1 if given.quick else given.repeats)]
    missed = [row["title"] for row in rows if not row.get("met", True)]
    write_json(given.output, {**machine(), "repeats": given.repeats, "quick": given.quick, "rows": rows})
    print(f"{'below the bar: ' + ', '.join(missed) if missed else 'all bars met'}; written to {given.output}")
    return int(bool(missed) and not given.quick)


if __name__ == "__main__":
    sys.exit(main())
