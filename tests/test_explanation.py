"""Explanations: words, correlation, files and back, clear errors, display."""

import dataclasses
import html as standard
import json
import math
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import pearsonr

from looprop.display.data import agreements
from looprop.errors import DataError, InputError, LoopropError
from looprop.files import write_whole
from looprop.result import Check, Explanation, Explanations

SCHEMA = json.loads((Path(__file__).parents[1] / "docs/schema/explanation.schema.json").read_text(encoding="utf-8"))


def make(**changes: Any) -> Explanation:
    values: dict[str, Any] = {
        "features": ["[CLS]", "un", "##real", "fun", "!", "[SEP]"],
        "scores": np.array([0.25, 1.0, -0.5, 2.0, 0.125, -0.25]),
        "method": "cp-lrp",
        "output": 3.0,
        "target": 1,
        "label": "positive",
        "text": "Unreal fun!",
        "offsets": [None, (0, 2), (2, 6), (7, 10), (10, 11), None],
        "special": [True, False, False, False, False, True],
        "word_ids": [None, 0, 0, 1, 2, None],
        "cost": 3.0,
        "model": "tiny",
        "options": {"epsilon": 0.0, "path": Path("x"), "array": np.arange(2)},
    }
    return Explanation(**(values | changes))


def assert_same(a: Explanation, b: Explanation) -> None:
    assert a.to_dict() == b.to_dict()


def test_words_sum_their_pieces() -> None:
    words = make().words()
    assert words.features == ["[CLS]", "Unreal", "fun", "!", "[SEP]"]
    assert words.scores.tolist() == [0.25, 0.5, 2.0, 0.125, -0.25]
    assert words.offsets == [None, (0, 6), (7, 10), (10, 11), None]
    assert words.special == [True, False, False, False, True]
    assert words.scores.sum() == make().scores.sum()
    assert_same(words.words(), words)


def test_words_keep_what_is_outside_the_scale() -> None:
    words = make(outside_scale=[False, False, True, False, False, False]).words()
    assert words.outside_scale == [False, True, False, False, False]


def test_lengths_are_checked() -> None:
    with pytest.raises(InputError, match=r"one number per feature: 6 features, scores of shape \(5,\)"):
        make(scores=np.zeros(5))
    with pytest.raises(InputError, match="special must have one entry per feature: 6 features, got 1"):
        make(special=[True])


def test_correlation_is_pearson() -> None:
    generator = np.random.default_rng(0)
    for _ in range(5):
        a, b = generator.normal(size=(2, 6))
        assert make(scores=a).correlation(make(scores=b)) == pytest.approx(pearsonr(a, b).statistic, abs=1e-12)


def test_undefined_correlation_is_nan() -> None:
    assert math.isnan(make(scores=np.ones(6)).correlation(make()))
    two = Explanation(features=["a", "b"], scores=np.array([1.0, 2.0]), method="x", output=0.0, target=0, label="")
    assert math.isnan(two.correlation(two))
    with pytest.raises(InputError, match="got 6 and 2 features"):
        make().correlation(two)


@pytest.mark.parametrize("target", [1, (0, 1), "a continuation"])
def test_json_there_and_back(tmp_path: Path, target: Any) -> None:
    e = make(target=target, scores=np.array([math.nan, 1 / 3, -1e-300, 2.0, 0.0, 1e300]), text="Unreal \ud800 fun!")
    back = Explanation.load(e.save(tmp_path / "e.json"))
    np.testing.assert_array_equal(back.scores, e.scores)
    assert back.target == e.target
    assert (back.features, back.offsets, back.text) == (e.features, e.offsets, e.text)
    assert_same(back, e)


def test_data_follow_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    for e in (make(), make(target=(0, 1)), make(target="x", residual=0.5), make(scores=np.full(6, math.nan))):
        validator.validate(json.loads(json.dumps(e.to_dict())))
    for wrong in ({"version": 2}, {"scores": ["1"]}, {"target": [1]}, {"extra": 1}, {"schema": "x"}):
        assert not validator.is_valid(make().to_dict() | wrong)


