"""What relevance costs on a mixture of experts and on state-space models, beside a plain forward and backward pass.

Random models: a mixture of eight experts of which two are chosen (Mixtral), a selective scan step by step (Mamba) and
in chunks (Mamba2). As in `benchmarks.relevance_cost`, AttnLRP and CP-LRP take turns with a forward pass and
`autograd.grad` to the embeddings, and given are medians of the CPU time of the process.

    python -m benchmarks.mixture_cost --repeats 9

The bar: at most 1.3 times the CPU time.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from looprop.propagation import Plan, relevance

TOKENS = 128
PLAIN = "forward + gradient"
PLANS = {"attnlrp": Plan(), "cp-lrp": Plan(attention="cp")}
BAR = 1.3
RESULTS = Path(__file__).parent / "results" / "mixture_cost.json"


def mixtral() -> Any:
    """Eight experts, two of them for each token."""
    return transformers.MixtralForCausalLM(
        transformers.MixtralConfig(
            vocab_size=1000,
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            num_local_experts=8,
            num_experts_per_tok=2,
        )
    )


def mamba() -> Any:
    """The library's scan on a CPU: one token after the other."""
    return transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=4)
    )


def mamba2() -> Any:
    """The same in chunks."""
    return transformers.Mamba2ForCausalLM(
        transformers.Mamba2Config(
            vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_heads=8, head_dim=64, n_groups=1, chunk_size=64
        )
    )


MODELS: dict[str, Callable[[], Any]] = {"mixtral": mixtral, "mamba": mamba, "mamba2": mamba2}


def jobs(model: Any, tokens: int) -> dict[str, Callable[[], object]]:
    """What takes turns, by name."""
    ids = torch.randint(0, 1000, (1, tokens), generator=torch.Generator().manual_seed(tokens))
    table = model.get_input_embeddings()

    def plain() -> object:
        embedded = table(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded, use_cache=False).logits
        (gradient,) = torch.autograd.grad(logits[0, -1, 7], embedded)
        return (embedded.detach() * gradient).sum(-1)

    def ruled(plan: Plan) -> object:
        with relevance(model, plan, explained_weight=table.weight) as tape:
            logit = model(input_ids=ids, use_cache=False).logits[0, -1, 7]
            tape.check(logit)
            return tape.relevance(logit, tape.explained).sum(-1)

    return {PLAIN: plain, **{name: lambda plan=plan: ruled(plan) for name, plan in PLANS.items()}}  # type: ignore[misc]


def measure(model: Any, tokens: int, repeats: int) -> dict[str, float]:
    """Medians over interleaved runs, in seconds of CPU time, after one run each to warm up."""
    todo = jobs(model, tokens)
    seconds: dict[str, list[float]] = {name: [] for name in todo}
    for repeat in range(repeats + 1):
        for name, job in todo.items():
            before = time.process_time()
            job()
            if repeat:
                seconds[name].append(time.process_time() - before)
    return {name: statistics.median(found) for name, found in seconds.items()}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, write it as JSON; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = []
    for name in given.models:
        torch.manual_seed(0)
        times = measure(MODELS[name]().eval(), given.tokens, given.repeats)
        for job, seconds in times.items():
            ratio = seconds / times[PLAIN]
            rows.append({"model": name, "name": job, "cpu": seconds, "cpu_ratio": ratio})
            print(f"{name:<8}  {job:<18}  {seconds:>7.3f} s  {ratio:>5.2f}")
    missed = sum(row["cpu_ratio"] > BAR for row in rows)
    about = {"bar": BAR, "tokens": given.tokens, "repeats": given.repeats, "threads": 1, "cores": os.cpu_count()}
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps({**about, **versions, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(f"{f'missed: {missed}' if missed else 'all within the bar'}; written to {given.output}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
