"""Plain modules, relevance by hand, and what is refused in which words."""

from collections.abc import Callable
from typing import Any

from benchmarks.bit_for_bit.asked import DEMO, asked_name, methods
from benchmarks.bit_for_bit.explaining import Entries
from benchmarks.bit_for_bit.models import TEXTS, bert, plain_modules
from benchmarks.bit_for_bit.plain import packed


def attribute() -> Entries:
    import torch

    import looprop

    draw = torch.Generator().manual_seed(4)
    x = torch.randn(2, 3, 6, generator=draw)
    for name, module in plain_modules().items():
        for dtype in (torch.float32, torch.float64):
            given = x.to(dtype)
            own = module.to(dtype) if isinstance(module, torch.nn.Module) else module
            for target in (None, 0, torch.tensor([1, 2])) if name not in ("product", "refused") else (None,):
                for method, options in methods():
                    said = "None" if target is None else str(target if isinstance(target, int) else target.tolist())
                    values = {k: v[1] if isinstance(v, tuple) else v for k, v in options.items()}

                    def run(
                        name: str = name,
                        dtype: Any = dtype,
                        given: Any = given,
                        own: Any = own,
                        method: str = method,
                        target: Any = target,
                        values: Any = values,
                    ) -> Any:
                        if isinstance(own, torch.nn.Module):
                            own.to(dtype)
                        return packed(looprop.attribute(own, given, method, target=target, **values))

                    yield f"{name}, {dtype} [target={said}]/{asked_name(method, options)}", run


def relevance() -> Entries:
    """`looprop.relevance` by hand: relevance at the input and inside, sites recorded, plans of all kinds."""
    import torch

    import looprop

    draw = torch.Generator().manual_seed(5)
    x = torch.randn(2, 3, 6, generator=draw)
    plans = {
        "default": looprop.Plan(),
        "cp": looprop.Plan(attention="cp", otherwise="cp"),
        "gradient": looprop.Plan(
            attention="gradient", otherwise="gradient", norm="gradient", activation="gradient", product="gradient"
        ),
        "epsilon": looprop.Plan(epsilon=0.1),
        "printed": looprop.Plan(bias="printed"),
        "canonical": looprop.Plan(bilinear="canonical"),
        "layer 1": looprop.Plan(attention={1: "cp"}),
        "layer 5": looprop.Plan(attention={5: "cp"}),
        "own rule": looprop.Plan(rules={"gelu": lambda call: call.run()}),
        "allow": looprop.Plan(allow=frozenset({"cumprod"})),
    }
    for name, plan in plans.items():
        yield f"plan/{name}", lambda plan=plan: packed({**plan.to_dict(), "plain": plan.plain, "rule": plan.rule(1)})
        for label, module in plain_modules().items():

            def run(module: Any = module, plan: Any = plan) -> Any:
                own = module if isinstance(module, torch.nn.Module) else None
                with looprop.relevance(own, plan, record=True) as tape:
                    watched = tape.watch(x)
                    out = module(watched)
                    tape.check(out)
                    value = out[:, 0] if out.dim() == 2 else out
                    found = tape.relevance(value, watched, keep=True)
                    inner = (
                        tape.gradients(value, [s.output for s in tape.sites if s.output is not None])
                        if tape.sites
                        else []
                    )
                return packed({"output": out, "relevance": found, "sites": len(tape.sites), "inner": inner})

            yield f"{label}/{name}", run
    for name, wrong in (
        ("epsilon", {"epsilon": -1}),
        ("attention", {"attention": "cpp"}),
        ("layer", {"attention": {0: "cp"}}),
        ("canonical", {"bilinear": "canonical", "epsilon": 1.0}),
    ):
        yield f"wrong plan/{name}", lambda wrong=wrong: packed(looprop.Plan(**wrong).to_dict())
    model, tokenizer = bert()
    ids = torch.tensor([tokenizer(TEXTS["short"])["input_ids"]])
    for name, plan in plans.items():

        def under(plan: Any = plan) -> Any:
            with looprop.relevance(
                model, plan, explained_weight=model.get_input_embeddings().weight, record=True
            ) as tape:
                out = model(input_ids=ids).logits
                tape.check(out)
                word = tape.relevance(out[:, 1], tape.explained, keep=True)
                whole = tape.relevance(out[:, 1], tape.embedding_sum)
            return packed({"output": out, "word": word.sum(-1), "sum": whole.sum(-1), "sites": len(tape.sites)})

        yield f"bert/{name}", under


def errors() -> Entries:
    """What is refused, and in which words."""
    import torch

    import looprop

    m = looprop.load()
    text = DEMO[1]
    wrong: dict[str, Callable[[], Any]] = {
        "method": lambda: m.explain(text, "cp-lpr"),
        "bracket": lambda: m.explain(text, "ig[20]"),
        "option": lambda: m.explain(text, "ig", step=3),
        "steps": lambda: m.explain(text, "ig", steps=0),
        "rows": lambda: m.explain(text, "looprop", rows=-1),
        "budget": lambda: m.explain(text, "looprop", budget=2),
        "backward": lambda: m.explain(text, "looprop", backward="lrp"),
        "removal": lambda: m.explain(text, "loo", removal="blank"),
        "precision": lambda: m.explain(text, "loo", precision="float8"),
        "layers": lambda: m.explain(text, "lrp[cp=6-4]"),
        "readout": lambda: m.explain(text, "attnlrp", readout="words"),
        "features": lambda: m.explain(text, features="letter"),
        "target": lambda: m.explain(text, target="happy"),
        "item": lambda: m.explain(3),
        "nothing": lambda: m.explain([]),
        "targets": lambda: m.explain([text], target=[0, 1]),
        "module": lambda: looprop.load(torch.nn.Linear(2, 2)),
        "objects": lambda: looprop.load((torch.nn.Linear(2, 2), None)),
        "metric": lambda: looprop.evaluate(m, [text], metrics=["loo-R"]),
        "twice": lambda: looprop.evaluate(m, [text], ["loo", "loo"]),
        "no data": lambda: looprop.evaluate(m, []),
        "one text": lambda: looprop.evaluate(m, text),
        "protocol": lambda: looprop.evaluate(m, [text], protocol="cooked"),
        "engine": lambda: looprop.evaluate(m, [text], engine="steam"),
        "rewrite": lambda: looprop.audit(m, [text], rewrites=["reassociate"]),
        "audit precision": lambda: looprop.audit(m, [text], precision="half"),
        "tensor": lambda: looprop.attribute(torch.nn.Linear(2, 2), torch.ones(2)),
        "integers": lambda: looprop.attribute(torch.nn.Linear(2, 2), torch.ones(2, 2).long()),
        "explanation": lambda: looprop.Explanation.from_dict({"schema": "looprop.explanation", "version": 1}),
    }
    for name, run in wrong.items():
        yield name, lambda run=run: packed(run()) or "nothing was raised"