def test_schema_names_every_field_and_no_other() -> None:
    assert set(SCHEMA["properties"]) == set(make().to_dict())
    assert SCHEMA["properties"]["version"]["const"] == make().to_dict()["version"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other"}, "expected data of schema 'looprop.explanation', got 'other'"),
        ({"version": 99}, "reads looprop.explanation version 1, got version 99"),
        ({"surprise": 1}, "unknown in the explanation: 'surprise'; known: features, scores"),
        ({"scores": [0.5, "x"]}, r"scores\[1\] must be a number, got 'x'"),
        ({"scores": 5}, "the explanation is not in the form of its schema: scores must be a list, got 5"),
        ({"scores": [1.0]}, "one number per feature"),
        ({"offsets": [1, 2, 3, 4, 5, 6]}, r"offsets\[0\] must be a list of 2, got 1"),
        ({"target": []}, "target must be a whole number or a list of 2 or a text"),
    ],
)
def test_wrong_data_say_what_is_wrong(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Explanation.from_dict(make().to_dict() | change)


def test_missing_fields_are_named() -> None:
    data = make().to_dict()
    del data["scores"], data["label"]
    with pytest.raises(DataError, match="missing in the explanation: 'scores', 'label'"):
        Explanation.from_dict(data)


def test_broken_files(tmp_path: Path) -> None:
    whole = make().save(tmp_path / "e.json").read_bytes()
    for name, content in {
        "half": whole[: len(whole) // 2],
        "empty": b"",
        "binary": b"\xff\xfe\x00",
        "list": b"[]",
    }.items():
        path = tmp_path / f"{name}.json"
        path.write_bytes(content)
        with pytest.raises(DataError):
            Explanation.load(path)
    with pytest.raises(DataError, match="there is no file"):
        Explanation.load(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"must end in \.json"):
        Explanation.load(tmp_path / "e.html")


def test_infinite_scores_cannot_be_json() -> None:
    with pytest.raises(InputError, match="scores holds inf"):
        make(scores=np.array([math.inf, 0, 0, 0, 0, 0])).to_dict()


@pytest.mark.parametrize("name", ["e.json", "e.html", "e.png", "e.svg", "E.HTML"])
def test_save_writes_one_whole_file(tmp_path: Path, name: str) -> None:
    path = make().save(str(tmp_path / name))
    assert path == tmp_path / name
    assert os.listdir(tmp_path) == [name]
    starts = {".json": b"{", ".html": b"<!DOCTYPE html>", ".png": b"\x89PNG", ".svg": b"<?xml"}
    assert path.read_bytes().startswith(starts[path.suffix.lower()])


def test_saved_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    assert make().save(tmp_path / "e.json").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make().save(tmp_path / "e.json")
    before = path.read_bytes()

    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(label="other").save(path)
    assert os.listdir(tmp_path) == ["e.json"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("durable", [True, False])
def test_a_durable_file_is_synced_before_it_gets_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    place, synced = tmp_path / "file", []

    def note(handle: int) -> None:
        synced.append(("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file", place.exists()))

    monkeypatch.setattr(os, "fsync", note)
    assert write_whole(place, b"whole", durable=durable) == place
    assert place.read_bytes() == b"whole"
    assert synced == ([("file", False), ("folder", True)] if durable else [])


def test_bad_places(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.json, \.csv, .*\.svg, \.pdf, got 'e\.doc'"):
        make().save("e.doc")
    with pytest.raises(DataError, match="there is no folder"):
        make().save(tmp_path / "none" / "e.json")


def test_to_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = make().to_pandas()
    assert list(table.columns) == ["position", "feature", "score", "start", "end", "special", "word"]
    assert table["score"].tolist() == make().scores.tolist()
    assert pandas.isna(table["start"][0])
    assert table["end"][1] == 2


def test_strip_knows_where_spaces_are() -> None:
    assert make().strip().joined == [False, False, True, False, True, False]
    without_offsets = make(offsets=[])
    assert without_offsets.strip().joined == [False, False, True, False, False, False]


def test_plot_returns_an_axis() -> None:
    axes = make().plot()
    assert [patch.get_width() for patch in axes.patches] == make().scores.tolist()
    assert make().plot(axes) is axes


def test_html_holds_the_facts() -> None:
    html = make()._repr_html_()
    for fact in ("positive, mostly because of", "cp-lrp", "tiny", "+3.00", "Whole words", "Unreal"):
        assert fact in html
    assert "Whole words" not in make(word_ids=[])._repr_html_()


def test_a_list_compares_methods_on_one_text(tmp_path: Path) -> None:
    loo = make(method="loo", scores=np.array([0.0, 1.0, 0.0, 2.0, 0.0, 0.0]))
    several = Explanations([loo, make(), make(text="other", method="x")])
    html = several._repr_html_()
    assert html.count('class="who"') == 3
    assert html.count("r to LOO") == 2, "the third text has no leave-one-out"
    inner = [i for i, special in enumerate(make().special) if not special]
    expected = pearsonr(loo.scores[inner], make().scores[inner]).statistic
    assert f"{expected:+.2f}".replace("-", "−") in html, "without special tokens"
    assert make().correlation(loo) == pytest.approx(pearsonr(loo.scores, make().scores).statistic)
    back = Explanations.load(several.save(tmp_path / "l.json"))
    assert isinstance(back, Explanations)
    assert back.to_dict() == several.to_dict()
    assert several.save(tmp_path / "l.html").read_text(encoding="utf-8").count('class="who"') == 3
    with pytest.raises(DataError, match=r"expected data of schema 'looprop\.explanations'"):
        Explanations.load(make().save(tmp_path / "e.json"))
    assert several.save(tmp_path / "l.png").read_bytes().startswith(b"\x89PNG")
    shapley = make(method="shapley[samples=8]", scores=np.array([0.0, 2.0, 1.0, 0.0, 5.0, 0.0]))
    both = Explanations([loo, shapley, make()])._repr_html_()
    assert both.count("r to LOO") == both.count("r to Shapley") == 3
    assert f"{pearsonr(shapley.scores[1:-1], make().scores[1:-1]).statistic:+.2f}".replace("-", "−") in both
    drawn = several.save(tmp_path / "l.svg").read_text(encoding="utf-8")
    assert f"r to LOO {expected:+.2f}".replace("-", "−") in drawn
    with pytest.raises(InputError, match="must end in"):
        several.save(tmp_path / "l.doc")


def test_a_list_as_a_table() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    table = Explanations([make(), make(method="loo")]).to_pandas()
    assert table["explanation"].tolist() == [0] * 6 + [1] * 6
    assert table["method"].tolist() == ["cp-lrp"] * 6 + ["loo"] * 6
    assert Explanations().to_pandas().empty


def test_an_empty_list_shows_and_saves(tmp_path: Path) -> None:
    assert "looprop" in Explanations()._repr_html_()
    assert Explanations().save(tmp_path / "l.html").stat().st_size > 0


ODD = [True, 3, 2.5, 10**400, "x", [], {}, [1], [None], ["x"], [[1]], [["a", "b"]], {"a": 1}, [10**400]]


@pytest.mark.parametrize("name", sorted({f.name for f in dataclasses.fields(Explanation)}))
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_what_is_read_can_be_shown_or_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    """One field of another form: the error is one of ours, or everything that an explanation does still works."""
    data = Explanation(["a", "b"], np.array([1.0, -1.0]), "loo", 1.0, 1, "good", text="ab").to_dict()
    data[name] = value
    try:
        found = Explanation.from_dict(data)
    except LoopropError:
        return
    for ending in ("json", "html", "svg"):
        found.save(tmp_path / f"a.{ending}")
    found.words()
    found.to_pandas()
    assert repr(found)
    assert Explanation.from_dict(found.to_dict()).to_dict() == found.to_dict()


def of(method: str, scores: list[float], *, model: str = "one", **details: Any) -> Explanation:
    return Explanation(
        ["a", "b", "c", "d"], np.array(scores), method, 1.0, 1, "positive", text="a b c d", model=model, details=details
    )


def test_r_is_taken_within_one_model_only() -> None:
    several = Explanations(
        [
            of("loo", [1.0, 2.0, 3.0, 4.0]),
            of("loo", [4.0, 1.0, 3.0, 2.0], model="two"),
            of("cp-lrp", [2.0, 4.0, 6.0, 8.0]),
            of("cp-lrp", [2.0, 4.0, 6.0, 8.0], model="three"),
        ]
    )
    (views,) = several.views()
    assert [view.tokens.name for view in views] == ["loo · one", "loo · two", "cp-lrp · one", "cp-lrp · three"]
    assert [view.tokens.r for view in views] == [pytest.approx(1.0), pytest.approx(1.0), pytest.approx(1.0), None]
    html = several._repr_html_()
    for name in ("loo · one", "cp-lrp · three"):
        assert name in html
    (views,) = Explanations(several[:1] + several[2:3]).views()
    assert [view.tokens.name for view in views] == ["loo", "cp-lrp"], "one model need not be named beside each method"


def test_r_is_taken_to_the_removal_that_a_method_estimates() -> None:
    by_mask = of("loo", [1.0, 2.0, 3.0, 5.0], removal="attention-mask")
    by_zero = of("loo", [4.0, 1.0, 3.0, 2.0], removal="zero")
    ours = of("looprop", [1.0, 2.0, 3.0, 5.0], removal="attention-mask")
    (views,) = Explanations([by_zero, by_mask, ours]).views()
    assert [view.tokens.removal for view in views] == ["zero", "attention-mask", "attention-mask"]
    assert views[2].tokens.r == pytest.approx(1.0)
    assert agreements(views[2].tokens) == [("r to LOO by attention-mask", "+1.00")]
    assert Explanations([by_zero, by_mask, ours]).notes() == []
    both = Explanations([by_zero, ours])
    ((_, view),) = both.views()
    assert agreements(view.tokens)[0][0] == "r to LOO by zero", "never another one silently"
    assert ("removes by", "attention-mask") in view.tokens.facts
    (said,) = both.notes()
    assert said.startswith("looprop estimates removal by attention-mask, and its r is to a leave-one-out by zero")
    assert said in standard.unescape(both._repr_html_())
    (plain,) = Explanations([by_mask, ours]).views()
    assert agreements(plain[1].tokens) == [("r to LOO", "+1.00")]


def test_where_nothing_matters_r_is_noise() -> None:
    check = Check(0.1, 0.0, 0.2, 0.8, (0,), (0.0,), 1, 1.0, "attention-mask", exact=False, matters=False)
    several = Explanations([of("loo", [1.0, 2.0, 3.0, 4.0]), replace(of("x", [1.0, 2.0, 3.0, 4.0]), check=check)])
    assert several.notes() == ["No single feature matters here by itself: r to leave-one-out is made of noise."]


def test_paragraphs_are_kept() -> None:
    text = "one two\n\nthree\nfour"
    offsets = [(0, 3), (4, 7), (9, 14), (15, 19)]
    e = Explanation(["one", "two", "three", "four"], np.ones(4), "loo", 1.0, 1, "yes", text=text, offsets=list(offsets))
    assert list(e.strip().breaks) == [0, 0, 2, 1]
    assert e._repr_html_().count("<br>") == 3


def test_a_page_gives_the_probability_beside_the_output_and_the_residual_in_words() -> None:
    e = replace(of("cp-lrp", [1.0, 2.0, 3.0, 4.0], probability=0.9746), residual=-9.0)
    facts = dict(e.strip().facts)
    assert facts["probability"] == "97.5 %"
    assert facts["output"] == "+1.00"
    assert facts["left over"] == "scores add up to 9.00 more than the output"
    assert "residual" not in facts
    assert "probability" not in dict(of("cp-lrp", [1.0, 2.0, 3.0, 4.0], probability="<b>").strip().facts)


def test_measured_time_and_cost_are_shown() -> None:
    facts = dict(replace(of("ig", [1.0] * 4), cost=11 / 3, seconds=0.0314).strip().facts)
    assert facts["cost"] == "3.7 forward passes"
    assert facts["time"] == "31 ms"


HOSTILE_PICTURES: list[Any] = [
    None, "png", [], {"png": "\"><script>", "rows": 1, "columns": 1, "cells": [[0]] * 4},
    {"png": "aGk=", "rows": 0, "columns": 4, "cells": [[0]] * 4},
    {"png": "aGk=", "rows": 1, "columns": 4, "cells": [[9]] * 4},
    {"png": "aGk=", "rows": 1, "columns": 4, "cells": [[0]] * 3},
    {"png": "aGk=", "rows": 1, "columns": 4, "cells": [["0"]] * 4},
    {"png": "aGk=", "rows": 1, "columns": 4, "cells": [[0]] * 4, "wide": math.inf},
    {"png": "aGk=", "rows": 10**9, "columns": 10**9, "cells": [[0]] * 4},
]  # fmt: skip


@pytest.mark.parametrize("picture", HOSTILE_PICTURES, ids=range(len(HOSTILE_PICTURES)))
def test_what_is_no_picture_is_not_drawn(picture: Any) -> None:
    e = of("loo", [1.0, 2.0, 3.0, 4.0], picture=picture)
    assert e.strip().picture is None
    assert "<img" not in e._repr_html_()


def test_plots_show_themselves_in_a_notebook() -> None:
    axes = of("loo", [1.0, 2.0, 3.0, 4.0]).plot()
    assert axes._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    given = Figure().add_subplot()
    assert of("loo", [1.0, 2.0, 3.0, 4.0]).plot(given) is given
