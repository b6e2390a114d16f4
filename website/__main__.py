"""`python -m website`: builds the site into build/site, and fails on any warning, dead link or foreign load."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from website.checking import dead_links, foreign_loads
from website.gallery import LANGUAGE_MODEL, write_gallery
from website.places import ROOT
from website.staging import stage


def build(out: Path, *, language_model: bool) -> list[str]:
    """Build the site into a folder, which is emptied first; what is wrong with it, as sentences."""
    from sphinx.cmd.build import build_main  # of looprop[docs]

    with tempfile.TemporaryDirectory() as folder:
        source, extra = Path(folder) / "source", Path(folder) / "extra"
        live = write_gallery(extra / "gallery", language_model=language_model)
        stage(source, live)
        shutil.rmtree(out, ignore_errors=True)
        settings = ["-c", str(Path(__file__).parent), "-d", f"{folder}/doctrees", "-D", f"html_extra_path={extra}"]
        if build_main([*settings, "--fail-on-warning", "-q", str(source), str(out)]):
            return ["Sphinx has warnings, see above"]
    return [*dead_links(out), *foreign_loads(out)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m website")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="the folder of the site")
    parser.add_argument(
        "--language-model",
        action=argparse.BooleanOptionalAction,
        default=True,
        help=f"make the gallery's page of a prompt, where {LANGUAGE_MODEL} is in the cache",
    )
    arguments = parser.parse_args()
    wrong = build(arguments.out, language_model=arguments.language_model)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"written to {arguments.out / 'index.html'}")


if __name__ == "__main__":
    main()
