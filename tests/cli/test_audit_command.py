"""`looprop audit`: what it prints and writes, and what it refuses."""

import json
from pathlib import Path

import pytest

from browser import Browser
from cli.conftest import Run
from looprop.auditing import Audit
from looprop.auditing.catalogue import CATALOGUE

TEXTS = ["the film is not good", "a very bad movie"]


@pytest.fixture
def texts(tmp_path: Path) -> str:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return str(path)


def test_the_product_in_the_terminal(looprop: Run) -> None:
    shown = looprop("audit", "product", "-m", "loo", "-m", "attnlrp", "-m", "rollout", "--no-color")
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert "✓ loo: the same explanation" in text
    assert "✗ attnlrp: another explanation under 1 of 1 rewrites" in text
    assert "– rollout: says nothing about this model" in text
    assert "nothing to change for: scale-moved" in text
    row = next(line for line in shown.stdout.splitlines() if line.startswith("reassociated"))
    assert row.split() == ["reassociated", "0", "50"]


def test_json_and_page(looprop: Run, classifier: str, texts: str, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    arguments = (
        "audit",
        texts,
        "--model",
        classifier,
        "-m",
        "attnlrp",
        "-m",
        "random",
        "-r",
        "vo-turned",
        "-r",
        "norm-folded",
    )
    result = looprop(*arguments, "--json", "--html", str(page))
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    (tmp_path / "audit.json").write_text(result.stdout, encoding="utf-8")
    loaded = Audit.load(tmp_path / "audit.json")
    assert loaded.applied == ["vo-turned", "norm-folded"]
    assert loaded.methods == ["attnlrp", "random"]
    assert said["about"]["inputs"] == 2
    assert len(said["about"]["weights"]) == 64
    assert said["about"]["versions"]["torch"]
    written = page.read_text(encoding="utf-8")
    for word in ("vo-turned", "norm-folded", "attnlrp", "invariant", "hardly looks at the model", "also goes to"):
        assert word in written
    assert "<script src" not in written
    assert "http://" not in written


@pytest.mark.browser
def test_the_page_opens_without_errors(looprop: Run, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    assert looprop("audit", "product", "-m", "loo", "-m", "attnlrp", "--html", str(page)).exit_code == 0
    browser.open(page)
    assert browser.errors == []
    assert browser.evaluate("document.querySelectorAll('td.heat').length") == 2
    assert browser.evaluate("document.querySelectorAll('section.card').length") >= 5


def test_every_rewrite_can_be_named(looprop: Run) -> None:
    shown = " ".join(looprop("audit", "--help").output.split())
    assert all(name.split("-")[0] in shown for name in CATALOGUE)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["audit", "product", "-r", "vo-turnd"], 1, "did you mean 'vo-turned'"),
        (["audit", "product", "-m", "lop"], 1, "unknown method 'lop'"),
        (["audit", "product", "--precision", "half"], 1, "unknown precision 'half'"),
        (["audit", "product", "--model", "x"], 2, "brings its own model"),
        (["audit", "product", "--html", "page.txt"], 1, "must end in .html"),
        (["audit", "nowhere.txt"], 1, "nowhere.txt"),
        (["audit"], 2, "Missing argument"),
    ],
)
def test_refusals_in_one_line(looprop: Run, arguments: list[str], code: int, message: str) -> None:
    result = looprop(*arguments)
    assert result.exit_code == code
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output


def test_an_unknown_name_is_told_what_there_is(looprop: Run) -> None:
    done = looprop("audit", "prodct")
    assert done.exit_code != 0
    assert "did you mean 'product'" in done.stderr
