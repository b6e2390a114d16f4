"""Experiments as data."""

from pathlib import Path

import pytest
import yaml

from looprop.errors import DataError, LoopropError, UnknownNameError
from looprop.study import experiment_names, load_spec, parse_spec
from looprop.study.claims import PAPER_LAYERS, published, published_tables
from looprop.study.kinds import experiment_text
from looprop.study.kinds.texts.layers import layer_plans

GOOD = "name: mine\nkind: texts\nquestion: which?\ndata: {sst2: {split: dev}}\nmethods: [loo, cp-lrp]\n"


@pytest.mark.parametrize("name", experiment_names())
def test_the_experiments_are_short_and_valid(name: str) -> None:
    lines = [line for line in experiment_text(name).splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert 10 <= len(lines) <= 25
    assert load_spec(name).name == name


def test_the_papers_models_are_named() -> None:
    for name in ("baselines", "layers"):
        data = load_spec(name).data
        assert data["sst2"].model == "textattack/bert-base-uncased-SST-2"
        assert data["imdb"].model == "fabriceyhc/bert-base-uncased-imdb"
        assert (data["sst2"].curve_features, data["imdb"].curve_features) == ("token", "chunk:16")


def test_the_fingerprint_sees_content_and_not_layout() -> None:
    spec = parse_spec(GOOD, where="x")
    again = parse_spec("# a comment\n" + yaml.safe_dump(yaml.safe_load(GOOD)), where="y")
    assert spec.fingerprint == again.fingerprint
    assert spec.fingerprint != parse_spec(GOOD.replace("cp-lrp", "attnlrp"), where="x").fingerprint


def test_what_a_data_set_skips_is_part_of_the_fingerprint_only_where_it_skips() -> None:
    plain = parse_spec(GOOD, where="x")
    skipping = parse_spec(GOOD.replace("split: dev", "split: dev, skip: [cp-lrp]"), where="x")
    assert "skip" not in plain.to_dict()["data"]["sst2"]
    assert skipping.fingerprint != plain.fingerprint
    assert skipping.data["sst2"].skip == ("cp-lrp",)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD, encoding="utf-8")
    assert load_spec(tmp_path / "mine.yaml").methods == ("loo", "cp-lrp")
    with pytest.raises(DataError, match="cannot read"):
        load_spec(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "metrix: [loo-r]\n", "unknown field in x 'metrix'; did you mean 'metrics'"),
        (GOOD.replace("split", "splitt"), r"unknown field in x: data.sst2 'splitt'; did you mean 'split'"),
        (GOOD.replace("question: which?\n", ""), "field 'question' is missing"),
        (GOOD.replace("cp-lrp", "cplrp"), "unknown method 'cplrp'"),
        (GOOD + "metrics: [loor]\n", "unknown metric 'loor'"),
        (GOOD.replace("texts", "text"), "unknown kind of experiment 'text'"),
        (GOOD.replace("split: dev", "template: no place"), "a template must hold"),
        (GOOD.replace("split: dev", "target: [a, b, c]"), "target must be one class or a contrast of two"),
        (GOOD.replace("split: dev", "skip: [cplrp]"), "unknown method to skip on sst2 'cplrp'; did you mean 'cp-lrp'"),
        (GOOD + "plans: by-head\n", "unknown plans 'by-head'"),
        (GOOD + "seeds: 0\n", "seeds must be an integer >= 1"),
        (GOOD.replace("{sst2: {split: dev}}", "[sst2]"), "data must be a mapping"),
        (GOOD.replace("data: {sst2: {split: dev}}\n", ""), "runs on data"),
        ("- a\n- b\n", "expected fields and their values"),
        ("a: [", "not YAML"),
    ],
)
def test_bad_specifications_are_named(text: str, message: str) -> None:
    with pytest.raises(LoopropError, match=message):
        parse_spec(text, where="x")


def test_an_unknown_experiment_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="unknown experiment 'layer'; did you mean 'layers'"):
        load_spec("layer")


def test_published_numbers_are_whole_and_agree_with_themselves() -> None:
    tables = published_tables()
    assert set(tables["bilinear"]) == {"loo", "ig", "attnlrp[epsilon=1e-6]"}
    for data in ("sst2", "imdb"):
        assert set(tables["baselines"][data]) == {"loo", "ig", "rollout[residual=false]", "attnlrp", "cp-lrp"}
        assert set(tables["layers"][data]) == set(layer_plans(PAPER_LAYERS))
        for cells in (*tables["baselines"][data].values(), *tables["layers"][data].values()):
            _, lerf, morf, delta = cells
            assert delta == pytest.approx(lerf - morf, abs=0.011), "printed delta is LeRF - MoRF up to rounding"
        whole = published("baselines", data, "cp-lrp")
        for same in ("lrp[cp=:12]", "lrp[cp=1:]"):
            assert published("layers", data, same) == whole
        assert published("layers", data, "lrp[cp=:1]") == published("layers", data, "lrp[cp=1]")
        assert published("layers", data, "lrp[cp=12:]") == published("layers", data, "lrp[cp=12]")
    assert published("bilinear", "mnist", "ig")["loo-r R"] == -0.3707
    assert published("baselines", "sst2", "random") == {}
