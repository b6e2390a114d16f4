"""What is shown of explanations: their headline and facts, their features as a strip, several of them side by side."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from looprop.display.data import PatchedImage, Strip, chance, cut, number
from looprop.display.headline import headline, residual_said
from looprop.display.prompts import PromptView, Said, Section, prompt_frame, prompt_page
from looprop.display.prompts import shortened as in_short
from looprop.display.strips import View
from looprop.errors import DataError
from looprop.naming import split_name
from looprop.result.codec import from_data

if TYPE_CHECKING:
    from looprop.result.explanation import Explanation

LONGEST = 140  # at most so many characters of a text stand in a subtitle
LOST_WITHOUT = frozenset({"loo", "looprop", "coarse-to-fine"})
"""Methods whose score is what the answer's log-probability loses when a feature goes."""
Scores = Sequence[Sequence[float]]  # one row per feature, of one number or one per token of the answer
MOST_PATCHES = 4096  # of an image, in a row or a column


def strip_of(e: "Explanation", *, facts: Sequence[tuple[str, str]] | None = None, **more: Any) -> Strip:
    """The features of an explanation. facts: what is printed beside them, by default all there is; more: of `Strip`."""
    count = len(e.features)
    return Strip(
        features=e.features,
        scores=e.scores.tolist(),
        special=e.special,
        joined=[False, *(_continues(e, i) for i in range(1, count))] if count else [],
        breaks=[0, *(_breaks(e, i) for i in range(1, count))] if "\n" in e.text and count else (),
        outside_scale=frozenset(i for i, outside in enumerate(e.outside_scale) if outside),
        facts=_facts(e) if facts is None else facts,
        known=e.check.known if e.check is not None and not e.check.itself else {},
        verdict="" if e.check is None else e.check.verdict,
        alike=e.details.get("kind") not in ("weight", "none"),
        picture=_picture(e.details.get("picture"), count),
        **{"name": e.method, **more},
    )


def view_of(e: "Explanation", **more: Any) -> View:
    """Tokens and, where words have several pieces, words. more: of `Strip`."""
    tokens, words = strip_of(e, **more), e.words()
    shorter = len(words.features) < len(e.features)
    return View(tokens, strip_of(words, **{**more, "facts": tokens.facts}) if shorter else None)


def title_of(e: "Explanation") -> str:
    """What a person would say of it."""
    view, kind = view_of(e), str(e.details.get("kind", "effect"))
    shown, nothing = view.words or view.tokens, nothing_matters(e)
    return headline(target_said(e), shown, kind=kind, nothing_matters=nothing, output=e.output)


def nothing_matters(e: "Explanation") -> bool:
    """Has the check found that no feature matters by itself?"""
    return e.check is not None and e.check.matters is False


def target_said(e: "Explanation") -> str:
    """The target in words; a contrast is one class rather than another."""
    label = str(e.label)
    return label.replace(" - ", " rather than ", 1) if isinstance(e.target, tuple) else label.strip() or label


def subtitle_of(e: "Explanation") -> str:
    """The method, the model and the beginning of the text."""
    by = f"by {e.method}" + (f" on {e.model}" if e.model else "")
    text = shortened(e.text)
    return f"{by}: {text}" if text else by


def shortened(text: str) -> str:
    return cut(" ".join(text.split()), LONGEST)


def footer_of(e: "Explanation") -> str:
    """How scores are read, and the options in force."""
    flat = {name: value for name, value in e.options.items() if not isinstance(value, Mapping)}
    for inside in (value for value in e.options.values() if isinstance(value, Mapping)):
        flat |= inside
    options = ", ".join(f"{name} {value}" for name, value in flat.items() if str(value) not in ("None", "[]"))
    return f"Scores above zero speak for the target.{' Options: ' + options + '.' if options else ''}"


def note_of(e: "Explanation") -> str:
    """A sentence on what the scores are, where they are not what their name says."""
    if e.check is not None and e.check.itself and split_name(e.method)[0] != "loo":
        return "This text is short enough: exact leave-one-out is the cheaper way here, and these are its values."
    return ""


