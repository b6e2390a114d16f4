"""The gallery's pages, made anew by looprop's own commands: of the embedded model, and of runs that are kept."""

import html
import re
import shutil
from pathlib import Path

from typer.testing import CliRunner

from looprop.auditing import Audit
from looprop.cli.main import app
from looprop.models.origin import model_folder
from website.places import ROOT

SENTENCE = "This is not a bad film at all."
COMPARED = ("loo", "shapley", "looprop", "attnlrp", "cp-lrp", "grad-x-input")
MEASURED = ("loo", "looprop", "cp-lrp", "attnlrp", "grad-x-input", "random")
LANGUAGE_MODEL = "smollm2-135m"
DOCUMENTS = {
    "harbour.txt": "The harbour office opens at eight. Ferries to the island leave every two hours.\n\n"
    "The last ferry back to the mainland leaves at 21:15 from pier 3.",
    "lighthouse.txt": "The lighthouse was built in 1889. It is 41 metres tall and stands on the northern cliff. "
    "Keepers lived there until 1974.",
    "weather.txt": "Storms are common in May. Visitors should bring warm clothes and check the forecast.",
    "museum.txt": "The museum shows old maps and ship models. Entry costs 6 euros. "
    "Children under twelve enter for free.",
}
QUESTION = "How tall is the lighthouse and when was it built?"


def run(*arguments: str) -> None:
    """One command, as it is typed in a terminal."""
    result = CliRunner().invoke(app, list(arguments))
    if result.exit_code:
        raise SystemExit(f"looprop {' '.join(arguments)}\n{result.output}")


def methods(names: tuple[str, ...]) -> list[str]:
    return [part for name in names for part in ("-m", name)]


def typical_sentence() -> str:
    """The sentence of the pictures, chosen by numbers (tests/screenshots.py), as the drawn terminal shows it."""
    drawn = html.unescape((ROOT / "docs/images/terminal.svg").read_text(encoding="utf-8")).replace("\xa0", " ")
    found = re.search(r'looprop explain "(.+?)"<', drawn)
    assert found, "docs/images/terminal.svg does not say which sentence it shows"
    return found[1]


def prompt(folder: Path) -> None:
    """Which sentences of four documents made a language model answer as it did."""
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    files = [str(folder / name) for name in DOCUMENTS]
    page = str(folder / "prompt.html")
    run("context", "--documents", *files, "--question", QUESTION, "--model", LANGUAGE_MODEL, "--html", page)
    for name in DOCUMENTS:
        (folder / name).unlink()


def write_gallery(folder: Path, *, language_model: bool) -> set[str]:
    """Write the pages; their names. language_model: the page of a prompt, too, where there is a model to ask."""
    folder.mkdir(parents=True, exist_ok=True)
    run("explain", SENTENCE, "--html", str(folder / "explanation.html"))
    run("explain", typical_sentence(), *methods(COMPARED), "--html", str(folder / "comparison.html"))
    run("evaluate", "demo", *methods(MEASURED), "--html", str(folder / "evaluation.html"))
    Audit.load(ROOT / "results/audit/embedded.json").save(folder / "audit.html")
    run("report", str(ROOT / "results/baselines-sst2"), "--out", str(folder / "report"))
    shutil.move(folder / "report" / "report.html", folder / "report.html")
    shutil.rmtree(folder / "report")
    if language_model and model_folder(LANGUAGE_MODEL).is_dir():
        prompt(folder)
    return {page.stem for page in folder.glob("*.html")}
