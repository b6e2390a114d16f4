"""looprop beside its peers: one bench that anyone can run.

    python -m benchmarks                      everything, under 30 minutes on two idle cores
    python -m benchmarks --quick              tiny models: does all of it run? under 5 minutes once the environments are
    there
    python -m benchmarks --only speed         one section, the others are kept from the last run
    python -m benchmarks --render             the pages, the figure and the README's passage anew from the JSON
    python -m benchmarks --compare A B        are the ratios of two runs within 15 %?

Each peer has an environment of its own under .bench/ (or LOOPROP_BENCH), made at the first run. A peer that cannot be
installed or run is reported with its error. SST-2 is read from LOOPROP_DATA, SmolLM2 from the cache of looprop.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, write_json
from benchmarks.compare import compare_files
from benchmarks.environments import BENCH, ROOT
from benchmarks.ratio_figure import draw
from benchmarks.render import render
from benchmarks.render_parts import render_parts
from benchmarks.render_summary import render_passage, summary
from benchmarks.sections import (
    FULL,
    QUICK,
    Sizes,
    agreement,
    evaluation,
    faithfulness,
    growth,
    limit,
    many_texts,
    prompts,
    speed,
)
from benchmarks.team import Team, team

SECTIONS = {
    "agreement": agreement.measure,
    "speed": speed.measure,
    "many_texts": many_texts.measure,
    "prompts": prompts.measure,
    "evaluation": evaluation.measure,
    "growth": growth.measure,
    "faithfulness": faithfulness.measure,
    "limit": limit.measure,
}
RESULT = RESULTS / "peers.json"
QUICK_RESULT = BENCH / "quick.json"
START_UP = RESULTS / "start_up.json"
DOCS, README = ROOT / "docs", ROOT / "README.md"


def machine(threads: int) -> dict[str, Any]:
    """What the numbers were measured on."""
    processor = platform.processor() or platform.machine()
    about = Path("/proc/cpuinfo")
    if about.exists():
        named = [
            line.split(":", 1)[1].strip()
            for line in about.read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ]
        processor = named[0] if named else processor
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "threads": threads,
        "system": platform.system(),
        "python": platform.python_version(),
    }


def run_section(members: Team, name: str, sizes: Sizes, threads: int) -> dict[str, Any]:
    """One section with what it was measured on."""
    print(f"{name} ...", flush=True)
    start, load = time.monotonic(), os.getloadavg() if hasattr(os, "getloadavg") else None
    rows = SECTIONS[name](members, sizes)
    seconds = time.monotonic() - start
    failed = [row for row in rows if "error" in row]
    print(f"    {len(rows)} rows in {seconds:.0f} s{f', {len(failed)} with errors' if failed else ''}", flush=True)
    return {
        "seconds": seconds,
        "load_before": load,
        "machine": machine(threads),
        "versions": members.versions(),
        "rows": rows,
    }


def written(result: dict[str, Any], readme: str) -> dict[Path, str]:
    """Everything that is made of a result: two pages, the figure and the README."""
    start_up = json.loads(START_UP.read_text(encoding="utf-8")) if START_UP.exists() else None
    return {
        DOCS / "benchmarks.md": summary(result, start_up),
        DOCS / "benchmarks-in-detail.md": render(result) + "\n" + render_parts(RESULTS),
        DOCS / "images" / "benchmarks.svg": draw(result),
        README: render_passage(result, start_up, readme),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, write JSON section by section, render the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"tiny sizes; writes {QUICK_RESULT.name} beside the environments and no page",
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), metavar="SECTION", help=", ".join(SECTIONS)
    )
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count() or 1, help="of torch in every process; all cores by default"
    )
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    parser.add_argument("--no-install", action="store_true", help="use the environments that are there")
    parser.add_argument("--render", action="store_true", help="only write the page")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="only compare two results")
    given = parser.parse_args(arguments)
    if given.compare:
        return compare_files(*given.compare)
    path = given.output or (QUICK_RESULT if given.quick else RESULT)
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"sections": {}}
    if not given.render:
        with team(given.threads, install=not given.no_install) as members:
            for name in given.only:
                result["sections"][name] = run_section(members, name, QUICK if given.quick else FULL, given.threads)
                result["quick"] = given.quick
                write_json(path, result)
            for name, error in members.errors.items():
                print(f"{name} could not be run: {error}")
        print(f"written to {path}")
    if path == RESULT:
        for place, text in written(result, README.read_text(encoding="utf-8")).items():
            place.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
