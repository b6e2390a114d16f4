"""How far one has to walk through looprop: functions, files and changes of file of three calls, profiled.

    python -m benchmarks.walks                    the table, the most frequent changes of file and of folder
    python -m benchmarks.walks --top 40           more of them
    python -m benchmarks.walks --walk explain     also the walk itself, call by call (by the beginning of its name)

Definitions (they give the figures of the first review of the house exactly):

call      a "call" event of sys.setprofile in this thread whose code lies under the folder of the looprop package and
          has a name of its own: <listcomp>, <genexpr>, <lambda>, <module> and the like are not counted. A generator
          that goes on (the second half of a context manager) is a "call" again, as Python reports it.
muted     what runs below a function named `__torch_function__` is left out, the function itself is counted.
functions distinct code objects; files: distinct files of these; both also unmuted ("with operations").
change of file    two calls in a row whose files differ (what is called when, not who calls whom; returns are no calls)
change of folder  two calls in a row whose files' folders (the whole path inside the package) differ

With operations the review also counts the lambdas: 109 functions, where this counts 107.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

torch.set_num_threads(1)

import looprop  # noqa: E402

PACKAGE = str(Path(looprop.__file__).resolve().parent) + os.sep
TEXT = "This is not a bad film at all."
METHODS = ["loo", "cp-lrp"]
REVIEW = {"explain cp-lrp": (68, 18, 65, 34), "evaluate, command line": (215, 59, 575, 201)}

Call = tuple[str, str]  # file, qualified name


class Walk:
    """The calls of one run."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.codes: set[Any] = set()
        self.all_codes: set[Any] = set()
        self.lambdas: set[Any] = set()
        self.calls: list[Call] = []
        self.total = 0
        inside = 0  # functions named __torch_function__ that are running

        def note(frame: Any, event: str, _: Any) -> None:
            nonlocal inside
            code = frame.f_code
            if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
                return
            operation = code.co_name == "__torch_function__"
            if event == "return":
                inside -= operation
                return
            if not code.co_name.startswith("<"):
                self.total += 1
                self.all_codes.add(code)
                if not inside:
                    self.codes.add(code)
                    self.calls.append((code.co_filename.removeprefix(PACKAGE), code.co_qualname))
            elif code.co_name == "<lambda>":
                self.lambdas.add(code)
            inside += operation

        sys.setprofile(note)
        try:
            run()
        finally:
            sys.setprofile(None)

    def changes(self, place: Callable[[Call], str]) -> Counter[tuple[str, str]]:
        pairs = ((place(a), place(b)) for a, b in zip(self.calls, self.calls[1:], strict=False))
        return Counter((a, b) for a, b in pairs if a != b)

    @property
    def by_file(self) -> Counter[tuple[str, str]]:
        return self.changes(lambda call: call[0])

    @property
    def by_folder(self) -> Counter[tuple[str, str]]:
        return self.changes(lambda call: folder(call[0]))

    def behind(self) -> Counter[tuple[str, str]]:
        """Which functions stand at the changes of file."""
        pairs = zip(self.calls, self.calls[1:], strict=False)
        return Counter((":".join(a), ":".join(b)) for a, b in pairs if a[0] != b[0])

    def figures(self) -> tuple[int, ...]:
        return (
            len(self.codes),
            len({c.co_filename for c in self.codes}),
            sum(self.by_file.values()),
            sum(self.by_folder.values()),
            len(self.all_codes),
            len(self.all_codes | self.lambdas),
            len({c.co_filename for c in self.all_codes}),
            len(self.calls),
            self.total,
        )


def folder(file: str) -> str:
    return os.path.dirname(file) or "."


