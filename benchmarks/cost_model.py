"""What a study costs: forward passes, floating-point operations and memory per example, and GPU-hours, from sizes and
measured rates.

passes  = n (leave-one-out) + 2 (F - 1) per method (MoRF and LeRF of F features) + steps per gradient method
flops   = passes * (2 P n + 4 L n^2 d)          P parameters of the layers, L layers of width d, n tokens
seconds = flops / (share * rate)                share: of plain masking's operations that the set function still does

python -m benchmarks.cost_model                  # measures this machine, writes benchmarks/results/cost_model.json
python -m benchmarks.cost_model --only study     # the paper's study from what was measured before
"""

import argparse
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, machine, write_json

OUTPUT = RESULTS / "cost_model.json"
GRADIENT_PASSES = 3  # forward, and a backward pass of twice its operations
IG_STEPS = 50


@dataclass(frozen=True)
class Size:
    """A Transformer: layers, width, width inside its feed-forward layers, how many matrices those have, parameters of
    embeddings.
    """

    layers: int
    width: int
    inner: int
    matrices: int = 2
    embedding: int = 0

    @property
    def parameters(self) -> int:
        """Of the layers."""
        return self.layers * (4 * self.width**2 + self.matrices * self.width * self.inner)

    def flops(self, tokens: float) -> float:
        """Of one forward pass over one input."""
        return 2 * self.parameters * tokens + 4 * self.layers * self.width * tokens**2

    def gigabytes(self, positions: int, *, element: int = 4) -> float:
        """Weights, and what a batch of so many positions holds at once (see `looprop.running.ray.workers`)."""
        return element * (self.parameters + self.embedding + positions * (10 * self.width + 3 * self.inner)) / 1e9


SIZES = {
    "embedded": Size(6, 384, 1536, embedding=18_400 * 384),
    "BERT-base": Size(12, 768, 3072, embedding=31_000 * 768),
    "7B decoder": Size(32, 4096, 11_008, matrices=3, embedding=64_000 * 4096),
}


@dataclass(frozen=True)
class Study:
    """Methods of one experiment: how many of them have curves, how many gradient passes and
    leave-one-outs they take.
    """

    curves: int
    gradients: int
    leave_one_outs: int = 1

    def passes(self, tokens: float, features: float) -> float:
        """Forward passes of one example."""
        return self.leave_one_outs * tokens + self.curves * 2 * (features - 1) + GRADIENT_PASSES * self.gradients


# Table 2: loo, ig, two rollouts, attnlrp, cp-lrp, looprop, random, position, length; on SST-2 two more removals. Table
# A1: 3 + 36 plans.
BASELINES = {"sst2": Study(12, IG_STEPS + 4, 3), "imdb": Study(10, IG_STEPS + 4)}
LAYERS = {"sst2": Study(39, 38), "imdb": Study(39, 38)}
CHUNK = {"sst2": 1, "imdb": 16}


def token_counts(name: str) -> list[float]:
    """Tokens of every text as BERT would cut them, from its characters (one per 4.4 on these data, measured with
    BERT-like pieces).
    """
    from looprop.inputs import load_dataset

    data = load_dataset(name, split="dev" if name == "sst2" else "test")
    return [min(512.0, 2 + len(text) / 4.4) for text in data.texts]


def study(rates: dict[str, float], share: float) -> list[dict[str, Any]]:
    """The paper's study on BERT-base: passes, operations, hours at several rates (operations per second that are
    reached).
    """
    rows = []
    for name in ("sst2", "imdb"):
        counts, size = token_counts(name), SIZES["BERT-base"]
        for title, experiment in (("baselines", BASELINES[name]), ("layers", LAYERS[name])):
            passes = [experiment.passes(n, n / CHUNK[name]) for n in counts]
            flops = sum(p * size.flops(n) for p, n in zip(passes, counts, strict=True))
            hours = {rate: share * flops / value / 3600 for rate, value in rates.items()}
            row = {"data": name, "experiment": title, "examples": len(counts), "mean_tokens": sum(counts) / len(counts)}
            row |= {"passes": sum(passes), "exaflops": flops / 1e18, "hours": hours}
            rows.append(row)
            shown = ", ".join(f"{rate} {value:.3g} h" for rate, value in hours.items())
            print(f"{name} {title}: {sum(passes):.3g} passes, {flops / 1e18:.3g} EFLOP; {shown}", flush=True)
    return rows


