"""What `looprop.auditing` gives to users, and that it costs no torch before it is used."""

import subprocess
import sys

import pytest

import looprop.auditing


def test_all_is_sorted_and_everything_in_it_is_there() -> None:
    names = looprop.auditing.__all__
    assert names == sorted(names)
    assert set(names) <= set(dir(looprop.auditing))
    for name in names:
        assert getattr(looprop.auditing, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Audits'"):
        looprop.auditing.Audits  # noqa: B018


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, looprop.auditing, looprop.auditing.catalogue; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
