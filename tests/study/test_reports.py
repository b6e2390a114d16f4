"""Reports of runs on texts: tables, figure and page."""

import json
from pathlib import Path

import pytest

from evaluation.tiny import TEXTS
from looprop.models.loading import load_adapter
from looprop.models.subject import bind
from looprop.study import Run, reproduce, write_report


def test_reports_of_a_run(layers: Run, tmp_path: Path) -> None:
    paths = write_report(layers.folder, layers.folder, out=tmp_path)
    assert {path.name for path in paths} == {
        "report.html",
        "report.md",
        "tables.tex",
        "summary.csv",
        "figure.svg",
        "figure.png",
    }
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "data:image/svg+xml;base64," in page
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    figure = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert figure.count(">AttnLRP<") == 1, "one line in the legend"
    assert "interval of the difference to AttnLRP" in figure, "what the bands are"
    assert figure.count("layer k<") == 4, "four panels"
    tex = (tmp_path / "tables.tex").read_text(encoding="utf-8")
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") > 3
    alone = {path.name: path for path in write_report(layers.folder, out=tmp_path / "alone")}
    assert alone.keys() == {path.name for path in paths} | {"summary.json"}
    summary = json.loads(alone["summary.json"].read_text(encoding="ascii"))
    assert {entry["method"]: entry["loo-r"] for entry in summary["summary"]} == {
        s.method: pytest.approx(s.metrics["loo-r"].mean, nan_ok=True) for s in layers.evaluation().summary
    }
    holds = {judged.claim: judged.holds for judged in layers.claims()}
    assert holds["CP-LRP in all layers is CP-LRP"]
    assert holds["L_{:1} and L_1 agree"]


def test_texts_stand_in_their_template_and_the_report_shows_cost(
    model_folder: Path, texts: Path, tmp_path: Path
) -> None:
    spec = tmp_path / "mine.yaml"
    methods = "methods: [loo, 'looprop[budget=4]', attnlrp, ig, random]"
    lines = ["name: mine", "kind: texts", "question: which?", methods, "metrics: [loo-r]"]
    spec.write_text(
        "\n".join([*lines, "data: {mine: {template: 'so: {text}', target: [LABEL_1, LABEL_0], skip: [ig]}}"]),
        encoding="utf-8",
    )
    run = reproduce(spec, data=str(texts), model=str(model_folder), limit=2, out=tmp_path / "run", progress=False)
    adapter = load_adapter(str(model_folder))
    row = run.rows[0]
    wanted = bind(adapter, f"so: {TEXTS[int(row['example']) - 1]}", target=("LABEL_1", "LABEL_0"))
    assert {row["method"] for row in run.rows} == {"loo", "looprop[budget=4]", "attnlrp", "random"}, (
        "what is skipped is not run"
    )
    assert row["features"] == len(wanted.features)
    assert row["output"] == pytest.approx(wanted.output, abs=1e-6)
    write_report(run.folder)
    figure = (run.folder / "figure.svg").read_text(encoding="utf-8")
    assert ">4<" in figure
    assert ">looprop<" in figure
    assert "random" not in figure, "what costs nothing has no place on a logarithmic axis"