def measured_rates(models: list[str], *, quick: bool) -> list[dict[str, Any]]:
    """Operations per second of leave-one-out through the set function, in terms of plain masking's operations, on one
    thread.
    """
    import time

    import numpy as np
    import torch
    import transformers

    from benchmarks.set_function import random_ids, subject_of
    from looprop.models.heads.causal_lm import CausalLanguageModel
    from looprop.models.heads.text_classifier import TextClassifier
    from looprop.removal.value import SetFunction

    torch.manual_seed(0)
    torch.set_num_threads(1)

    def bert() -> Any:
        config = transformers.BertConfig(num_hidden_layers=2 if quick else 12, vocab_size=30522)
        return TextClassifier(transformers.BertForSequenceClassification(config).eval(), lambda text: text)

    def decoder(layers: int) -> Any:
        config = transformers.LlamaConfig(
            num_hidden_layers=layers, vocab_size=32_000, hidden_size=4096, intermediate_size=11_008
        )
        return CausalLanguageModel(transformers.LlamaForCausalLM(config).eval(), lambda text: text)

    def seconds(adapter: Any, tokens: int) -> float:
        """CPU time per variant, the median of three."""
        positions = sorted({round(p) for p in np.linspace(0, tokens - 1, 24)})
        keep, times = ~np.eye(tokens, dtype=bool)[positions], []
        for _ in range(1 if quick else 3):
            start = time.process_time()
            SetFunction(subject_of(adapter, random_ids(tokens)))(keep)
            times.append((time.process_time() - start) / len(keep))
        return sorted(times)[len(times) // 2]

    rows = []

    def keep_row(model: str, tokens: int, own: float, flops: float) -> None:
        rows.append({"model": model, "tokens": tokens, "seconds_per_variant": own, "gflops": flops / own / 1e9})
        print(
            f"{model}, {tokens} tokens: {1e3 * own:.1f} ms of CPU time per variant, {rows[-1]['gflops']:.0f} GFLOP/s",
            flush=True,
        )

    if "BERT-base" in models:
        adapter = bert()
        size = replace(SIZES["BERT-base"], layers=adapter.model.config.num_hidden_layers)
        for tokens in (32,) if quick else (32, 128, 512):
            keep_row("BERT-base", tokens, seconds(adapter, tokens), size.flops(tokens))
    if "7B decoder" in models and not quick:
        # The last layer of a decoder is needed at its last position only: what a whole one takes is the difference
        # between three and one.
        tokens, size = 64, replace(SIZES["7B decoder"], layers=2)
        keep_row(
            "7B decoder, two of 32 layers",
            tokens,
            seconds(decoder(3), tokens) - seconds(decoder(1), tokens),
            size.flops(tokens),
        )
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure this machine, and plan the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["rates", "study"], default=["rates", "study"])
    parser.add_argument("--models", nargs="+", choices=["BERT-base", "7B decoder"], default=["BERT-base", "7B decoder"])
    parser.add_argument("--quick", action="store_true", help="two layers, one length: does it run?")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args(arguments)
    result = json.loads(given.output.read_text(encoding="utf-8")) if given.output.exists() else {}
    if "rates" in given.only:
        others = [row for row in result.get("rates", []) if not row["model"].startswith(tuple(given.models))]
        result |= {**machine(), "rates": others + measured_rates(given.models, quick=given.quick)}
    if "study" in given.only and os.environ.get("LOOPROP_DATA"):
        of_bert = [row["gflops"] for row in result["rates"] if row["model"] == "BERT-base"]
        rates = {
            "one core here": 1e9 * sum(of_bert) / len(of_bert),
            "A100, float32": 0.6 * 19.5e12,
            "A100, TF32": 0.3 * 156e12,
        }
        result["study"] = study(rates, share=1.0)
    write_json(given.output, result)


if __name__ == "__main__":
    main()