def command_line() -> Callable[[], None]:
    """`looprop evaluate demo`, one text, as typer's own test runner calls it, page included."""
    from importlib import import_module

    import typer
    from typer.testing import CliRunner

    import_module("looprop.__main__")
    apps = {
        id(v): v
        for name, module in list(sys.modules.items())
        if name.startswith("looprop")
        for v in vars(module).values()
        if isinstance(v, typer.Typer)
    }
    if len(apps) != 1:
        raise SystemExit(f"expected one typer.Typer in the package, found {len(apps)}")
    (app,) = apps.values()
    methods = [part for method in METHODS for part in ("--method", method)]

    def run() -> None:
        with tempfile.TemporaryDirectory() as place:
            result = CliRunner().invoke(
                app, ["evaluate", "demo", "--limit", "1", *methods, "--html", f"{place}/page.html"]
            )
        if result.exit_code:
            raise SystemExit(f"looprop evaluate failed with {result.exit_code}: {result.output}")

    return run


def measure() -> dict[str, Walk]:
    """Every walk after a run of its own to warm up; what is loaded or imported for the first time is not part of it."""
    walks: dict[str, Walk] = {}
    m = looprop.load()
    m.explain(TEXT, "cp-lrp")
    walks["explain cp-lrp"] = Walk(lambda: m.explain(TEXT, "cp-lrp"))
    run = command_line()
    run()
    walks["evaluate, command line"] = Walk(run)
    _ = looprop.evaluate(m, [TEXT], METHODS).summary
    fresh = looprop.load()
    walks["evaluate, Python, model just loaded"] = Walk(lambda: looprop.evaluate(fresh, [TEXT], METHODS).summary)
    walks["evaluate, Python, model known"] = Walk(lambda: looprop.evaluate(fresh, [TEXT], METHODS).summary)
    return walks


def show(walks: dict[str, Walk], top: int) -> None:
    print(f"package: {PACKAGE}")
    head = ("functions", "files", "ch. file", "ch. folder", "| with ops", "+lambdas", "files", "| calls", "with ops")
    width = max(map(len, walks))
    print(f"\n{'':{width}} " + " ".join(f"{h:>10}" for h in head))
    for name, walk in walks.items():
        print(f"{name:{width}} " + " ".join(f"{n:>10}" for n in walk.figures()))
        if name in REVIEW:
            print(f"{'  the review had':{width}} " + " ".join(f"{n:>10}" for n in REVIEW[name]))
    for name, walk in walks.items():
        for title, found in (
            ("changes of file", walk.by_file),
            ("changes of folder", walk.by_folder),
            ("calls behind the changes of file", walk.behind()),
        ):
            print(f"\n{name}: {title}, {sum(found.values())} in {len(found)} pairs")
            for (a, b), count in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:top]:
                print(f"{count:6d}  {a} -> {b}")
        print(f"\n{name}: files by the number of changes of file that begin or end there, functions called, calls")
        ends: Counter[str] = Counter()
        for (a, b), count in walk.by_file.items():
            ends[a] += count
            ends[b] += count
        calls, names = (
            Counter(file for file, _ in walk.calls),
            {file: {n for f, n in walk.calls if f == file} for file, _ in walk.calls},
        )
        for file, _ in sorted(calls.items(), key=lambda item: (-ends[item[0]], item[0])):
            print(f"{ends[file]:6d} {len(names[file]):4d} {calls[file]:5d}  {file}")


def show_walk(name: str, walk: Walk) -> None:
    """Call by call; what repeats in a row stands once, with its number."""
    print(f"\n{name}: the walk")
    last, count = "", 0
    rows: list[tuple[str, list[str]]] = []
    for file, function in walk.calls:
        if file != last:
            rows.append((file, []))
        own = rows[-1][1]
        if own and own[-1].split(" x")[0] == function:
            count += 1
            own[-1] = f"{function} x{count}"
        else:
            count = 1
            own.append(function)
        last = file
    for i, (file, functions) in enumerate(rows):
        print(f"{i:5d}  {file}: {', '.join(functions)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--top", type=int, default=25)
    parser.add_argument("--walk", default="")
    given = parser.parse_args()
    with contextlib.redirect_stderr(io.StringIO()):
        walks = measure()
    show(walks, given.top)
    for name, walk in walks.items():
        if given.walk and (given.walk == "all" or name.startswith(given.walk)):
            show_walk(name, walk)


if __name__ == "__main__":
    main()
