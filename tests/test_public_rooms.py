"""What four rooms give to users: every name of `__all__` is there, and torch is not imported before it is needed."""

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

ROOMS = ["looprop.display", "looprop.evaluation", "looprop.inputs", "looprop.running"]


@pytest.mark.parametrize("name", ROOMS)
def test_every_public_name_is_there(name: str) -> None:
    room = import_module(name)
    for public in room.__all__:
        assert not isinstance(getattr(room, public), ModuleType), f"{name}.{public} is hidden by a file"
        assert public in dir(room)
    assert len(set(room.__all__)) == len(room.__all__)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nonsense'"):
        _ = room.nonsense


@pytest.mark.parametrize(
    "code",
    [
        *(f"import {room}" for room in ROOMS),
        "from looprop.evaluation import Evaluation",
        "from looprop.inputs import read_data; read_data('demo')",
        "from looprop.running import get_engine, progress_bar; get_engine('local')",
    ],
)
def test_no_torch_before_it_is_needed(code: str) -> None:
    script = f"import sys; {code}; print({{'torch', 'pandas', 'matplotlib', 'transformers'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
