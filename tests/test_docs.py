"""Every code block in README and docs runs, and every link leads somewhere.

A page's Python blocks run in one namespace and folder, in order; so do its `looprop` commands. Models that a page names
stand in that folder as tiny ones of the same kind, so that nothing is downloaded. `# needs: package` as the first line
of a block skips it where that package is missing. Blocks marked `text` are drawings and equations.
"""

import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner
from website.staging import navigation

import tiny_heads
import zoo
from looprop.cli.main import app
from looprop.methods import names
from looprop.metrics import base as metrics
from looprop.propagation.rules import base as rules
from looprop.study import parse_spec
from tiny import tiny_classifier, tiny_decoder, wordpiece

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "results").rglob("report.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

DOCUMENTED = {
    "google-t5/t5-small": "t5",
    "google-bert/bert-base-uncased": "bert-mlm",
    "dslim/bert-base-NER": "bert-ner",
    "distilbert/distilbert-base-cased-distilled-squad": "distilbert-qa",
    "google/gemma-3-4b-it": "gemma3",
    "microsoft/resnet-50": "resnet",
    "superb/wav2vec2-base-superb-ks": "wav2vec2",
}
"""What stands in for the models of docs/how-to/heads.md."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    return ((match[1], match[2]) for match in BLOCK.finditer(page.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models under the names that the pages use."""
    folder = tmp_path_factory.mktemp("models")
    chat = "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}{% endfor %}"
    classifier, decoder = tiny_classifier(), tiny_decoder()
    decoder[1].chat_template = chat
    vit = zoo.vit()
    from transformers import ConvNextImageProcessor, ViTImageProcessor, Wav2Vec2FeatureExtractor

    processor = ViTImageProcessor(size={"height": 16, "width": 16})
    sound, picture = Wav2Vec2FeatureExtractor(), ConvNextImageProcessor(size={"shortest_edge": 32})
    small = {name: tiny_heads.model_of(name, torch.float32) for name in DOCUMENTED.values()}
    heads = {
        page_name: (small[name], sound if name in tiny_heads.SOUNDS else picture if name == "resnet" else wordpiece())
        for page_name, name in DOCUMENTED.items()
    }
    for name, parts in {
        **heads,
        "my-model": classifier,
        "HuggingFaceTB/SmolLM2-135M-Instruct": decoder,
        "google/vit-base-patch16-224": (vit, processor),
    }.items():
        (folder / name).mkdir(parents=True)
        for part in parts:
            part.save_pretrained(folder / name)
    return folder


@pytest.fixture
def own_registries() -> Iterator[None]:
    """Pages register methods, metrics and rules of their own, which other tests must not find."""
    registries: list[dict[str, Any]] = [names.REGISTERED, metrics._METRICS, rules.ENTERED]
    before = [dict(each) for each in registries]
    yield
    for each, entries in zip(registries, before, strict=True):
        each.clear()
        each.update(entries)


@pytest.fixture
def desk(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_registries: None) -> Path:
    """An empty folder to work in, with the models and a file of texts."""
    for path in models.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "texts.txt").write_text("good film\nnot good\na very bad movie\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_python(code: str, namespace: dict[str, object], where: str) -> None:
    exec(compile(code, where, "exec"), namespace)


def run_shell(line: str) -> None:
    words = shlex.split(line, comments=True)
    if words == ["looprop", "demo"]:  # 24 sentences by every method: what the embedded model adds to it is time
        words += ["--model", "my-model"]
    if words[0] == "looprop":
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}"
    elif words[0] == "make":
        subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    else:
        # Installation is what tests/cli/test_new_user.py does in an environment of its own.
        assert words[:2] == ["pip", "install"], f"nothing here knows how to run {line!r}"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_code_of_a_page_runs(page: Path, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {"__name__": "docs"}
    missing = []
    for number, (language, code) in enumerate(blocks(page), 1):
        where = f"{name_of(page)}, block {number}"
        needed = re.match(r"# needs: (\w+)", code)
        if needed and importlib.util.find_spec(needed[1]) is None:
            missing.append(needed[1])
        elif language == "python":
            run_python(code, namespace, where)
        elif language == "sh" or (language == "" and page.name == "CONTRIBUTING.md"):
            for line in code.splitlines():
                run_shell(line)
        elif language == "yaml":
            spec = parse_spec(code, where=where)
            (desk / f"{spec.name}.yaml").write_text(code, encoding="utf-8")
        else:
            assert language == "text", f"{where}: a block must say what it is, got {language!r}"
    if missing:
        pytest.skip(f"all but the blocks that need {', '.join(missing)} ran")


def leads_somewhere(page: Path, target: str) -> bool:
    """Is there such a file, and in it such a title? Addresses elsewhere are not looked at."""
    if target.startswith(("http://", "https://")):
        return True
    path, _, anchor = target.partition("#")
    place = (page.parent / path).resolve() if path else page
    if not anchor or not place.exists():
        return place.exists()
    titles = re.findall(r"^#+ (.+)$", place.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in LINKED for link in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))]
    assert not [f"{name_of(page)}: {link}" for page, link in links if not leads_somewhere(page, link)]


def test_the_check_of_links_sees_what_is_missing() -> None:
    page = ROOT / "docs" / "index.md"
    assert leads_somewhere(page, "../README.md")
    assert not leads_somewhere(page, "no-such-page.md")
    assert not leads_somewhere(page, "../README.md#no-such-title")
    assert not leads_somewhere(page, "no-such-page.md#title")


def test_every_page_stands_once_in_the_index_which_the_readme_names() -> None:
    assert "(docs/index.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    index = ROOT / "docs" / "index.md"
    listed = [address for _, entries in navigation(index.read_text(encoding="utf-8")) for _, address in entries]
    found = [name_of((index.parent / address).resolve()) for address in listed]
    assert len(found) == len(set(found)), "a page stands twice in docs/index.md"
    assert set(found) >= {name_of(page) for page in PAGES} - {"docs/index.md"}
