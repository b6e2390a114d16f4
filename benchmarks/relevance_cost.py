"""What one attribution by relevance propagation costs beside a plain forward and backward pass.

A random model of BERT-base size, one text of 32, 128 and 512 tokens, AttnLRP and CP-LRP at epsilon 0 against a forward
pass and `autograd.grad` to the embeddings. All take turns, so that whatever else the machine does falls on each alike;
given are medians of the CPU time of the process, with the wall time beside it. Peak memory is that of one fresh process
per case.

    python -m benchmarks.relevance_cost --repeats 15

The bars: at most 1.15 times the CPU time, at most 1.3 times the peak memory.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from looprop.methods.registry import make_method
from looprop.models.encoded import Encoded
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import new_subject
from looprop.models.target import Target

TOKENS = (32, 128, 512)
METHODS = ("attnlrp", "cp-lrp")
PLAIN = "forward + gradient"
BARS = {"cpu": 1.15, "memory": 1.3}
RESULTS = Path(__file__).parent / "results" / "relevance_cost.json"


def build() -> Any:
    """BERT-base as it is loaded: random weights, parameters that require gradients, eval mode."""
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=2)).eval()


def jobs(model: Any, tokens: int) -> dict[str, Callable[[], object]]:
    """What takes turns, by name."""
    ids = torch.randint(1000, 30000, (1, tokens), generator=torch.Generator().manual_seed(tokens))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    nothing, flags = (None,) * tokens, (False,) * tokens
    encoded = Encoded(inputs, tuple(map(str, range(tokens))), "", nothing, flags, nothing)
    adapter = TextClassifier(model, lambda text: text)
    subject = new_subject(adapter, encoded, Target((1,), "1"), tuple((i,) for i in range(tokens)))

    def plain() -> object:
        embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded, attention_mask=inputs["attention_mask"]).logits
        (gradient,) = torch.autograd.grad(logits[0, 1], embedded)
        return (embedded.detach() * gradient).sum(-1)

    methods = {name: make_method(name) for name in METHODS}
    return {
        PLAIN: plain,
        **{name: lambda method=method: method.attribute([subject]) for name, method in methods.items()},
    }  # type: ignore[misc]


def measure_time(model: Any, tokens: int, repeats: int) -> dict[str, dict[str, float]]:
    """Medians over interleaved runs, in seconds, after one run each to warm up."""
    todo = jobs(model, tokens)
    cpu: dict[str, list[float]] = {name: [] for name in todo}
    wall: dict[str, list[float]] = {name: [] for name in todo}
    for repeat in range(repeats + 1):
        for name, job in todo.items():
            before_cpu, before_wall = time.process_time(), time.perf_counter()
            job()
            if repeat:
                cpu[name].append(time.process_time() - before_cpu)
                wall[name].append(time.perf_counter() - before_wall)
    return {name: {"cpu": statistics.median(cpu[name]), "wall": statistics.median(wall[name])} for name in todo}


def peak_memory(name: str, tokens: int) -> float:
    """Peak resident memory in MB of a fresh process that runs one case once."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.relevance_cost",
        "--case",
        name,
        "--tokens",
        str(tokens),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1], env=dict(os.environ)
    )
    return float(done.stdout.strip().splitlines()[-1])


def run_case(name: str, tokens: int) -> float:
    """One case in this very process; its peak memory in MB."""
    jobs(build(), tokens)[name]()
    # On Linux ru_maxrss also counts what the parent held when it forked; the high-water mark of the process itself does
    # not.
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as aligned text."""
    lines = [
        f"{'tokens':>6}  {'':<18}  {'CPU s':>7}  {'ratio':>5}  {'wall s':>7}  {'ratio':>5}  {'peak MB':>8}  "
        f"{'ratio':>5}"
    ]
    for row in rows:
        memory = (
            f"{row['memory']:>8.0f}  {row['memory_ratio']:>5.2f}"
            if row["memory"] is not None
            else f"{'-':>8}  {'-':>5}"
        )
        times = "  ".join(f"{row[kind]:>7.3f}  {row[f'{kind}_ratio']:>5.2f}" for kind in ("cpu", "wall"))
        lines.append(f"{row['tokens']:>6}  {row['name']:<18}  {times}  {memory}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, write it as JSON; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of torch; with several, waiting counts as CPU time"
    )
    parser.add_argument("--no-memory", action="store_true", help="leave out the processes that measure memory")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    if given.case is not None:
        print(run_case(given.case, given.tokens[0]))
        return 0
    model, rows = build(), []
    for tokens in given.tokens:
        times = measure_time(model, tokens, given.repeats)
        memory = {name: None if given.no_memory else peak_memory(name, tokens) for name in times}
        for name, seconds in times.items():
            row: dict[str, Any] = {"tokens": tokens, "name": name, **seconds, "memory": memory[name]}
            row |= {f"{kind}_ratio": seconds[kind] / times[PLAIN][kind] for kind in ("cpu", "wall")}
            peak, plain_peak = memory[name], memory[PLAIN]
            row["memory_ratio"] = None if peak is None or plain_peak is None else peak / plain_peak
            rows.append(row)
    print(table(rows))
    missed = [r for r in rows if any((r[f"{kind}_ratio"] or 0) > bar for kind, bar in BARS.items())]
    machine = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    result = {
        "bars": BARS,
        "repeats": given.repeats,
        "threads": given.threads,
        "cores": os.cpu_count(),
        **machine,
        "rows": rows,
    }
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{'missed: ' + str(len(missed)) if missed else 'all within the bars'}; written to {given.output}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
