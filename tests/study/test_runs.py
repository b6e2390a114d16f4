"""Runs on texts: resumed, damaged, refused, grown, and with leave-one-out of another run."""

from pathlib import Path

import numpy as np
import pytest
import torch

from evaluation.tiny import TEXTS, save_tiny
from looprop.errors import DataError, InputError, UnknownNameError
from looprop.evaluation.summary import values_of
from looprop.study import Run, read_run, reproduce, write_report
from looprop.study.kinds.texts.layers import relative_entropy


def without_times(run: Run) -> str:
    return repr([{**row, "seconds": 0} for row in run.rows])


def test_all_layers_is_cp_lrp_and_the_first_layer_is_the_first_layer(layers: Run) -> None:
    for metric in ("loo-r", "lerf", "morf", "delta"):
        values = values_of(layers.rows, metric)
        for same in ("lrp[cp=:3]", "lrp[cp=1:]"):
            assert values[same] == pytest.approx(values["cp-lrp"])
        assert values["lrp[cp=:1]"] == pytest.approx(values["lrp[cp=1]"])
        assert values["lrp[cp=3:]"] == pytest.approx(values["lrp[cp=3]"])
    assert values_of(layers.rows, "loo-r")["lrp[cp=2]"] != pytest.approx(values_of(layers.rows, "loo-r")["cp-lrp"])


def test_every_example_has_the_entropy_of_every_layer(layers: Run) -> None:
    rows = [row for row in layers.rows if row["method"] == "attnlrp"]
    assert len(rows) == len(TEXTS)
    assert all(len(row["entropy"]) == 3 and all(0 < e <= 1 for e in row["entropy"]) for row in rows)


def test_relative_entropy_against_a_loop() -> None:
    weights = torch.softmax(torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)) * 2, -1)
    entropies = [-sum(float(p) * np.log(float(p)) for p in row) / np.log(4) for head in weights for row in head]
    assert relative_entropy(weights) == pytest.approx(np.mean(entropies), abs=1e-6)
    assert relative_entropy(torch.eye(3)[None]) == 0.0


def test_a_run_that_goes_on_equals_one_without_a_break(
    layers: Run, model_folder: Path, texts: Path, tmp_path: Path
) -> None:
    def stops(work, items):
        for i, item in enumerate(items):
            if i == 2:
                raise KeyboardInterrupt
            yield work(item)

    options = {"model": str(model_folder), "data": str(texts), "out": tmp_path, "progress": False}
    for expected in (2, 4):
        with pytest.raises(KeyboardInterrupt):
            reproduce("layers", engine=stops, **options)
        part = read_run(tmp_path)
        assert len(part.computed) == expected, "what was computed before the interruption is kept"
        assert part.title.endswith("(unfinished)")
    whole = reproduce("layers", **options)
    assert without_times(whole) == without_times(layers)
    assert len(whole.manifest["sessions"]) == 3
    assert whole.finished


def test_a_damaged_part_is_computed_anew_and_reported(
    layers: Run, model_folder: Path, texts: Path, tmp_path: Path
) -> None:
    options = {"model": str(model_folder), "data": str(texts), "out": tmp_path, "progress": False}
    reproduce("layers", **options)
    victim = next((tmp_path / "parts").glob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-100])
    run = reproduce("layers", **options)
    assert without_times(run) == without_times(layers)
    assert run.damaged == [victim.name]
    write_report(tmp_path)
    assert victim.name in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_what_changed_is_named(layers: Run, model_folder: Path, texts: Path, tmp_path: Path) -> None:
    options = {"model": str(model_folder), "data": str(texts), "out": layers.folder, "progress": False}
    with pytest.raises(DataError, match=r"spec\.name \(was \"layers\", is \"baselines\"\)"):
        reproduce("baselines", **options)
    with pytest.raises(DataError, match=r"limit \(was null, is 2\)"):
        reproduce("layers", limit=2, **options)
    with pytest.raises(DataError, match=r"model\.weights"):
        reproduce("layers", **{**options, "model": str(save_tiny(tmp_path / "other", seed=1))})
    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS[:-1], "a dull film"]), encoding="utf-8")
    with pytest.raises(DataError, match=r"data\.hash"):
        reproduce("layers", **{**options, "data": str(tmp_path / "texts.txt")})


