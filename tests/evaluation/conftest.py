"""Fixtures of the evaluation tests."""

import pytest

from evaluation.tiny import tiny_model, tiny_tokenizer
from looprop.workbench import Workbench, load


@pytest.fixture(scope="session")
def tiny() -> Workbench:
    """A tiny text classifier, ready to be evaluated."""
    return load((tiny_model(), tiny_tokenizer()))
