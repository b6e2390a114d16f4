"""The bar: what it says, and that it says nothing where nobody asked or nothing took long."""

import threading

import pytest

from looprop.progress import progress_bar, shown_by


def test_a_bar_counts_and_says_what_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("some [data]", 5, done=1) as advance:
        advance()
        advance("2 workers\x1b", 2)
        advance()
    said = capsys.readouterr().err
    assert "some [data]  2 workers␛" in said, "the last note stays, and no markup or control character is obeyed"
    assert "5/5" in said


def test_without_a_total_nothing_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("", note="loading") as advance:
        advance()
    said = capsys.readouterr().err
    assert "loading" in said
    assert "/" not in said


@pytest.mark.parametrize("options", [{"show": False}, {"patience": 3600.0}], ids=["not asked for", "not yet"])
def test_nothing_is_said(options: dict, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("title", 2, **options) as advance:
        advance("note")
    assert not capsys.readouterr().err.strip()
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_a_bar_appears_when_patience_ends(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class AtOnce(threading.Timer):
        """A timer that goes off when it is started, so that nobody has to wait."""

        def __init__(self, seconds: float, function: object) -> None:
            assert seconds == 3600.0
            super().__init__(0.0, function)  # type: ignore[arg-type]

        def start(self) -> None:
            super().start()
            self.join()

    monkeypatch.setattr(threading, "Timer", AtOnce)
    with progress_bar("title", 2, patience=3600.0) as advance:
        advance()
    assert "1/2" in capsys.readouterr().err


def test_an_error_ends_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="inside"), progress_bar("title", 2):
        raise RuntimeError("inside")
    assert "0/2" in capsys.readouterr().err


def test_a_function_is_called_in_the_place_of_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    heard = []
    with shown_by(lambda note="", count=1: heard.append((note, count)), "title", 2) as advance:
        advance("a", 2)
    assert heard == [("a", 2)]
    assert not capsys.readouterr().err
