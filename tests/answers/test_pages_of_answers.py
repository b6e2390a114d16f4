"""Explained answers as pages and in notebooks: the prompt beside the answer, and what was not looked into says so."""

import json
import re
from pathlib import Path

import pytest

from looprop.errors import InputError
from looprop.result import Explanation, ExplanationMatrix
from looprop.workbench import Workbench, load
from tiny import CHAT, tiny_decoder

DOCUMENTS = {"one": "The film is good . It was fun .", "two": "The movie was bad ."}


@pytest.fixture(scope="module")
def bench() -> Workbench:
    model, tokenizer = tiny_decoder()
    tokenizer.chat_template = CHAT
    return load((model, tokenizer))


def page(explained: Explanation | ExplanationMatrix, folder: Path) -> str:
    return explained.save(folder / "page.html").read_text(encoding="utf-8")


def numbers(source: str) -> list[list[float]]:
    found = re.search('id="matrix">(.*?)</script>', source)
    assert found is not None
    scores: list[list[float]] = json.loads(found[1])["scores"]
    return scores


def test_the_page_holds_the_matrix_and_the_frame_too(bench: Workbench, tmp_path: Path) -> None:
    answer = bench.context(DOCUMENTS, "Good ?", "good fun")
    each = bench.explain(answer, "loo", features="sentence", output="each")
    assert numbers(page(each, tmp_path)) == [pytest.approx(row, rel=1e-5, abs=1e-9) for row in each.matrix.tolist()]
    assert each._repr_html_() is not None
    assert "<iframe" in str(each._repr_html_())
    again = ExplanationMatrix.from_dict(json.loads(json.dumps(each.to_dict())))
    assert numbers(page(again, tmp_path)) == numbers(page(each, tmp_path)), "also once it was saved and read"


def test_one_score_per_feature_is_one_column(bench: Workbench, tmp_path: Path) -> None:
    answer = bench.context(DOCUMENTS, "Good ?", "good fun")
    e = bench.explain(answer, "attnlrp", features="document")
    source = page(e, tmp_path)
    assert [len(row) for row in numbers(source)] == [1, 1]
    assert "→" not in source.split("<script>")[0], "a share of relevance is no effect of removal"
    assert e._repr_html_().startswith("<div data-looprop-frame><iframe")


def test_a_part_of_the_answer_shows_its_own_tokens(bench: Workbench, tmp_path: Path) -> None:
    answer = bench.context(DOCUMENTS, "Good ?", "good fun")
    source = page(bench.explain(answer[0:1], "loo", features="document"), tmp_path)
    assert source.count('<span class="t"') == 1


def test_what_was_not_looked_into_says_so(bench: Workbench, tmp_path: Path) -> None:
    answer = bench.context(DOCUMENTS, "Good ?", "good")
    e = bench.coarse_to_fine(answer, levels=["document", "sentence"], budget=2)
    assert e.details["not_opened"]
    source = page(e, tmp_path)
    assert source.count("document as a whole, not looked into") == len(e.details["not_opened"])


def test_a_matrix_without_a_prompt_has_no_page(bench: Workbench, tmp_path: Path) -> None:
    each = bench.explain("the film", "loo", target="continuation: is good", output="each")
    with pytest.raises(InputError, match="the page needs an answer"):
        each.save(tmp_path / "page.html")
    assert each._repr_html_() is None
