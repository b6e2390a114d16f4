"""`looprop context`: documents and a question, a prompt or messages in one command; costs said, interruptions kept."""

import json
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Run
from looprop import load
from looprop.display import visible
from looprop.removal import SetFunction
from looprop.result import ExplanationMatrix

DOCUMENTS = {"a.txt": "The film is good . It was fun .", "b.txt": "the movie was bad .", "c.txt": "not very good ."}
QUESTION = "is the film good ?"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, text in DOCUMENTS.items():
        (tmp_path / name).write_text(text + "\n", encoding="utf-8")
    return [str(tmp_path / name) for name in DOCUMENTS]


def test_the_matrix_is_what_python_gives(looprop: Run, language_model: str, files: list[str]) -> None:
    arguments = ("--question", QUESTION, "--model", language_model, "--generate", "4", "--json")
    run = looprop("context", "--documents", *files, *arguments)
    assert run.exit_code == 0, run.output
    found = ExplanationMatrix.from_dict(json.loads(run.stdout))
    bench = load(language_model)
    answer = bench.context(DOCUMENTS, QUESTION, max_new_tokens=4)
    ours = bench.explain(answer, "loo", features="sentence", output="each")
    assert found.features == ours.features
    assert len(found.tokens) == len(answer)
    np.testing.assert_allclose(found.matrix, ours.matrix, atol=1e-5)
    assert f"{len(ours)} forward passes" in run.stderr, "what it costs is said before it starts"
    assert visible(answer.text) in run.stderr


def test_the_terminal_names_the_best_first_with_their_document(
    looprop: Run, language_model: str, files: list[str]
) -> None:
    run = looprop("context", *files, "--question", QUESTION, "--model", language_model, "--answer", "good")
    bench = load(language_model)
    e = bench.explain(bench.context(DOCUMENTS, QUESTION, "good"), "loo", features="sentence")
    assert run.exit_code == 0, run.output
    rows = [line for line in run.stdout.splitlines() if "│" in line]
    best = int(np.argmax(e.scores))
    assert e.features[best] in " ".join(rows[0].split())
    assert "→" in rows[0]
    assert any(name in rows[0] for name in DOCUMENTS)


def test_the_page_is_written_and_holds_the_documents(
    looprop: Run, language_model: str, files: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    arguments = ("--question", QUESTION, "--model", language_model, "--generate", "3", "--html", str(page))
    assert looprop("context", "--documents", *files, *arguments).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert all(f'<div class="name">{name}</div>' in text for name in DOCUMENTS)
    assert text.count('class="t"') == 3


def test_a_prompt_and_messages(looprop: Run, language_model: str, tmp_path: Path) -> None:
    prompt, messages = tmp_path / "prompt.txt", tmp_path / "messages.json"
    prompt.write_text("the film is good . is it ?", encoding="utf-8")
    messages.write_text(json.dumps([{"role": "user", "content": "the film is good . is it ?"}]), encoding="utf-8")
    model = ("--model", language_model, "--answer", "good", "--json")
    one = looprop("context", "--prompt-file", str(prompt), *model)
    other = looprop("context", "--messages", str(messages), *model)
    piped = looprop("context", "--prompt-file", "-", *model, stdin="the film is good . is it ?\n")
    assert one.exit_code == other.exit_code == piped.exit_code == 0, one.output + other.output + piped.output
    assert json.loads(one.stdout)["matrix"] == json.loads(other.stdout)["matrix"] == json.loads(piped.stdout)["matrix"]


def test_another_method_gives_the_whole_answer_and_says_its_cost(
    looprop: Run, language_model: str, files: list[str]
) -> None:
    arguments = ("--question", QUESTION, "--model", language_model, "--answer", "good", "-m", "attnlrp", "--json")
    run = looprop("context", "--documents", *files, *arguments)
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["method"] == "attnlrp"
    assert "3 forward passes" in run.stderr


def test_an_interruption_gives_what_is_known(
    looprop: Run, language_model: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ("--question", "good ?", "--model", language_model, "--answer", "good", "--json")
    first = looprop("context", *files, *whole)
    assert first.exit_code == 0, first.output
    every = json.loads(first.stdout)
    monkeypatch.setattr("looprop.progress.SHORT", -1.0)  # one at a time
    calls, compute = [0], SetFunction._compute

    def interrupted(self: SetFunction, *rest: object) -> None:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        compute(self, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(SetFunction, "_compute", interrupted)
    page = tmp_path / "part.html"
    run = looprop("context", *files, *whole, "--html", str(page))
    assert run.exit_code == 130
    some = json.loads(run.stdout)
    assert len(some["matrix"]) == 2
    assert some["explanation"]["features"] == every["explanation"]["features"][:2]
    np.testing.assert_allclose(some["matrix"], every["matrix"][:2], atol=1e-6)
    assert "2 of 4 features have no score" in run.stderr
    assert "2 of 4 features have no score" in page.read_text(encoding="utf-8")


def test_an_interruption_before_anything_is_known(
    looprop: Run, language_model: str, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SetFunction, "_compute", interrupted)
    run = looprop("context", *files, "--question", QUESTION, "--model", language_model, "--answer", "good")
    assert (run.exit_code, run.stdout) == (130, "")


def test_an_answer_ends_where_the_model_does(looprop: Run, language_model: str, files: list[str]) -> None:
    run = looprop("context", *files, "--question", QUESTION, "--model", language_model, "--json")
    assert run.exit_code == 0, run.output
    assert 1 <= len(json.loads(run.stdout)["tokens"]) < 50, "fifty more would be more than the 64 that it takes"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "give --documents with --question"),
        (("--question", "q"), 2, "--documents and --question go together"),
        (("--prompt-file", "x", "--messages", "y"), 2, "give --documents with --question"),
        (("--prompt-file", "nowhere.txt"), 1, "No such file"),
        (("--messages", "{bad}"), 1, "must be JSON"),
        (("--messages", "{object}"), 1, "must be a list of turns"),
        (("--prompt-file", "{empty}"), 1, "is empty"),
        (("--prompt-file", "{latin}"), 1, "must be UTF-8"),
        (("--prompt-file", "{good}", "-m", "lo"), 1, "did you mean"),
    ],
)
def test_what_is_wrong_is_said(
    looprop: Run, language_model: str, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    contents = {"bad": b"{", "object": b"{}", "empty": b" \n", "latin": b"\xe4", "good": b"the film"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    given = [part.format(**{name: tmp_path / name for name in contents}) for part in arguments]
    run = looprop("context", *given, "--model", language_model)
    assert run.exit_code == code, run.output
    assert said.lower() in " ".join(run.stderr.replace("│", " ").split()).lower()


def test_explain_adds_leave_one_out_unasked_only_where_it_is_cheap(
    looprop: Run, language_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(["the film is good"] * 3)
    several = ("explain", text, "--model", language_model, "-m", "cp-lrp", "-m", "attnlrp", "--json")

    def methods(*more: str) -> list[str]:
        run = looprop(*several, *more)
        return [one["method"] for one in json.loads(run.stdout)["explanations"]]

    assert methods() == ["loo", "cp-lrp", "attnlrp"]
    monkeypatch.setattr("looprop.cli.explaining.UNASKED", 5)
    assert methods() == ["cp-lrp", "attnlrp"]
    assert methods("--loo") == ["loo", "cp-lrp", "attnlrp"]
    assert methods("--features", "chunk:4") == ["loo", "cp-lrp", "attnlrp"]
    assert "--loo adds it" in looprop(*several).stderr
