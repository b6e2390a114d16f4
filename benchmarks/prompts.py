"""Leave-one-out over the forty sentences of a prompt of about 1,200 tokens, against forty forward passes, and the
matrix of an answer's tokens against the single explanation. CPU time, one thread.

Forty forward passes are counted in two ways: of the input as it is, and with a sentence masked in each, which is what
leave-one-out takes by hand.

The same work by captum's LLMAttribution and by ContextCite is a cell of the bench (`sections/prompts.py`).
SmolLM2-135M; --layers keeps its first so many layers only.

    python -m benchmarks.prompts --layers 6
    python -m benchmarks.prompts --quick
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would count as CPU time
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, machine, write_json

MODEL = Path.home() / ".cache" / "looprop" / "models" / "smollm2-135m"
OUTPUT = RESULTS / "prompts.json"
# At most so much of forty forward passes, and so much of the single explanation.
BARS = {"loo": 0.55, "matrix": 1.3}

NAMES = "Ada Bob Carl Dora Emil Fay Gus Hana Ivan Jill".split()
PLACES = "Oslo Rome Lima Cairo Quito Delhi Seoul Paris Tunis Bern".split()
QUESTION = "Where did Hana Carl move in 1907?"
ANSWER = "In 1907 Hana Carl moved to Bern and worked there as a teacher for many years."


def sentences(count: int) -> list[str]:
    """Sentences of about thirty tokens that differ in who, where and when."""
    return [
        f"{NAMES[i % 10]} {NAMES[(3 * i + 1) % 10]} moved to {PLACES[(7 * i) % 10]} in the spring of {1900 + i} and "
        f"worked there for many years as a teacher of music before leaving for {PLACES[(i + 3) % 10]}."
        for i in range(count)
    ]


def model_and_tokenizer(layers: int) -> tuple[Any, Any]:
    """SmolLM2-135M, or its first layers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="sdpa").eval()
    if layers:
        model.model.layers = model.model.layers[:layers]
        model.config.num_hidden_layers = layers
    return model, AutoTokenizer.from_pretrained(MODEL)


def cpu(job: Callable[[], object], repeats: int) -> float:
    """Median CPU seconds of the process."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return statistics.median(found)


def forward_pass(model: Any, ids: Any, positions: int, repeats: int, *, masked: slice | None = None) -> float:
    """CPU seconds of the model's own forward pass over prompt and answer, also with some tokens masked."""
    import torch

    mask, places = torch.ones_like(ids), torch.arange(ids.shape[1])[None]
    if masked is not None:
        mask[:, masked] = 0

    def run() -> None:
        with torch.inference_mode():
            model(input_ids=ids, attention_mask=mask, position_ids=places, logits_to_keep=positions, use_cache=False)

    run()
    return cpu(run, repeats)


def by_looprop(layers: int, count: int, repeats: int) -> dict[str, Any]:
    """Leave-one-out for the first time and once the model is known, the matrix, relevance."""
    import looprop

    model, tokenizer = model_and_tokenizer(layers)
    bench = looprop.load((model, tokenizer))
    answer = bench.context([" ".join(sentences(count))], QUESTION, ANSWER)
    longer, ids = answer.resolved[0], answer.resolved[0].inputs["input_ids"]
    one = forward_pass(model, ids, len(answer) + 1, 2 * repeats + 1)
    by_hand = forward_pass(model, ids, len(answer) + 1, 2 * repeats + 1, masked=slice(400, 430))
    cold = cpu(lambda: bench.explain(answer, "loo", features="sentence"), 1)
    single, each = [], []
    for _ in range(repeats):  # in turns
        single.append(cpu(lambda: bench.explain(answer, "loo", features="sentence"), 1))
        each.append(cpu(lambda: bench.explain(answer, "loo", features="sentence", output="each"), 1))
    relevance = cpu(lambda: bench.explain(answer, "attnlrp", features="sentence"), 1)
    loo, matrix = statistics.median(single), statistics.median(each)
    return {
        "tokens": len(longer),
        "answer_tokens": len(answer),
        "features": count,
        "forward_seconds": one,
        "masked_forward_seconds": by_hand,
        "loo_first_time": cold / (count * one),
        "loo": loo / (count * one),
        "loo_of_masked_passes": loo / (count * by_hand),
        "matrix_of_loo": matrix / loo,
        "attnlrp_in_forward_passes": relevance / one,
    }


def main() -> int:
    """Measures and writes what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=0, help="keep the first so many layers; 0 for all")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="few sentences and layers: does it run?")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    layers, count = (2, 6) if options.quick else (options.layers, 40)
    found = by_looprop(layers, count, options.repeats)
    print(json.dumps(found, indent=1), flush=True)
    if not options.quick:
        about = {"model": "SmolLM2-135M", "layers": layers or 30, "bars": BARS}
        write_json(options.output, {**about, "looprop": found, "machine": machine()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