def test_a_run_grows_with_its_limit_and_keeps_what_it_has(
    layers: Run, model_folder: Path, texts: Path, tmp_path: Path
) -> None:
    options = {"model": str(model_folder), "data": str(texts), "out": tmp_path, "progress": False}
    small = reproduce("layers", limit=2, **options)
    known = {row["example"]: row["seconds"] for row in small.rows if row["method"] == "loo"}
    with pytest.raises(DataError, match=r"limit \(was 2, is 1\)"):
        reproduce("layers", limit=1, **options)
    with pytest.raises(DataError, match=r"limit \(was 2, is 3\); seed \(was 0, is 1\)"):
        reproduce("layers", limit=3, seed=1, **options)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / texts.name).write_text("\n".join(f"{text} indeed" for text in TEXTS), encoding="utf-8")
    with pytest.raises(DataError, match=r"data\.hash"):
        reproduce("layers", limit=3, **{**options, "data": str(tmp_path / "other" / texts.name)})

    reproduce("layers", limit=3, **options)
    whole = reproduce("layers", **options)
    assert without_times(whole) == without_times(layers)
    assert whole.manifest["fingerprint"] == layers.manifest["fingerprint"]
    assert whole.title == layers.title
    assert len(whole.manifest["sessions"]) == 3
    times = {row["example"]: row["seconds"] for row in whole.rows if row["method"] == "loo"}
    assert known.items() <= times.items(), "what was there is not computed again"


def test_leave_one_out_is_taken_over_and_looked_at(
    layers: Run, model_folder: Path, texts: Path, tmp_path: Path
) -> None:
    options = {"model": str(model_folder), "data": str(texts), "progress": False}
    run = reproduce("layers", out=tmp_path / "same", loo_from=layers.folder, **options)
    assert without_times(run) == without_times(layers)
    assert run.manifest["sessions"][-1]["loo_from"] == {"run": layers.folder.name, "examples": len(TEXTS)}
    seconds = [[row["seconds"] for row in of.rows if row["method"] == "loo"] for of in (run, layers)]
    assert seconds[0] == seconds[1], "as they were measured then"
    write_report(run.folder)
    assert f"- leave-one-out: of {len(TEXTS)} examples from {layers.folder.name}" in (
        run.folder / "report.md"
    ).read_text(encoding="utf-8")

    part = reproduce("layers", out=tmp_path / "part", limit=2, **options)
    rest = reproduce("layers", out=tmp_path / "rest", loo_from=part.folder, **options)
    assert without_times(rest) == without_times(layers)
    assert rest.manifest["sessions"][-1]["loo_from"]["examples"] == 2

    with pytest.raises(InputError, match="with other weights or another tokenizer"):
        reproduce(
            "layers",
            out=tmp_path / "no",
            loo_from=layers.folder,
            **{**options, "model": str(save_tiny(tmp_path / "other", seed=1))},
        )
    toys = reproduce("softmax", out=tmp_path / "toys", progress=False)
    with pytest.raises(InputError, match="not of a model on texts"):
        reproduce("layers", out=tmp_path / "no", loo_from=toys.folder, **options)
    other = tmp_path / "texts.txt"
    other.write_text("\n".join(reversed(TEXTS)), encoding="utf-8")
    with pytest.raises(InputError, match=r"\d: the known leave-one-out is"):
        reproduce("layers", out=tmp_path / "wrong", loo_from=layers.folder, **{**options, "data": str(other)})
    right = reproduce("layers", out=tmp_path / "wrong", **{**options, "data": str(other)})
    assert right.finished
    assert not any(row["error"] for row in right.rows)

    none = tmp_path / "none.yaml"
    none.write_text(
        "name: mine\nkind: texts\nquestion: which?\nmethods: [random]\nmetrics: [loo-r]\ndata: {mine: {}}",
        encoding="utf-8",
    )
    reproduce(none, out=tmp_path / "random", **options)
    with pytest.raises(InputError, match="holds no leave-one-out"):
        reproduce("layers", out=tmp_path / "no", loo_from=tmp_path / "random", **options)


@pytest.mark.parametrize("experiment", ["softmax", "bilinear"])
def test_experiments_without_texts_take_no_leave_one_out(experiment: str, layers: Run, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="takes no loo_from"):
        reproduce(experiment, out=tmp_path, loo_from=layers.folder, progress=False)


def test_unknown_names_and_folders(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'baselines'"):
        reproduce("baseline", progress=False)
    with pytest.raises(UnknownNameError, match="unknown data set of layers 'sst'; did you mean 'sst2'"):
        reproduce("layers", data="sst", model=str(model_folder), progress=False)
    with pytest.raises(DataError, match=r"holds no manifest.json"):
        write_report(tmp_path)
