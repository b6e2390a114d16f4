"""Would less than float32 do for the variants of leave-one-out? int8 (dynamic quantisation of all linear layers) and
bfloat16 beside float32, each also with the largest quarter of its scores computed again in float32.

Pearson's r to leave-one-out in float32, and CPU time, one thread: the embedded model on sentences, a random model of
BERT-base's size (whose effects are small beside its outputs, the hardest case for rounding), SmolLM2-135M on a prompt.
All run as a batched loop over attention masks, so that they differ in precision alone. float32 runs in two ways: as
torch chooses, and by oneDNN, which is exact as well.

    python -m benchmarks.precision
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import cases
from benchmarks.common import RESULTS, machine, take_turns, write_json
from benchmarks.exchange import load_model, read_case
from benchmarks.prompts import MODEL, model_and_tokenizer, sentences
from benchmarks.sections.evaluation import some_sentences
from benchmarks.sides.plain import loop, masked
from looprop.metrics import pearson

OUTPUT = RESULTS / "precision.json"
# Kept only if both hold on every model, against the quicker way of float32.
BARS = {"r": 0.99, "speed": 1.5}
EXACT = 0.25
"""The share of scores, largest first, that is computed again in float32."""
BATCH = 32
Scores = NDArray[np.float64]
Text = tuple[NDArray[np.int64], int]


@contextmanager
def by_onednn() -> Iterator[None]:
    """Large products of float32 by oneDNN. Its name for this is that of the precision it may then use; this processor's
    oneDNN stays in float32, as the r of this row shows.
    """
    settings: Any = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


def loo(model: Any, text: Text, which: NDArray[np.intp] | None = None) -> Scores:
    """f(x) - f(x without i) of all positions, or of some."""
    ids, target = text
    keep = ~np.eye(len(ids), dtype=bool)
    keep = np.concatenate([np.ones((1, len(ids)), dtype=bool), keep if which is None else keep[which]])
    values = loop(masked(model, ids, target), keep, BATCH)
    return values[0] - values[1:]


def largest_exact(model: Any, rough: Any, text: Text) -> Scores:
    """Rough scores, the largest of them replaced by exact ones."""
    scores = loo(rough, text)
    largest = np.argsort(-np.abs(scores))[: max(1, round(EXACT * len(scores)))]
    scores[largest] = loo(model, text, largest)
    return scores


def models(quick: bool) -> Iterator[tuple[str, Any, list[Text]]]:
    """Each model with its texts: ids and the explained class or token."""
    embedded = cases.embedded_model()
    case = read_case(cases.sentences(embedded, some_sentences(3 if quick else 12)[0], "precision"))
    yield "embedded model", load_model(embedded), list(zip(case.ids, case.targets, strict=True))
    width, layers = (128, 2) if quick else (768, 12)
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width // 64}
    random = cases.bert({**sizes, "intermediate_size": 4 * width}, name="precision")
    case = read_case(cases.random_texts(random, 32, 2))
    yield "random BERT-base", load_model(random), list(zip(case.ids, case.targets, strict=True))
    if MODEL.exists() and not quick:
        model, tokenizer = model_and_tokenizer(0)
        ids = tokenizer(" ".join(sentences(2)) + " He moved to", return_tensors="np")["input_ids"][0]
        with torch.inference_mode():
            target = int(model(input_ids=torch.from_numpy(ids)[None]).logits[0, -1].argmax())
        yield "SmolLM2-135M", model, [(ids, target)]


def measure(name: str, model: Any, texts: list[Text], repeats: int) -> list[dict[str, Any]]:
    """One row per precision."""
    int8 = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {torch.nn.Linear}, dtype=torch.qint8)
    halves = copy.deepcopy(model).bfloat16()

    def onednn(text: Text) -> Scores:
        with by_onednn():
            return loo(model, text)

    ways: dict[str, Callable[[Text], Scores]] = {
        "float32": lambda text: loo(model, text),
        "float32 by oneDNN": onednn,
        "bfloat16": lambda text: loo(halves, text),
        "bfloat16, largest quarter exact": lambda text: largest_exact(model, halves, text),
        "int8": lambda text: loo(int8, text),
        "int8, largest quarter exact": lambda text: largest_exact(model, int8, text),
    }
    exact = [loo(model, text) for text in texts]
    jobs = {way: lambda run=run: [run(text) for text in texts] for way, run in ways.items()}  # type: ignore[misc]
    seconds = take_turns(jobs, repeats=repeats)
    rows = []
    for way, run in ways.items():
        r = [pearson(run(text), of) for text, of in zip(texts, exact, strict=True)]
        speed = seconds["float32"].cpu / seconds[way].cpu
        row = {"model": name, "precision": way, "texts": len(texts), "r": float(np.mean(r)), "worst_r": min(r)}
        rows.append({**row, "cpu": seconds[way].cpu, "speed": speed})
        print(f"{name}, {way}: r {row['r']:.4f} (worst {row['worst_r']:.4f}), {speed:.2f} times as fast", flush=True)
    return rows


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """For each precision below float32: its worst r and least speed over models, against the quicker float32."""
    best: dict[str, float] = {}
    for row in rows:
        if row["precision"].startswith("float32"):
            best[row["model"]] = max(best.get(row["model"], 0.0), row["speed"])
    found: dict[str, Any] = {}
    for way in dict.fromkeys(row["precision"] for row in rows if not row["precision"].startswith("float32")):
        own = [row for row in rows if row["precision"] == way]
        r, speed = min(row["r"] for row in own), min(row["speed"] / best[row["model"]] for row in own)
        found[way] = {"r": r, "speed": speed, "kept": r >= BARS["r"] and speed >= BARS["speed"]}
    return found


def main() -> int:
    """Measures and writes what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny: does it run? writes nothing")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # torch says that its quantisation will move
    torch.set_num_threads(1)
    rows = [row for of in models(options.quick) for row in measure(*of, options.repeats)]
    result = {"bars": BARS, "exact": EXACT, "rows": rows, "verdict": verdict(rows), "machine": machine()}
    print(result["verdict"])
    if not options.quick:
        write_json(options.output, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
