"""What the pages say of the methods is what these say of themselves and what was measured under results/."""

import json
from pathlib import Path
from typing import Any

from looprop.methods.names import SCORE_KINDS
from looprop.methods.registry import CATALOGUE
from readme_figures import HEADER, NOTE, ROOT, columns, with_methods

README = (ROOT / "README.md").read_text(encoding="utf-8")


def write(folder: Path, methods: dict[str, tuple[float | None, float | None]], *, texts: int = 86) -> None:
    folder.mkdir(parents=True)
    entries = [
        {"method": m, "loo-r-no-special": loo, "shapley-r-no-special": shapley, "loo-r-no-special-n": texts}
        for m, (loo, shapley) in methods.items()
    ]
    summary: dict[str, Any] = {"title": "truths: SST-2 dev, some-model", "summary": entries}
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")


def test_the_readme_shows_what_was_measured() -> None:
    found = columns(ROOT / "results")
    assert found, "runs are kept under results/"
    assert with_methods(README, found) == README, "the README's figures are not those of results/: run `make readme`"


def test_every_method_has_its_row_and_its_limits() -> None:
    limits = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    for about in CATALOGUE.values():
        assert f"\n| `{about.example or about.name}` |" in README
        kind = f"`{about.name}`, kind of score *{about.kind}*: {SCORE_KINDS[about.kind]}."
        assert f"\n## {about.title}\n\n{kind}\n\n" in limits, f"docs/limits.md says when not to trust {about.name}"


def test_without_runs_there_are_no_figures(tmp_path: Path) -> None:
    bare = with_methods(README, columns(tmp_path))
    assert f"\n{HEADER}\n" in bare
    assert "No run is kept" in bare


def test_columns_are_written_once_and_again(tmp_path: Path) -> None:
    measured = {
        "loo": (1.0, 0.6),
        "shapley[samples=9]": (0.6, 1.0),
        "cp-lrp": (0.5, 0.7),
        "ig[steps=20]": (None, -0.01),
    }
    write(tmp_path / "truths-sst2", measured)
    write(tmp_path / "truths-mpnet", measured, texts=19)  # too few
    once = with_methods(README, columns(tmp_path))
    assert f"{HEADER} r, sst2: LOO | r, sst2: Shapley |" in once
    cells = {
        line.split("`")[1]: [c.strip() for c in line.split("|")[4:6]]
        for line in once.splitlines()
        if line.startswith("| `")
    }
    assert cells["cp-lrp"] == ["0.50", "0.70"]
    assert cells["ig"] == ["–", "−0.01"]  # undefined; another form of it was measured
    assert cells["loo"] == ["1, itself", "0.60"]
    assert cells["shapley"] == ["0.60", "1, itself"]
    assert cells["rollout"] == ["–", "–"]
    (note,) = (line for line in once.splitlines() if line.startswith(NOTE))
    assert "SST-2 dev, some-model ([report](results/truths-sst2/report.md))" in note
    assert with_methods(once, columns(tmp_path)) == once
    assert with_methods(once, []) == with_methods(README, [])