def tokens_read(e: "Explanation") -> str:
    """How many of how many tokens of a text that was cut; nothing where it is whole."""
    counts = e.details.get("truncated")
    both = [counts.get(name) for name in ("kept", "of")] if isinstance(counts, Mapping) else [None]
    return " of ".join(f"{count:,}" for count in both) if all(type(count) is int for count in both) else ""


def _facts(e: "Explanation") -> list[tuple[str, str]]:
    check, probability, instead = e.check, e.details.get("probability"), e.details.get("instead_of")
    likely = chance(probability) if isinstance(probability, float) and 0 <= probability <= 1 else ""
    checked = f", {check.cost:g} of them for the check" if check and check.cost > 0 else ""
    facts = [
        ("model", e.model),
        ("method", e.method),
        ("target", e.label),
        ("tokens read", tokens_read(e)),
        ("probability", likely),
        ("log-probability" if e.details.get("log_probability") else "output", number(e.output)),
        ("sum of scores", number(float(e.scores.sum()))),
        ("left over", "" if e.residual is None else residual_said(e.residual, e.output)),
        ("cost", passes(e.cost, "forward pass") + checked if e.cost > 0 else ""),  # not if it is NaN, either
        ("time", _time(e.seconds)),
        ("r to leave-one-out", check.verdict if check else ""),
        ("removed by", check.removal if check else ""),
    ]
    facts += [(f"instead of {m}", str(why)) for m, why in instead.items()] if isinstance(instead, Mapping) else []
    return [(name, value) for name, value in facts if value]


def passes(cost: float, noun: str = "pass") -> str:
    """A number of forward passes, whole where it is.

    >>> passes(11.0), passes(3.66667), passes(400.25), passes(1.0, "forward pass")
    ('11 passes', '3.7 passes', '400 passes', '1 forward pass')
    """
    decimals = 0 if cost == round(cost) or cost >= 100 else 1
    return f"{cost:.{decimals}f} {noun}" + ("" if cost == 1 else "es")


def _time(seconds: float) -> str:
    if not seconds > 0:
        return ""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _continues(e: "Explanation", i: int) -> bool:
    """Whether feature i follows the one before it without a space."""
    before, here = e.offsets[i - 1], e.offsets[i]
    if before is not None and here is not None and before[1] > before[0]:
        return before[1] == here[0] and not e.text[here[0] : here[0] + 1].isspace()
    return e.word_ids[i] is not None and e.word_ids[i] == e.word_ids[i - 1]


def _breaks(e: "Explanation", i: int) -> int:
    """Line breaks between feature i and the one before it, of a text whose tokens do not hold them."""
    before, here = e.offsets[i - 1], e.offsets[i]
    return 0 if before is None or here is None else e.text[before[1] : here[0]].count("\n")


def _picture(given: Any, features: int) -> PatchedImage | None:
    """The image of an explanation; None where there is none, or what a file says of it is none."""
    if given is None:
        return None
    try:
        drawn = from_data(PatchedImage, given)
    except DataError:
        return None
    patches = all(0 < count <= MOST_PATCHES for count in (drawn.rows, drawn.columns))
    sides = all(0 < side <= 2 for side in (drawn.wide, drawn.high))
    png = re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", drawn.png)
    return drawn if patches and sides and png and drawn.fits(features) else None


def compared(group: Sequence["Explanation"], *, models: bool) -> list[View]:
    """The views of explanations of one text. r is taken to the references of the same model and target among them,
    special tokens left out; where features are removed in several ways, to the leave-one-out that removes as the method
    does, if there is one, and its name says how. models: there are several, and each is named.
    """
    views = []
    removals = {e.details.get("removal") for e in group} - {None}
    for e in group:
        loo, shapley = (_reference(e, group, name) for name in ("loo", "shapley"))
        r, r_shapley = (None if ref is None else e.correlation(ref, special=False) for ref in (loo, shapley))
        spent = ", ".join(filter(None, [passes(e.cost), _time(e.seconds)])) if e.cost > 0 else ""
        facts = [("cost", spent)] if spent else []
        if r is None and e.check is not None:
            facts.insert(0, ("r to leave-one-out", e.check.verdict))
        facts += [("target", e.label)] if len({own.label for own in group}) > 1 else []
        facts += [("removes by", str(e.details["removal"]))] if len(removals) > 1 and "removal" in e.details else []
        name = f"{e.method} · {e.model}" if models and e.model else e.method
        by = str(loo.details.get("removal", "")) if loo is not None and len(removals) > 1 else ""
        views.append(view_of(e, facts=facts, r=r, r_shapley=r_shapley, name=name, removal=by))
    return views


