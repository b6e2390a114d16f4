"""Random sequences of changes and explanations of one tiny model, each explanation held to that of a new process."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from attacks.changes.judging import judged, rounding
from attacks.changes.questions import TEXTS, Asker, Question
from attacks.changes.sequence import Step, beside, imported, started, state, steps
from attacks.changes.zygote import Said, Zygote, said
from attacks.verdict import Outcome

# Every so many sequences, their last question is also asked in an interpreter that is started for it.
FRESH_EVERY = 100
# Writes to a few values past torch's count, after which docs/what-is-checked.md asks for `refresh`.
UNSEEN = ("one element by numpy", "one element of data", "data slice")
Verdict = tuple[int, str, str]
"""(number of the step, kind, why)"""


@cache
def zygote(process: int) -> Zygote:
    """That of this process."""
    return Zygote()


def prepare() -> None:
    """Import everything, here and there."""
    imported()
    zygote(os.getpid())


def _asked(asker: Asker, step: Step, done: list[Step]) -> tuple[Said, list[Any], list[tuple[Said, Any]]]:
    """What is said; the states that may be explained; what another thread was told, with its question."""
    q = step.question
    assert q
    before = (list(done), state(asker, q.on, done), q)
    change = replace(step, question=None, during="")
    others: list[tuple[Said, Any]] = []
    if not step.during:
        return said(lambda: asker.ask(q)), [before], others
    if not step.name:
        second = Question("explain", q.on, TEXTS[step.seed % len(TEXTS)], "loo" if step.seed % 2 else "attnlrp")
        other = Asker(asker.world, {})
        work: Callable[[], Any] = lambda: others.append((said(lambda: other.ask(second)), (*before[:2], second)))  # noqa: E731
        return beside(lambda: said(lambda: asker.ask(q)), work, step.seed % 20 / 1000), [before], others

    def changed(*_: Any) -> None:
        if change not in done:
            done.append(change)
            change.change(asker.world)

    if step.during == "thread":
        found = beside(lambda: said(lambda: asker.ask(q)), changed, step.seed % 40 / 1000)
    else:
        found = said(lambda: asker.ask(q, progress=changed))
    return found, [before, (list(done), state(asker, q.on, done), q)], others


def played(seed: int, parts: Sequence[Step], fresh: bool = False) -> list[Verdict]:
    """The verdicts of all questions, up to the first finding."""
    asker, done, verdicts = started(seed), list[Step](), list[Verdict]()
    source = zygote(os.getpid())
    try:
        for at, step in enumerate(parts):
            q = step.question
            if not q:
                step.change(asker.world)
                done.append(step)
                if step.name in UNSEEN:
                    asker.refresh()
                continue
            never_met = not done and not verdicts and not step.during
            found, states, others = _asked(asker, step, done)
            if never_met and found.kind == "value" and seed % 4:
                verdicts.append((at, "right", "the first question of all is the truth by itself"))
                continue
            near = rounding(asker.world.module(q.on))
            told = [source.truth((seed, *one)) for one in states]
            if fresh and at == len(parts) - 1:
                told += [_in_a_new_interpreter((seed, *one)) for one in states]
            held = [(found, told, bool(q.kept or step.during))]
            held += [(one, [source.truth((seed, *its))], True) for one, its in others]
            for one, truths, may_refuse in held:
                kind, why = judged(one, truths, near, may_refuse=may_refuse)
                verdicts.append((at, kind, why))
                if kind in ("wrong", "traceback", "hang"):
                    return verdicts
    finally:
        asker.world.end()
    return verdicts


def _in_a_new_interpreter(request: Any) -> Said:
    started_for_it = Zygote()
    try:
        return started_for_it.truth(request)
    finally:
        started_for_it.end()


def shrunk(seed: int, parts: list[Step], numbers: list[int], kind: str) -> list[int]:
    """The numbers of the steps that are needed for the same kind of finding at the last of them."""
    for number in numbers[:-1]:
        without = [n for n in numbers if n != number]
        verdicts = played(seed, [parts[n] for n in without])
        if verdicts and verdicts[-1][:2] == (len(without) - 1, kind):
            numbers = without
    return numbers


def named(seed: int, parts: list[Step], numbers: list[int], kind: str, why: str) -> str:
    """A finding in words: its class, then what it is, then the command for its steps only."""
    last = parts[numbers[-1]]
    q = last.question
    assert q
    before = [parts[n].name for n in numbers[:-1] if parts[n].name]
    how = f" while {last.name or 'another explains'} by {last.during}" if last.during else ""
    kept = " kept" if q.kept else ""
    asked = f"{q.kind}{kept} {q.method}" if q.kind in ("explain", "list", "answer") else q.kind + kept
    command = f"python -m attacks.changes {seed} {' '.join(map(str, numbers))}"
    return f"{asked}{how} after {', '.join(before) or 'nothing'} | {why[:300]} | {command}"


def case(seed: int) -> Outcome:
    """One sequence."""
    parts = steps(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdicts = played(seed, parts, fresh=seed % FRESH_EVERY == 0)
        at, kind, why = verdicts[-1]
        numbers = list(range(at + 1))
        over = tuple(
            named(seed, parts, shrunk(seed, parts, list(range(place + 1)), "over"), "over", reason)
            for place, what, reason in verdicts
            if what == "over"
        )
        if kind in ("wrong", "traceback", "hang"):
            if parts[at].during != "thread":
                numbers = shrunk(seed, parts, numbers, kind)
            return Outcome(kind, named(seed, parts, numbers, kind, why), len(verdicts), over)
    refused = next((why for _, kind, why in verdicts if kind in ("refused", "over")), "")
    return Outcome("refused" if refused else "right", refused, len(verdicts), over)
