"""How a method is named: `name`, or `name[option=value;option=value]`, several parted by commas; and unknown names."""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import TypeVar

from looprop.errors import UnknownNameError

T = TypeVar("T")


@lru_cache
def split_name(method: str) -> tuple[str, str]:
    """A method's name and what stands in brackets behind it. Anything else is a name as a whole.

    >>> split_name("lrp[cp=4-6]"), split_name("loo"), split_name("lrp[cp=4")
    (('lrp', 'cp=4-6'), ('loo', ''), ('lrp[cp=4', ''))
    """
    match = re.fullmatch(r"([\w-]+)(?:\[(.*)\])?", method.strip())
    return (method.strip(), "") if match is None else (match[1], match[2] or "")


def split_names(names: str) -> list[str]:
    """Names that are parted by commas; those inside brackets part options.

    >>> split_names("loo, shapley[samples=8,seed=1]")
    ['loo', 'shapley[samples=8,seed=1]']
    """
    return [name.strip() for name in re.split(r",(?![^\[]*\])", names)]


def one_of(what: str, name: T, known: Collection[T]) -> T:
    """The name, if it is among those known; else an error that names the closest. what: the kind of thing it names.

    >>> one_of("baseline", "zero", ("zero", "pad"))
    'zero'
    """
    if name not in known:
        raise UnknownNameError(what, str(name), map(str, known))
    return name
