"""How a method is named: `name`, or `name[option=value;option=value]`; several are parted by commas."""

import re
from functools import lru_cache


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
