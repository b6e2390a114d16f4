"""Takes the pictures of README and docs: `python tests/screenshots.py`, in an environment with looprop and a Chromium.

Names after it are the pictures to take; without any, all of them. The report is that of results/baselines-sst2 where
it is there, else of the demo sentences; the audit is results/audit/embedded.json. That of a prompt needs the model
smollm2-135m. Those of a notebook need a JupyterLab (`tests/jupyter.py` says how), and are left as they are without one.
Those of the explorer: `python tests/explorer_screenshots.py`.
"""

import io
import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from browser import Browser
from jupyter import jupyter_lab, notebook, serving
from looprop.auditing.result import Audit
from looprop.cli.main import app
from looprop.display.terminal import comparison
from looprop.inputs import demo_sentences
from looprop.metrics import matters
from looprop.result import Explanations
from looprop.workbench import Workbench, load

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SINGLE = "This is not a bad film at all."
RESULTS = Path(__file__).parents[1] / "results" / "baselines-sst2"
AUDIT = Path(__file__).parents[1] / "results" / "audit" / "embedded.json"
METHODS = ("loo", "shapley", "looprop", "attnlrp", "cp-lrp", "grad-x-input")
MEASURED = ("loo", "looprop", "cp-lrp", "attnlrp", "grad-x-input", "random")
TRUTHS = Path(__file__).parents[1] / "results" / "truths-sst2" / "summary.json"
MEANS = ("loo-r-no-special", "shapley-r-no-special")


def typical_sentence(bench: Workbench, methods: Sequence[str], texts: Sequence[str]) -> str:
    """The sentence that is shown: of those in which some feature matters to leave-one-out and to the Shapley value, the
    one on which the methods are as close to both as they are on average in results/truths-sst2. Nobody chooses it for
    its looks; but it is one in ASCII, whose letters every machine has.
    """
    summary = {entry["method"]: entry for entry in json.loads(TRUTHS.read_text(encoding="utf-8"))["summary"]}
    means = {m: [summary[m][name] for name in MEANS] for m in methods if m in summary and m != "loo"}
    apart: dict[str, float] = {}
    for text in filter(str.isascii, texts):
        found = {method: bench.explain(text, method) for method in methods}
        loo, shapley = found["loo"], found["shapley"]
        nothing = loo.output - float(shapley.scores.sum())
        if not all(matters(e.scores, whole=loo.output, nothing=nothing, special=loo.special) for e in (loo, shapley)):
            continue
        r = {m: [found[m].correlation(e, special=False) for e in (loo, shapley)] for m in means}
        distance = sum((own - mean) ** 2 for m in means for own, mean in zip(r[m], means[m], strict=True))
        if math.isfinite(distance):
            apart[text] = distance
            print(f"{distance:.3f}", text)
    return min(apart, key=lambda text: apart[text])


