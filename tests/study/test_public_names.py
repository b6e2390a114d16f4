"""What `looprop.study` offers: sorted, each importable, and the names of experiments without torch."""

import subprocess
import sys

import looprop.study


def test_every_public_name_is_there() -> None:
    assert looprop.study.__all__ == sorted(looprop.study.__all__)
    assert set(looprop.study.__all__) <= set(dir(looprop.study))
    for name in looprop.study.__all__:
        assert getattr(looprop.study, name).__name__ == name


def test_names_of_experiments_do_not_wait_for_torch() -> None:
    code = "import sys; from looprop.study import experiment_names; print(experiment_names(), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{looprop.study.experiment_names()} False"
