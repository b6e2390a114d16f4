"""What is asked: texts, methods with their options, metrics and rewrites, by name."""

from typing import Any

# Of the demo sentences (assets/demo.jsonl): ids plain-1, negation-1, negation-4, names-1, emoji-1, length-1.
DEMO = [
    "A warm, funny and quietly moving film.",
    "This is not a bad film at all.",
    "I would not call it good, but I did not leave.",
    "Agnès Varda makes even a field of potatoes look like a miracle.",
    "Best night at the movies in years 😍🎬",
    "Superb.",
]

WHOLE_DEMO = [
    "A warm, funny and quietly moving film.",
    "The plot is thin and the acting is worse.",
    "I laughed from the first minute to the last.",
    "This is not a bad film at all.",
    "Nobody in the cinema laughed, not even once.",
    "It never fails to surprise.",
    "I would not call it good, but I did not leave.",
    "The first half drags, but the ending is wonderful.",
    "Beautiful pictures cannot save a story this dull.",
    "For all its flaws, I loved every scene.",
    "The cast is superb; the script lets them down.",
    "Great, another two hours of my life I will never get back.",
    "A masterpiece, if you enjoy watching paint dry.",
    "The best part of the film was leaving early.",
    "Agnès Varda makes even a field of potatoes look like a miracle.",
    "Toshiro Mifune is the only reason to stay awake.",
    "Not even Meryl Streep can rescue this mess.",
    "Best night at the movies in years 😍🎬",
    "Two hours of shouting and explosions 😴👎",
    "Очень хороший фильм, a very good film.",
    "最高の映画 is how my friend put it, and she was right.",
    "Ένα βαρετό έργο: a boring piece of work.",
    "soooo boring, i walked out lol",
    "Superb.",
]

REMOVALS = ["attention-mask", "zero", "mask-token", "pad-token", "delete"]
BACKWARDS = ["gradient", "norm", "attnlrp", "cp"]
METRICS = [
    "loo-r",
    "loo-r-no-special",
    "loo-r-paper",
    "loo-r-paper-no-special",
    "loo-spearman",
    "loo-spearman-no-special",
    "loo-kendall",
    "loo-kendall-no-special",
    "loo-sign",
    "morf",
    "lerf",
    "delta",
    "aopc",
    "insertion",
    "deletion",
]
REWRITES = [
    "reassociated",
    "scale-moved",
    "attention-unfused",
    "qk-rescaled",
    "vo-turned",
    "heads-permuted",
    "key-bias-shifted",
    "bias-moved",
    "linear-split",
    "linear-merged",
    "norm-folded",
    "norm-split",
    "batchnorm-folded",
    "relu-rescaled",
    "relu-rearranged",
]

Asked = tuple[str, dict[str, Any]]


def methods() -> list[Asked]:
    """Every method with every option that changes what it computes."""
    import looprop

    found: list[Asked] = [("loo", {})]
    found += [("loo", {"removal": kind}) for kind in REMOVALS]
    found += [("loo", {"precision": "bfloat16"}), ("loo[removal=delete]", {})]
    found += [("looprop", {})]
    found += [("looprop", {"rows": rows}) for rows in (0, 1, 4, "all")]
    found += [("looprop", {"refine": 2}), ("looprop", {"rows": 0, "refine": 2}), ("looprop", {"rows": 0, "refine": 4})]
    found += [("looprop", {"budget": budget}) for budget in (0.5, 0.9, 3, 4.5, 6, 8, 100)]
    found += [("looprop", {"backward": backward}) for backward in BACKWARDS]
    found += [("looprop", {"backward": backward, "rows": 0}) for backward in BACKWARDS]
    for name in ("cp-lrp", "attnlrp"):
        found += [
            (name, options)
            for options in ({}, {"epsilon": 0.01}, {"readout": "sum"}, {"epsilon": 0.25, "readout": "sum"})
        ]
        found += [
            (name, {"bias": "printed"}),
            (name, {"bias": "printed", "epsilon": 0.1}),
            (name, {"bilinear": "canonical"}),
        ]
    found += [(f"lrp[cp={cp}]", {}) for cp in ("1", "1-2", ":1", "2:", "1,2", "all", "9")]
    found += [("lrp", {}), ("lrp[cp=1;epsilon=0.1;readout=sum]", {})]
    plans = {
        "gradient-norm": looprop.Plan(norm="gradient"),
        "gradient-activation": looprop.Plan(activation="gradient"),
        "gradient-product": looprop.Plan(product="gradient"),
        "mixed": looprop.Plan(attention={1: "gradient", 2: "cp"}, otherwise="attnlrp", epsilon=1e-3),
        "canonical-cp": looprop.Plan(attention="cp", otherwise="cp", bilinear="canonical"),
        "allow": looprop.Plan(allow=frozenset({"sigmoid", "tanh"})),
    }
    found += [("lrp", {"plan": (name, plan)}) for name, plan in plans.items()]
    found += [("grad-x-input", {}), ("grad-x-input", {"readout": "sum"})]
    found += [("ig", {"steps": 8}), ("ig[steps=8]", {"keep_special": True}), ("ig", {"steps": 8, "tokens": 16})]
    found += [("ig", {"steps": 8, "baseline": baseline}) for baseline in ("pad", "mask")]
    found += [("rollout", {}), ("rollout", {"residual": False}), ("random", {}), ("random", {"seed": 7})]
    return found