def shrink(path: Path) -> None:
    """A picture in 256 colours, which is all that pages have."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def run(*arguments: str) -> None:
    result = CliRunner().invoke(app, list(arguments))
    if result.exit_code:
        sys.exit(result.output)


def photograph(
    browser: Browser, page: Path, name: str, *, dark: bool = False, height: int = 700, width: int = 1100
) -> None:
    browser.open(page, dark=dark, width=width, height=height)
    browser.evaluate("document.documentElement.style.scrollbarWidth = 'none'")
    browser.screenshot(IMAGES / f"{name}.png")
    shrink(IMAGES / f"{name}.png")
    if browser.errors:
        sys.exit(f"{name}: {browser.errors}")


def terminal(bench: Workbench, text: str, methods: Sequence[str]) -> str:
    """What the terminal shows, as SVG with text kept as text."""
    found = Explanations(bench.explain(text, method) for method in methods)
    nowhere = io.StringIO()
    console = Console(record=True, width=86, force_terminal=True, color_system="truecolor", file=nowhere)
    console.print(comparison([view.tokens for views in found.views() for view in views], colour=True))
    return console.export_svg(title=f'looprop explain "{text}"', unique_id="looprop")


def report(folder: Path) -> Path:
    """The page of a run of `baselines`."""
    if (RESULTS / "manifest.json").is_file():
        run("report", str(RESULTS), "--out", str(folder))
        return folder / "report.html"
    texts = folder / "demo.txt"
    texts.write_text("\n".join(example.text for example in demo_sentences()), encoding="utf-8")
    run("reproduce", "baselines", "--data", str(texts), "--out", str(folder / "run"))
    return folder / "run" / "report.html"


DOCUMENTS = {
    "harbour.txt": "The harbour office opens at eight. Ferries to the island leave every two hours.\n\n"
    "The last ferry back to the mainland leaves at 21:15 from pier 3.",
    "lighthouse.txt": "The lighthouse was built in 1889. It is 41 metres tall and stands on the northern cliff. "
    "Keepers lived there until 1974.",
    "weather.txt": "Storms are common in May. Visitors should bring warm clothes and check the forecast.",
    "museum.txt": "The museum shows old maps and ship models. Entry costs 6 euros. "
    "Children under twelve enter for free.",
}
ASKED = "How tall is the lighthouse and when was it built?"


def prompt(browser: Browser, folder: Path) -> None:
    """The page of `looprop context`, with a word of the answer chosen; needs smollm2-135m."""
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    page = folder / "prompt.html"
    files = [str(folder / name) for name in DOCUMENTS]
    run("context", "--documents", *files, "--question", ASKED, "--model", "smollm2-135m", "--html", str(page))
    browser.open(page, width=1280, height=860)
    browser.evaluate("document.documentElement.style.scrollbarWidth = 'none'")
    tokens = browser.evaluate("[...document.querySelectorAll('.answer .t')].map(token => token.textContent)")
    chosen = [i for i, token in enumerate(tokens) if token.strip() in {"1", "8", "9", "1889"}][-4:]
    browser.click(".answer .t", chosen[0])
    for index in chosen[1:]:
        token = f"document.querySelectorAll('.answer .t')[{index}]"
        browser.evaluate(f"{token}.dispatchEvent(new MouseEvent('click', {{ctrlKey: true}}))")
    browser.hover("h1")
    browser.evaluate("scrollTo(0, 0)")
    browser.evaluate("new Promise(done => setTimeout(done, 500))")  # colours come to rest
    browser.screenshot(IMAGES / "prompt.png")
    if browser.errors:
        sys.exit(f"prompt: {browser.errors}")


def in_jupyterlab(browser: Browser, bench: Workbench, text: str) -> None:
    """A notebook in JupyterLab, light and dark: an explanation, its plot, methods beside each other."""
    command = jupyter_lab()
    if command is None:
        print("no JupyterLab: its pictures are left as they are")
        return
    found = bench.explain(SINGLE)
    several = Explanations(bench.explain(text, method) for method in ("loo", "looprop", "cp-lrp"))
    lines = f'import looprop\nm = looprop.load()\ne = m.explain("{SINGLE}")\ne'
    listed = (
        f'text = "{text}"\nlooprop.Explanations(m.explain(text, method) for method in ("loo", "looprop", "cp-lrp"))'
    )
    content = notebook([(lines, found), (listed, several), ("e.plot()", found.plot())])
    for dark, name in ((False, "jupyterlab"), (True, "jupyterlab-dark")):
        with tempfile.TemporaryDirectory() as folder, serving(command, Path(folder), content, dark=dark) as address:
            browser.open(address, width=1280, height=980)
            browser.wait("document.querySelectorAll('[data-looprop]').length === 2")
            browser.wait("[...document.querySelectorAll('[data-looprop]')].every(host => host.shadowRoot)")
            browser.wait(
                "(i => i && i.complete && i.naturalWidth > 0)(document.querySelector('.jp-OutputArea-output img'))"
            )
            time.sleep(2)  # what JupyterLab itself still draws
            browser.screenshot(IMAGES / f"{name}.png")
            shrink(IMAGES / f"{name}.png")


def pages(browser: Browser, folder: Path, bench: Workbench, text: str, wanted: Callable[[str], bool]) -> None:
    """Pages of explanations, evaluations, reports and audits."""
    single, several, demo, measured, audited = (
        folder / f"{name}.html" for name in ("single", "several", "demo", "measured", "audited")
    )
    if wanted("explanation"):
        run("explain", SINGLE, "--html", str(single))
        photograph(browser, single, "explanation", height=620)
    if wanted("comparison"):
        run("explain", text, *(part for method in METHODS for part in ("-m", method)), "--html", str(several))
        photograph(browser, several, "comparison", height=860)
        photograph(browser, several, "comparison-dark", dark=True, height=860)
    if wanted("demo"):
        run("demo", "--html", str(demo))
        photograph(browser, demo, "demo", height=1900, width=1280)
    if wanted("evaluation"):
        run("evaluate", "demo", *(part for method in MEASURED for part in ("-m", method)), "--html", str(measured))
        photograph(browser, measured, "evaluation", height=1180, width=1280)
    if wanted("report"):
        photograph(browser, report(folder), "report", height=1500, width=1280)
    if wanted("audit"):
        photograph(browser, Audit.load(AUDIT).save(audited), "audit", height=1250)


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium on this machine")
    IMAGES.mkdir(exist_ok=True)
    names = set(sys.argv[1:])
    bench = load()
    text = typical_sentence(bench, METHODS, [example.text for example in demo_sentences()])

    def wanted(name: str) -> bool:
        return not names or name in names

    if wanted("terminal"):
        (IMAGES / "terminal.svg").write_text(terminal(bench, text, METHODS), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, Browser(chromium) as browser:
        pages(browser, Path(folder), bench, text, wanted)
        if wanted("jupyterlab"):
            in_jupyterlab(browser, bench, text)
        if wanted("prompt"):
            prompt(browser, Path(folder))


if __name__ == "__main__":
    main()
