"""`looprop reproduce` of every experiment, two examples each, by its command line in this process.

Data come from LOOPROP_DATA; digits are made of noise, and decoders are tiny and random, so that no trained model is
needed. An experiment whose data are absent is refused with looprop's own message. Not covered, since they need trained
weights of the hub: the same experiments with --model paper.
"""

import contextlib
import csv
import gzip
import io
import os
import re
import runpy
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.bit_for_bit.explaining import Entries
from benchmarks.bit_for_bit.heads import decoder
from benchmarks.bit_for_bit.plain import packed
from benchmarks.bit_for_bit.saving import written

# What is run, by experiment and data: options besides --out. MODEL stands for the folder of a tiny decoder.
RUNS: dict[str, list[str]] = {
    "softmax": [],
    "planted": [],
    "bilinear": ["--limit", "2"],
    "readings": ["--limit", "2"],
    "exhaustive": ["--limit", "2"],
    "baselines sst2": ["--limit", "2"],
    "layers sst2": ["--limit", "2"],
    "cheap sst2": ["--limit", "2"],
    "cheap sst2-prompts": ["--limit", "1", "--model", "MODEL"],
    "orders sst2-short": ["--limit", "2"],
    "remedy sst2": ["--limit", "2"],
    "remedy sst2-prompts": ["--limit", "1", "--model", "MODEL"],
    "truths sst2": ["--limit", "2"],
    "context squad": ["--limit", "2", "--model", "MODEL"],
}
DIGITS = ("bilinear", "readings")
TIMES = re.compile(r"\b(s|ms|seconds|min|ns)\b")


def noisy_digits(folder: Path) -> None:
    """MNIST's files, small: digit d is a bright bar at row 2 d, with noise."""
    import numpy as np

    (folder / "mnist").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 640), ("t10k", 20)):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = rng.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 * label + 4 : 2 * label + 6] += 150
        for kind, head, data in (
            ("images-idx3", struct.pack(">IIII", 0x0803, count, 28, 28), images),
            ("labels-idx1", struct.pack(">II", 0x0801, count), labels),
        ):
            with gzip.open(folder / "mnist" / f"{prefix}-{kind}-ubyte.gz", "wb") as file:
                file.write(head + data.tobytes())


def looprop_command(arguments: list[str]) -> tuple[int, str]:
    """`python -m looprop` with arguments, in this process: its exit code and what it says on standard error."""
    out, said = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["looprop", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(said),
    ):
        try:
            runpy.run_module("looprop", run_name="__main__")
            code: Any = 0
        except SystemExit as ended:
            code = ended.code
    return int(code or 0), said.getvalue()


@contextlib.contextmanager
def at_the_root() -> Iterator[None]:
    """The repository whose looprop is used as working directory: experiments may lie there, outside the package."""
    import looprop

    before = Path.cwd()
    os.chdir(Path(str(looprop.__file__)).parents[2])
    try:
        yield
    finally:
        os.chdir(before)


def without_times(report: str) -> str:
    """A report in Markdown without columns of times and lines about the session."""
    lines: list[str] = []
    hidden: list[int] = []
    for line in report.splitlines():
        if re.match(r"- (finished|sessions|torch|started|time)", line):
            continue
        cells = line.split(" | ")
        if line.startswith("| ") and not (lines and lines[-1].startswith("|")):
            hidden = [i for i, cell in enumerate(cells) if TIMES.search(cell)]
        if line.startswith("|") and len(cells) > 1 and hidden:
            cells = [cell for i, cell in enumerate(cells) if i not in hidden]
        lines.append(re.sub(r"\d[\d,.]* (s|ms|min)\b", "TIME", " | ".join(cells)))
    return "\n".join(lines)


def summary(text: str) -> list[dict[str, str]]:
    """The rows of summary.csv that are no times."""
    return [row for row in csv.DictReader(io.StringIO(text)) if not TIMES.search(row["column"])]


def reproduced(name: str, options: list[str]) -> Any:
    """The rows of a run, its summary and its report."""
    experiment, *data = name.split(" ")
    with tempfile.TemporaryDirectory() as place, at_the_root(), mock.patch.dict(os.environ):
        folder = Path(place)
        if experiment in DIGITS:
            noisy_digits(folder / "data")
            os.environ["LOOPROP_DATA"] = str(folder / "data")
        if "MODEL" in options:
            model, tokenizer = decoder(chat=experiment == "context", positions=2048)
            model.save_pretrained(folder / "model")
            tokenizer.save_pretrained(folder / "model")
        given = [str(folder / "model") if option == "MODEL" else option for option in options]
        given += ["--data", *data] if data else []
        code, said = 1, ""
        for form in (experiment, f"experiments/{experiment}"):
            code, said = looprop_command(["reproduce", form, *given, "--out", str(folder / "run")])
            if code == 0:
                break
        if code:
            return packed({"code": code, "said": said.replace(place, "PLACE")})
        run = folder / "run"

        def told(text: str) -> str:
            """A text without the folder, in which Markdown marks each underscore."""
            return text.replace(place.replace("_", "\\_"), "PLACE").replace(place, "PLACE")

        rows = [row for part in sorted((run / "parts").glob("*.parquet")) for row in written(part)]
        said_lines = [line for line in said.splitlines() if not line.startswith("wrote ")]
        return {
            "rows": rows,
            "summary": summary(told((run / "summary.csv").read_text(encoding="utf-8"))),
            "report": told(without_times((run / "report.md").read_text(encoding="utf-8"))),
            "files": sorted(file.name for file in run.iterdir() if file.is_file()),
            "said": [told(without_times(line)) for line in said_lines],
        }


def experiments() -> Entries:
    """Every experiment that needs no trained model but the embedded one."""
    for name, options in RUNS.items():
        yield name, lambda name=name, options=options: reproduced(name, options)
