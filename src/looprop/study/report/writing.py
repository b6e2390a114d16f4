"""Write the report of one run, or of several together: HTML, Markdown, LaTeX, the numbers as CSV, and the figure as SVG
and PNG.
"""

from collections.abc import Sequence
from pathlib import Path

from looprop.display.figures import to_bytes
from looprop.errors import DataError
from looprop.files import check_folder_place, to_json, write_whole
from looprop.study.report.contents import contents_of
from looprop.study.report.html import html_report
from looprop.study.report.text import markdown_report, numbers_csv, to_latex
from looprop.study.run import Run, read_run


def write_report(run_folder: str | Path, *more: str | Path, out: str | Path | None = None) -> list[Path]:
    """Write report.html, report.md, tables.tex, summary.csv, and figure.svg and figure.png where there is a figure.

    Of one run on texts also summary.json, by docs/schema/evaluation.schema.json.

    more: other runs of the same experiment, shown beside the first (SST and IMDB, say). out: by default the first run's
        folder.
    """
    place = Path(out) if out is not None else Path(run_folder)
    runs = [read_run(folder) for folder in (run_folder, *more)]
    check_folder_place(place)
    _check(runs)
    kind = runs[0].kind
    contents = [contents_of(run) for run in runs]
    tables = [to_latex(grid) for own in contents for grid in own.tables]
    files = {
        "report.md": markdown_report(contents).encode(),
        "tables.tex": "\n".join(tables).encode(),
        "summary.csv": numbers_csv(contents),
    }
    if len(runs) == 1 and kind.evaluates:
        files["summary.json"] = to_json(runs[0].evaluation().to_dict())
    title, svg = "", b""
    if picture := kind.picture(runs):
        title, svg = picture.title, to_bytes(picture.figure, "svg")
        files |= {"figure.svg": svg, "figure.png": to_bytes(picture.figure, "png")}
    files = {"report.html": html_report(contents, figure_title=title, svg=svg).encode(), **files}
    place.mkdir(parents=True, exist_ok=True)
    return [write_whole(place / name, content) for name, content in files.items()]


def _check(runs: Sequence[Run]) -> None:
    """Can these stand in one report?"""
    for run in runs:
        if not run.rows:
            raise DataError(f"{run.folder} holds no finished example yet: nothing to report")
        if run.experiment != runs[0].experiment:
            raise DataError(
                f"runs of one report must be of one experiment, got {runs[0].experiment} and {run.experiment}"
            )
