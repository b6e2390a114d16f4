"""Fixtures of the command line's tests: tiny models in folders, and the command run in this process."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from looprop.cli.main import app
from tiny import CHAT, tiny_classifier, tiny_decoder

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tiny text classifier: labels negative, neutral, positive; at most 32 tokens."""
    folder = tmp_path_factory.mktemp("classifier")
    for part in tiny_classifier():
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tiny language model and a chat template."""
    folder = tmp_path_factory.mktemp("language-model")
    model, tokenizer = tiny_decoder()
    tokenizer.chat_template = CHAT
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def looprop() -> Run:
    """Runs the command in this process."""

    def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=stdin)

    return run
