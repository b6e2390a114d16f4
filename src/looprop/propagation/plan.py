"""A plan: which propagation rule applies where."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from looprop.errors import PlanError, UnknownNameError

AttentionRule = Literal["attnlrp", "cp", "gradient"]
BiasShare = Literal["keep", "printed", "shared", "placed"]
LinearRule = Literal["epsilon", "gamma", "alpha-beta"]
NormRule = Literal["constant-std", "gradient"]
ActivationRule = Literal["identity", "gradient"]
ProductRule = Literal["halves", "gradient"]
CoefficientRule = Literal["constant", "halves"]
BilinearForm = Literal["pairs", "canonical"]
RotaryRule = Literal["pass", "halves"]


def _choice(kind: str, value: str, allowed: Any) -> None:
    if value not in get_args(allowed):
        raise UnknownNameError(kind, str(value), get_args(allowed))


def _number(name: str, value: Any, *, least: float, above: bool = False) -> None:
    """Raise unless a value is a number that is not smaller than `least`; above: nor equal to it."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < least or (above and value == least):
        raise PlanError(f"{name} must be a number {'>' if above else '>='} {least:g}, got {value!r}")


@dataclass(frozen=True)
class Plan:
    """Which rule applies where.

    attention: the rule of every attention site, or a mapping from layer to rule. Layers count from 1, as in
        the paper's tables; layer n is the n-th attention site of the forward pass; layers that the mapping does
        not name take `otherwise`.
    epsilon: the stabiliser of the denominators, signed, sign(0) = +1; 0 is its limit.
    bias: "keep" divides by the output with its bias, which so keeps its share; "printed" leaves the bias out of
        the denominator, literally as in the paper's equation (relevance may then explode); "shared" gives the share of
        the bias to the inputs, by the size of what each contributes (nothing explodes, and nothing is lost);
        "placed" gives it to the position at which it is added (`Tape.position_shares`).
    linear: how linear layers and convolutions share relevance among their inputs. "epsilon": by contribution; "gamma":
        contributions of the sign of the output count 1 + gamma times; "alpha-beta": those of positive sign share
        alpha, those of negative sign alpha - 1, with a minus. gamma: of linear layers; conv_gamma: of convolutions.
    norm: "constant-std" holds the normaliser constant.
    activation: "identity" gives an activation function's input the relevance of its output.
    product: "halves" splits the relevance of a product of two activations.
    gate: "constant" gives all relevance of a product of a signal and a gate with f(0) != 0 (sigmoid) to the signal;
        "halves" gives the gate half of it.
    temperature: at which the gradient of an attention site's softmax is taken where its rule is "attnlrp"; 1 is its
        Taylor rule, 2 that of GIM.
    rotary: "pass" turns relevance back with the rotation; "halves" gives half of it to the position that turned
        (`Tape.position_shares`).
    experts: "constant" gives all relevance of a weighted expert to the expert; "halves" gives its router weight half.
    bilinear: "pairs" splits at each product by itself, so that (x1 x2) x3 gives 1/4, 1/4, 1/2; "canonical" takes
        products one upon the other, with only linear operations between them, as one k-linear operation with equal
        shares, in whatever order they are written.
    allow: names of operations that may pass their plain gradient although no rule covers them.
    rules: own rules by operation name, each a function of one `Call` (see docs/rules.md).

    plain: there is no rule at all, but the ordinary gradient, which nothing has to be refused for. layers: those that
        the mapping names.
    """

    attention: AttentionRule | Mapping[int, AttentionRule] = "attnlrp"
    otherwise: AttentionRule = "attnlrp"
    epsilon: float = 0.0
    bias: BiasShare = "keep"
    norm: NormRule = "constant-std"
    activation: ActivationRule = "identity"
    product: ProductRule = "halves"
    bilinear: BilinearForm = "pairs"
    allow: frozenset[str] = frozenset()
    rules: Mapping[str, Callable[..., Any]] = field(default_factory=lambda: MappingProxyType({}))
    gate: CoefficientRule = "constant"
    experts: CoefficientRule = "constant"
    temperature: float = 1.0
    linear: LinearRule = "epsilon"
    gamma: float = 0.25
    conv_gamma: float = 0.25
    alpha: float = 2.0
    rotary: RotaryRule = "pass"
    plain: bool = field(init=False, repr=False, compare=False)
    layers: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled, and plans travel to other processes.
        values = (getattr(self, f.name) for f in fields(self) if f.init)
        return type(self), tuple(dict(value) if isinstance(value, Mapping) else value for value in values)

    def __post_init__(self) -> None:
        if isinstance(self.attention, Mapping):
            for layer, rule in self.attention.items():
                _choice("attention rule", rule, AttentionRule)
                if not isinstance(layer, int) or isinstance(layer, bool) or layer < 1:
                    raise PlanError(f"layers count from 1, got {layer!r}")
            object.__setattr__(self, "attention", MappingProxyType(dict(self.attention)))
        else:
            _choice("attention rule", self.attention, AttentionRule)
        for kind, value, allowed in (
            ("attention rule", self.otherwise, AttentionRule),
            ("bias share", self.bias, BiasShare),
            ("norm rule", self.norm, NormRule),
            ("activation rule", self.activation, ActivationRule),
            ("product rule", self.product, ProductRule),
            ("bilinear form", self.bilinear, BilinearForm),
            ("gate rule", self.gate, CoefficientRule),
            ("expert rule", self.experts, CoefficientRule),
            ("linear rule", self.linear, LinearRule),
            ("rotary rule", self.rotary, RotaryRule),
        ):
            _choice(kind, value, allowed)
        for name, least in (("epsilon", 0.0), ("gamma", 0.0), ("conv_gamma", 0.0), ("alpha", 1.0)):
            _number(name, getattr(self, name), least=least)
        _number("temperature", self.temperature, least=0.0, above=True)
        if self.linear != "epsilon" and self.bias != "keep":
            raise PlanError(
                f"linear={self.linear!r} has a place for biases of its own: bias must be 'keep', got {self.bias!r}"
            )
        if self.bilinear == "canonical" and self.epsilon:
            raise PlanError(
                f"bilinear='canonical' has no stabilisers between its factors: epsilon must be 0, got {self.epsilon!r}"
            )
        object.__setattr__(self, "allow", frozenset(self.allow))
        self._check_operations()
        by_layer = self.attention if isinstance(self.attention, Mapping) else None
        object.__setattr__(self, "layers", tuple(sorted(by_layer or ())))
        attention = {self.attention} if by_layer is None else {*by_layer.values(), self.otherwise}
        none = attention | {self.norm, self.activation, self.product} == {"gradient"}
        linear = not self.epsilon and self.bias == "keep" and self.linear == "epsilon" and self.rotary == "pass"
        object.__setattr__(self, "plain", none and linear and not self.rules)

    def _check_operations(self) -> None:
        if self.rules or self.allow:
            # Rules read plans: what rules there are is known only after both.
            from looprop.propagation.known_operations import check_operations
            from looprop.propagation.rules.table import RULES

            check_operations(self.rules, "Plan(rules=...)", RULES)
            check_operations(sorted(self.allow), "Plan(allow=...)", RULES)

    def rule(self, layer: int) -> AttentionRule:
        """The attention rule of a layer (1-based)."""
        if isinstance(self.attention, Mapping):
            return self.attention.get(layer, self.otherwise)
        return self.attention

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results and manifests. Newer options stand there only where they are not at their default:
        what a plan was called before there were any stays what it is called.
        """
        attention: Any = self.attention
        if isinstance(attention, Mapping):
            attention = {str(layer): rule for layer, rule in sorted(attention.items())}
        return {
            "attention": attention,
            "otherwise": self.otherwise,
            "epsilon": self.epsilon,
            "bias": self.bias,
            "norm": self.norm,
            "activation": self.activation,
            "product": self.product,
            "bilinear": self.bilinear,
            "allow": sorted(self.allow),
            "rules": sorted(self.rules),
            "gate": self.gate,
            "experts": self.experts,
            **{name: getattr(self, name) for name in _NEWER if getattr(self, name) != getattr(Plan, name)},
        }


_NEWER = ("temperature", "linear", "gamma", "conv_gamma", "alpha", "rotary")


GRADIENT = Plan(attention="gradient", otherwise="gradient", norm="gradient", activation="gradient", product="gradient")
"""No rule at all: the ordinary gradient."""


def parse_layers(text: str, layers: int | None = None) -> list[int]:
    """Layer numbers from a short form: `3`, `4-6`, `:3` (first three), `4:` (from the fourth), `2,5`.

    An open end (`4:`) needs the number of layers.

    >>> parse_layers("4-6"), parse_layers(":3"), parse_layers("2,5"), parse_layers("4:", 6)
    ([4, 5, 6], [1, 2, 3], [2, 5], [4, 5, 6])
    """
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:(\d+)|(\d+)-(\d+)|:(\d+)|(\d+):)\s*", part)
        if match is None:
            raise PlanError(f"layers must look like 3, 4-6, :3, 4: or 2,5, got {text!r}")
        single, low, high, first, start = (int(g) if g else None for g in match.groups())
        if single is not None:
            found.add(single)
        elif low is not None and high is not None:
            if low > high:
                raise PlanError(f"layer range {part.strip()!r} runs backwards")
            found.update(range(low, high + 1))
        elif first is not None:
            found.update(range(1, first + 1))
        elif start is not None:
            if layers is None:
                raise PlanError(f"{part.strip()!r} needs to know the number of layers")
            if start > layers:
                raise PlanError(f"layer {start} does not exist: this model has {layers} attention layers")
            found.update(range(start, layers + 1))
    if 0 in found:
        raise PlanError(f"layers count from 1, got {text!r}")
    if not found:
        raise PlanError(f"no layer in {text!r}")
    return sorted(found)