def _reference(e: "Explanation", group: Sequence["Explanation"], name: str) -> "Explanation | None":
    """The reference of that name for the same model and target: that which removes as the method does, or any."""
    own = [o for o in group if split_name(o.method)[0] == name and (o.model, o.label) == (e.model, e.label)]
    if len(group) < 2 or not own:
        return None
    removal = e.details.get("removal")
    return next((o for o in own if removal is None or o.details.get("removal") == removal), own[0])


def other_removal(e: "Explanation", group: Sequence["Explanation"]) -> str:
    """What there is to say of an explanation whose r is to a leave-one-out that removes otherwise than it does."""
    loo = _reference(e, group, "loo")
    ours, theirs = (None if x is None else x.details.get("removal") for x in (e, loo))
    if not ours or not theirs or ours == theirs:
        return ""
    return (
        f"{e.method} estimates removal by {ours}, and its r is to a leave-one-out by {theirs}: "
        f"loo[removal={ours}] is the one to compare it with."
    )


def has_prompt(e: "Explanation") -> bool:
    """Do the details of an explanation hold an answer and the layout of its prompt?"""
    return isinstance(e.details.get("prompt"), Mapping) and isinstance(e.details.get("answer"), Mapping)


def prompt_html(e: "Explanation", scores: Scores | None = None, *, framed: bool = False) -> str:
    """The page, or the frame of a notebook. scores: by default those of the explanation."""
    view = prompt_view(e, scores)
    title = f"What made the model say “{in_short(e.label.strip())}”?"
    footer = "Scores are in log-probability: above zero speaks for the answer. What is dimmed was always kept."
    return prompt_frame(title, view) if framed else prompt_page(title, view, footer=footer)


def prompt_view(e: "Explanation", scores: Scores | None = None) -> PromptView:
    """What is shown of these scores, by default those of the explanation."""
    laid, answer = e.details["prompt"], e.details["answer"]
    start, stop = answer.get("part", (0, len(answer["tokens"])))
    others = answer.get("alternatives") or [[]] * len(answer["tokens"])
    tokens = [
        Said(token, math.nan if logprob is None else logprob, [(word, value) for word, value in place if word != token])
        for token, logprob, place in list(zip(answer["tokens"], answer["logprobs"], others, strict=True))[start:stop]
    ]
    turns, documents = ([Section(*part) for part in laid.get(kind, ())] for kind in ("turns", "documents"))
    levels, unopened = e.details.get("levels") or (), e.details.get("not_opened") or {}
    kept = [i for i in range(min(len(e.features), len(levels))) if str(i) in unopened]
    notes = {i: f"{levels[i]} as a whole, not looked into: {unopened[str(i)]}" for i in kept}
    effects = split_name(e.method)[0] in LOST_WITHOUT
    shown = e.scores[:, None].tolist() if scores is None else scores
    pairs = [
        ("model", e.model),
        ("method", e.method),
        ("log-probability of the answer", number(e.output)),
        ("cost", f"{number(e.cost, signed=False)} forward passes" if e.cost > 0 else ""),
        ("time", f"{e.seconds:.1f} s" if e.seconds > 0 else ""),
        ("interrupted", str(e.details.get("interrupted") or "")),
    ]
    facts = [pair for pair in pairs if pair[1]]
    return PromptView(e.text, e.offsets, e.features, shown, tokens, turns, documents, effects, facts, notes)