def few() -> list[Asked]:
    """One of each kind."""
    chosen = [
        ("loo", {}),
        ("loo", {"removal": "delete"}),
        ("looprop", {}),
        ("looprop", {"rows": 0}),
        ("looprop", {"rows": 2, "refine": 2}),
    ]
    chosen += [
        ("looprop", {"budget": 6}),
        ("cp-lrp", {}),
        ("attnlrp", {}),
        ("attnlrp", {"bilinear": "canonical"}),
        ("lrp[cp=2:]", {}),
    ]
    chosen += [
        ("attnlrp", {"epsilon": 0.01, "readout": "sum"}),
        ("grad-x-input", {}),
        ("ig", {"steps": 4}),
        ("rollout", {}),
        ("random", {}),
    ]
    return chosen


# What `methods` leaves out: the other methods of the catalogue, and options that are newer.
CATALOGUE: list[Asked] = [
    ("shapley", {"samples": 40}),
    ("shapley", {"samples": 40, "by": "orders", "seed": 3, "tolerance": 0.3}),
    ("shapley", {"samples": 40, "keep": "none"}),
    ("fast-shapley", {}),
    ("fast-shapley", {"budget": 16, "seed": 2}),
    ("alone", {}),
    ("alone", {"keep": "none", "removal": "delete"}),
    ("both-ends", {}),
    ("both-ends", {"loo": "looprop"}),
    ("kernel-shap", {"samples": 40}),
    ("kernel-shap", {"samples": 40, "seed": 1, "removal": "delete"}),
    ("lime", {"samples": 40}),
    ("gim", {}),
    ("gim", {"temperature": 1.0, "baseline": "pad"}),
    ("pa-lrp", {}),
    ("libragrad", {}),
    ("generic-attention", {}),
    ("attention-norm", {}),
    ("attention-norm", {"residual": False}),
    ("value-zeroing", {}),
    ("attnlrp", {"linear": "gamma", "gamma": 0.5}),
    ("attnlrp", {"linear": "alpha-beta"}),
    ("cp-lrp", {"bias": "shared"}),
]
# The methods of `methods`, without their options.
BARE: list[Asked] = [("loo", {}), ("looprop", {}), ("looprop", {"rows": 0}), ("looprop", {"budget": 6})]
BARE += [("attnlrp", {}), ("cp-lrp", {}), ("lrp[cp=2:]", {}), ("grad-x-input", {}), ("ig", {"steps": 4})]
BARE += [("rollout", {}), ("random", {})]

# By name, options in brackets: what an evaluation takes.
EVALUATED = [
    "loo",
    "loo[removal=mask-token]",
    "loo[removal=pad-token]",
    "loo[removal=delete]",
    "looprop",
    "looprop[rows=0]",
    "looprop[rows=4]",
    "looprop[rows=all]",
    "looprop[refine=2]",
    "looprop[budget=0.5]",
    "looprop[budget=6]",
    "looprop[rows=0,backward=norm]",
    "looprop[rows=0,backward=attnlrp]",
    "looprop[rows=0,backward=cp]",
    "cp-lrp",
    "attnlrp",
    "attnlrp[epsilon=0.01]",
    "attnlrp[readout=sum]",
    "attnlrp[bias=printed]",
    "attnlrp[bilinear=canonical]",
    "lrp[cp=2:]",
    "lrp[cp=1]",
    "grad-x-input",
    "ig[steps=8]",
    "rollout",
    "rollout[residual=false]",
    "random",
    "position",
    "length",
]


def asked_name(method: str, options: dict[str, Any]) -> str:
    inner = ", ".join(f"{k}={v[0] if isinstance(v, tuple) else v}" for k, v in options.items())
    return f"{method}({inner})"
