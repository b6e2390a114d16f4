"""An audit whose parts are computed elsewhere, in any order: the same audit."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import looprop
from auditing.pieces import bench
from looprop.errors import ClusterError, ShardError

OPTIONS: dict[str, Any] = {"methods": ["loo", "attnlrp"], "rewrites": ["linear-split", "norm-split"]}


def elsewhere(work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """What an engine on other machines does, last part first."""
    there = pickle.loads(pickle.dumps(work))
    return (pickle.loads(pickle.dumps(there(item))) for item in reversed(items))


@pytest.mark.parametrize("checks", [True, False])
def test_parts_computed_elsewhere_give_the_same_audit(checks: bool) -> None:
    m, texts = bench("bert")
    here = looprop.audit(m, texts, checks=checks, **OPTIONS)
    there = looprop.audit(m, texts, checks=checks, engine=elsewhere, **OPTIONS)
    assert repr((there.attempts, there.rows, there.checks)) == repr((here.attempts, here.rows, here.checks))


def fails_on(name: str) -> Callable[..., Iterator[Any]]:
    def engine(work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        yield from (work(item) for item in items if item.id != name)
        raise ShardError({name: "the worker died"}, attempts=3)

    return engine


def test_a_rewrite_that_fails_again_and_again_is_refused() -> None:
    result = looprop.audit(*bench("bert"), engine=fails_on("norm-split"), checks=False, **OPTIONS)
    assert [(attempt.rewrite, attempt.status, attempt.reason) for attempt in result.attempts] == [
        ("linear-split", "applied", ""),
        ("norm-split", "refused", "the worker died"),
    ]


def test_checks_that_fail_again_and_again_end_the_audit() -> None:
    with pytest.raises(ClusterError, match="the sanity checks failed 3 times: the worker died"):
        looprop.audit(*bench("bert"), engine=fails_on("sanity checks"), **OPTIONS)
