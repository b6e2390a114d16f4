"""What people and machines may throw at the command line: no traceback, the right exit code, one line, nothing
half-written.
"""

import shutil
from pathlib import Path

import pytest
import transformers as hf

from cli.conftest import Run
from tiny import wordpiece
from tiny_heads import VISION, model_of

LONG = "the film is not good " * 5000  # 105,000 characters
PAIR = ["-m", "attnlrp", "-m", "random"]

# name: (arguments after `explain --model M`, standard input, exit code, what standard error says)
HOSTILE: dict[str, tuple[list[str], str | bytes | None, int, str]] = {
    "empty text": ([""], None, 1, "empty"),
    "nothing but spaces": ([" \t\n "], None, 1, "empty"),
    "no text at all": ([], None, 2, "give a text"),
    "text and prompt": (["good", "--prompt", "good"], None, 2, "not both"),
    "two texts": (["good", "bad"], None, 2, "bad"),
    "100,000 characters": ([LONG], None, 1, "--truncate"),
    "100,000 characters in one word": (["a" * 100_000], None, 0, ""),
    "control characters": (["good\x01\x1b[31m\x07 bad\r\x08"], None, 0, ""),
    "right-to-left override": (["good \u202edab\u202c \u2066x\u2069 שלום"], None, 0, ""),
    "emoji with joiners": (["👩‍👩‍👧 good 🏳️‍🌈 e\u0301\u0301\u0301"], None, 0, ""),
    "markup of the terminal library": (["[bold]good[/bold] [/] [red]"], None, 0, ""),
    "text that looks like an option": (["--", "--good"], None, 0, ""),
    "not Unicode": (["good \udcff"], None, 1, "Unicode"),
    "not UTF-8 on standard input": (["-"], b"good \xff\xfe", 1, "UTF-8"),
    "a zero byte on standard input": (["-"], b"good \x00 bad", 0, ""),
    "nothing on standard input": (["-"], b"", 1, "empty"),
    "unknown method": (["good", "-m", "atnlrp"], None, 1, "did you mean 'attnlrp'"),
    "a method in capitals": (["good", "-m", "CP-LRP"], None, 1, "did you mean 'cp-lrp'"),
    "empty method": (["good", "-m", ""], None, 1, "unknown method"),
    "unclosed bracket": (["good", "-m", "lrp[cp=1"], None, 1, "unknown method"),
    "unknown option of a method": (["good", "-m", "ig[step=4]"], None, 1, "did you mean 'steps'"),
    "value out of range": (["good", "-m", "ig[steps=0]"], None, 1, "steps must be an integer >= 1, got 0"),
    "wrong type of value": (["good", "-m", "looprop[rows=many]"], None, 1, "rows"),
    "layers that run backwards": (["good", "-m", "lrp[cp=2-1]"], None, 1, "backwards"),
    "layer zero": (["good", "-m", "lrp[cp=0]"], None, 1, "count from 1"),
    "a layer that the model does not have": (["good", "-m", "lrp[cp=1-99]"], None, 1, "2 attention layers"),
    "layers that are no numbers": (["good", "-m", "lrp[cp=last]"], None, 1, "layers must look like"),
    "unknown label": (["good", "--target", "postive"], None, 1, "did you mean 'positive'"),
    "class out of range": (["good", "--target", "3"], None, 1, "3 classes"),
    "negative class": (["good", "--target", "-1"], None, 1, "does not exist"),
    "contrast with itself": (["good", "--target", "1,1"], None, 1, "two different"),
    "chunks of nothing": (["good", "--features", "chunk:0"], None, 1, "chunk:N"),
    "prompt for a classifier": (["--prompt", "good"], None, 1, "language models"),
    "continuation of a classifier": (["good", "--continuation", "bad"], None, 1, "language models"),
    "two kinds of target": (["good", "--target", "1", "--generate", "2"], None, 2, "exclude"),
    "no tokens to generate": (["good", "--generate", "0"], None, 2, "--generate"),
    "unknown option": (["good", "--colour"], None, 2, "--colour"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_explain(name: str, looprop: Run, classifier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, stdin, code, said = HOSTILE[name]
    place = tmp_path / "page.html"
    monkeypatch.chdir(tmp_path)
    result = looprop("explain", "--model", classifier, "--html", str(place), *arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    if code == 1:
        assert result.stdout == ""
        assert len(result.stderr.splitlines()) == 1
        assert result.stderr.startswith("looprop: ")
    assert [path.name for path in tmp_path.iterdir()] == (["page.html"] if code == 0 else [])
    shown = set(result.stdout + result.stderr) - {"\n"}
    assert not any(ord(c) < 32 or c in "\u202e\u2066\x7f" for c in shown), "control characters reach the terminal"


def test_what_looks_like_markup_is_shown_as_it_is(looprop: Run, classifier: str) -> None:
    # The tiny tokenizer knows no word "red": its letters stand alone.
    assert "[[" in looprop("explain", "[red]good[/]", "--model", classifier).stdout


@pytest.mark.parametrize("methods", [PAIR[:2], PAIR])
def test_a_long_text_can_be_cut_which_is_said(looprop: Run, classifier: str, methods: list[str]) -> None:
    result = looprop("explain", LONG, "--model", classifier, "--truncate", *methods)
    assert result.exit_code == 0, result.output
    assert "32 of 25,002" in result.stdout


def test_an_evaluation_says_what_it_cut(looprop: Run, classifier: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{LONG}\nthe film\n", encoding="utf-8")
    result = looprop("evaluate", str(texts), "--model", classifier, "-m", "random", "--metric", "loo-r")
    assert "1 of 2 texts was cut to what the model takes: 32 of its 25,002 tokens are read." in flat(result.stdout)


def flat(text: str) -> str:
    """Without the line breaks of a narrow terminal."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nowhere/page.html", "there is no folder"),
        ("page.pdf", "must end in .html"),
        ("page", "must end in .html"),
        ("folder.html", "it is a folder"),
    ],
)
def test_places_that_cannot_be_written_are_found_before_anything_is_computed(
    looprop: Run, classifier: str, tmp_path: Path, place: str, said: str
) -> None:
    (tmp_path / "folder.html").mkdir()
    result = looprop("explain", "good", "--model", "no such model", "--html", str(tmp_path / place))
    assert (result.exit_code, said in result.stderr) == (1, True), result.output


@pytest.mark.parametrize(
    "damage",
    [
        "no such folder",
        "empty folder",
        "no weights",
        "pickled weights",
        "half the weights",
        "broken config",
        "strange kind",
    ],
)
def test_models_that_cannot_be_loaded(looprop: Run, classifier: str, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "model"
    if damage != "no such folder":
        shutil.copytree(classifier, folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    if damage == "empty folder":
        shutil.rmtree(folder)
        folder.mkdir()
    elif damage == "no weights":
        weights.unlink()
    elif damage == "pickled weights":
        weights.rename(folder / "pytorch_model.bin")
    elif damage == "half the weights":
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    elif damage == "broken config":
        config.write_text("{", encoding="utf-8")
    elif damage == "strange kind":
        config.write_text(
            config.read_text(encoding="utf-8").replace("ForSequenceClassification", "ForPreTraining"), encoding="utf-8"
        )
    result = looprop("explain", "good", "--model", str(folder))
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("looprop: ")
    assert "Traceback" not in result.output


def test_debug_shows_where(looprop: Run, classifier: str) -> None:
    result = looprop("explain", "good", "--model", classifier, "-m", "ig[steps=0]", "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "ig.py" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["evaluate", "no-such-file.txt"], 1, "no such file"),
        (["evaluate", "sst3"], 1, "did you mean 'sst2'"),
        (["evaluate", "empty.txt"], 1, "no texts"),
        (["evaluate", "texts.csv", "--column", "txt"], 1, "expected a column 'txt'"),
        (["evaluate", "texts.csv", "--metric", "loo-rr"], 1, "did you mean 'loo-r'"),
        (["evaluate", "texts.csv", "-m", "lo"], 1, "did you mean 'loo'"),
        (["evaluate", "texts.csv", "--removal", "burn"], 1, "removal"),
        (["evaluate", "texts.csv", "--protocol", "none"], 1, "protocol"),
        (["evaluate", "texts.csv", "--limit", "0"], 2, "--limit"),
        (["evaluate", "texts.csv", "--split", "dev"], 2, "--split"),
        (["evaluate"], 2, "data"),
        (["reproduce", "layer"], 1, "did you mean 'layers'"),
        (["reproduce", "broken.yaml"], 1, "broken.yaml"),
        (["report", "."], 1, "not a run folder"),
        (["demo", "--html", "page.txt"], 1, "must end in .html"),
        (["exlain", "good"], 2, "exlain"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_other_commands(
    looprop: Run,
    classifier: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n\n", encoding="utf-8")
    Path("texts.csv").write_text("text\ngood film\n", encoding="utf-8")
    Path("broken.yaml").write_text("name: [", encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    model = ["--model", classifier] if arguments[0] == "evaluate" else []
    result = looprop(*arguments, *model)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tiny model of images and its processor."""
    folder = tmp_path_factory.mktemp("images")
    hf.ViTForImageClassification(hf.ViTConfig(**VISION, num_labels=3)).save_pretrained(folder)
    hf.ViTImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tiny model that answers questions."""
    folder = tmp_path_factory.mktemp("questions")
    for part in (model_of("bert-qa"), wordpiece()):
        part.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("arguments", [["evaluate", "demo"], ["audit", "demo"], ["demo"], ["explain", "good"]])
def test_commands_of_texts_refuse_a_model_of_images(looprop: Run, images: str, arguments: list[str]) -> None:
    result = looprop(*arguments, "--model", images)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert "does not read texts: give it images from Python" in result.stderr
    assert "docs/how-to/vision-transformer.md" in result.stderr


def test_a_question_without_its_context(looprop: Run, questions: str) -> None:
    alone = looprop("explain", "what", "--model", questions, "-m", "loo")
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert "answers questions: give it QUESTION --pair CONTEXT, got one text" in alone.stderr
    assert looprop("explain", "what", "--pair", "the film", "--model", questions, "-m", "loo").exit_code == 0
    assert "(question" not in alone.stderr
