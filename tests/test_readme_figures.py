"""What the pages say of the methods is what these say of themselves and what was measured under results/."""

import json
from pathlib import Path
from typing import Any

from looprop.methods.names import CATALOGUE
from readme_figures import HEADER, NOTE, ROOT, columns, with_limits, with_methods

README = (ROOT / "README.md").read_text(encoding="utf-8")


def write(folder: Path, methods: dict[str, float | None], *, removal: str | None = None) -> None:
    folder.mkdir(parents=True)
    entries = [
        {"method": m, "loo-r": r, "loo-r-low": r and r - 0.1, "loo-r-high": r and r + 0.1} for m, r in methods.items()
    ]
    about: dict[str, Any] = {"model": {"weights": "w"}, "data": {"hash": "h"}, "setup": {"removal": removal}}
    summary = {"title": "baselines: SST-2 dev, some-model", "about": about, "summary": entries}
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")


def test_the_readme_shows_what_was_measured() -> None:
    found = columns(ROOT / "results")
    assert found, "runs are kept under results/"
    assert with_methods(README, found) == README, "the README's figures are not those of results/: run `make readme`"


def test_every_method_has_its_row_and_its_limits() -> None:
    limits = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert with_limits(limits) == limits, "docs/limits.md is not what the methods say: run `make readme`"
    for about in CATALOGUE.values():
        assert f"\n| `{about.example or about.name}` |" in README
        assert f"\n## {about.title}\n" in limits


def test_without_runs_there_are_no_figures(tmp_path: Path) -> None:
    bare = with_methods(README, columns(tmp_path))
    assert f"\n{HEADER}\n" in bare
    assert "No run is kept" in bare


def test_columns_are_written_once_and_again(tmp_path: Path) -> None:
    write(tmp_path / "baselines-sst2", {"loo": 1.0, "cp-lrp": 0.5, "random": -0.01, "ig": None})
    write(tmp_path / "layers-sst2", {"cp-lrp": 0.9, "lrp[cp=2:]": 0.75})
    write(tmp_path / "remedy-sst2", {"grad-x-input": 0.3}, removal="delete")
    once = with_methods(README, columns(tmp_path))
    assert f"{HEADER} r, sst2 |" in once
    rows = {line.split("`")[1]: line.split("|")[4].strip() for line in once.splitlines() if line.startswith("| `")}
    assert rows["cp-lrp"] == "0.50 (0.40 to 0.60)"  # its own run comes first
    assert rows["lrp[cp=2:]"] == "0.75 (0.65 to 0.85)"
    assert rows["random"] == "−0.01 (−0.11 to 0.09)"
    assert rows["loo"] == "1, the reference"
    assert {rows["ig"], rows["grad-x-input"]} == {"–"}  # undefined; measured under another removal
    (note,) = (line for line in once.splitlines() if line.startswith(NOTE))
    assert "SST-2 dev, some-model ([report](results/baselines-sst2/report.md))" in note
    assert with_methods(once, columns(tmp_path)) == once
    assert with_methods(once, []) == with_methods(README, [])
