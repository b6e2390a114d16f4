"""How quick the explorer is: first paint, strike-outs, the order in which methods come, how soon Stop stops.

A real server with the embedded model, a real Chromium (Debian: apt-get install chromium). Writes the figures to
benchmarks/results/explorer.json and into docs/how-to/explorer.md.

    python -m benchmarks.explorer                 # under two minutes
    python -m benchmarks.explorer --quick         # does it run?
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, machine, write_json
from looprop.methods.registry import make_method
from looprop.serving.app import Explorer, server
from looprop.serving.guard import address_of, bound_socket, new_token
from looprop.workbench import load

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "explorer.md"
BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
TEXT = "Slow at first, but the acting is superb and the ending is not bad at all."
LONG = "The plot is thin, the jokes are old, and yet it is a very good film. " * 8
METHODS = ("ig", "looprop", "loo", "attnlrp", "cp-lrp", "grad-x-input", "rollout")
BARS = {"first_paint": 1.0, "strike_out": 0.150, "stop": 1.0}
"""Seconds; the second a median, the last the slowest."""
IDLE = "page.panels.every(p => p.root.dataset.state === 'idle')"


@contextmanager
def running(explorer: Explorer) -> Iterator[str]:
    """The explorer on a free port; gives its address."""
    with bound_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        own = server(explorer, listening, "127.0.0.1")
        thread = threading.Thread(target=own.run, kwargs={"sockets": [listening]})
        thread.start()
        while not own.started:
            time.sleep(0.01)
        try:
            yield address_of("127.0.0.1", port, explorer.token)
        finally:
            own.should_exit = True
            thread.join()


def first_paints(browser: Any, address: str, repeats: int) -> list[float]:
    """Seconds from the navigation to the first contentful paint; the first of them with a cold browser."""
    found = []
    for _ in range(repeats):
        browser.open("about:blank")
        browser.open(address)
        entry = "(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime"
        found.append(browser.wait(entry) / 1000)
    return found


def ask(browser: Any, address: str, text: str, methods: tuple[str, ...]) -> None:
    """Asks in the page; does not wait for the methods."""
    browser.open(address)
    browser.wait("page.panels.length > 0")
    given = f"p.methods = {json.dumps(methods)}; p.form.text.value = {json.dumps(text)}; p.ask();"
    browser.evaluate(f"(p => {{ {given} }})(page.panels[0])")
    browser.wait("page.panels[0].data !== null")


def strike_outs(browser: Any, most: int) -> list[float]:
    """Seconds from a click to the true change in the page, for every token by itself."""
    count = min(most, browser.evaluate("page.panels[0].data.features.length"))
    timed = (
        "(async (p, i) => { p.struck.clear(); p.seen.clear(); const t = performance.now(); await p.strike(i); "
        "return p.outcome === null ? null : performance.now() - t; })(page.panels[0], %d)"
    )
    return [browser.evaluate(timed % i) / 1000 for i in range(count)]


def order_of_methods(browser: Any, address: str, explorer: Explorer) -> list[dict[str, Any]]:
    """The methods as they came to the page, each with the passes that it states."""
    browser.open(address)
    browser.wait("page.panels.length > 0")
    browser.evaluate(
        "window.came = []; const take = Panel.prototype.take; Panel.prototype.take = function (found, began) { "
        "if (found.computed === undefined) came.push([found.method, (performance.now() - began) / 1000]); "
        "return take.call(this, found, began); };"
    )
    asking = f"p.methods = {json.dumps(METHODS)}; p.form.text.value = {json.dumps(TEXT)}; return p.ask();"
    browser.evaluate(f"(p => {{ {asking} }})(page.panels[0])")
    browser.wait(IDLE)
    last: dict[str, float] = dict(browser.evaluate("came"))
    asked = next(a for q, a in explorer._known.items() if q.text == TEXT)
    return [
        {"method": name, "passes": make_method(name).passes(asked.subject), "seconds": seconds}
        for name, seconds in sorted(last.items(), key=lambda one: one[1])
    ]


def stops(browser: Any, address: str, explorer: Explorer, methods: tuple[str, ...], repeats: int) -> list[float]:
    """Seconds from a click on Stop until nothing is computed any more."""
    found = []
    for number in range(repeats):
        ask(browser, address, f"{number} {LONG}", methods)
        wait_for(lambda: not explorer.worker.idle)
        browser.evaluate("new Promise(done => setTimeout(done, 400))")
        assert not explorer.worker.idle, "it was done before it could be stopped"
        start = time.perf_counter()
        browser.evaluate("page.panels[0].stop()")
        wait_for(lambda: explorer.worker.idle)
        found.append(time.perf_counter() - start)
    return found


def wait_for(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.002)


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, slowest and count."""
    return {"median": statistics.median(seconds), "slowest": max(seconds), "count": len(seconds)}


def measure(browser: Any, *, quick: bool) -> dict[str, Any]:
    """All figures."""
    explorer = Explorer({"embedded": load()}, token=new_token())
    few = 1 if quick else 5
    with running(explorer) as address:
        paints = first_paints(browser, address, 2 * few)
        ask(browser, address, TEXT, ("loo", "cp-lrp", "attnlrp", "looprop"))
        browser.wait(IDLE)
        quiet = strike_outs(browser, 2 if quick else 100)
        order = order_of_methods(browser, address, explorer)
        ask(browser, address, LONG, ("shapley",))
        meanwhile = strike_outs(browser, 2 if quick else 20)
        browser.evaluate("page.panels[0].stop()")
        wait_for(lambda: explorer.worker.idle)
        stopped = [s for names in (("loo",), ("shapley",)) for s in stops(browser, address, explorer, names, few)]
    passes = [one["passes"] for one in order]
    return {
        "first_paint": spread(paints),
        "strike_out": spread(quiet),
        "strike_out_during_shapley": spread(meanwhile),
        "stop": spread(stopped),
        "order": order,
        "in_order_of_cost": passes == sorted(passes),
    }


def verdicts(result: dict[str, Any]) -> dict[str, bool]:
    """Which bars are met."""
    return {
        "first_paint": result["first_paint"]["slowest"] < BARS["first_paint"],
        "strike_out": result["strike_out"]["median"] < BARS["strike_out"],
        "stop": result["stop"]["slowest"] < BARS["stop"],
        "in_order_of_cost": result["in_order_of_cost"],
    }


def passage(result: dict[str, Any]) -> str:
    """What the how-to says of it."""
    paint, strike, during, stop = (
        result[name] for name in ("first_paint", "strike_out", "strike_out_during_shapley", "stop")
    )
    rows = [
        ("first paint after the server is up", paint, "slowest under 1 s"),
        ("a token struck out of the embedded model's text, click to number", strike, "median under 150 ms"),
        ("the same while Shapley values of a long text are computed", during, ""),
        ("*Stop* to nothing computed any more", stop, "slowest under 1 s"),
    ]
    table = [
        f"| {name} | {of['median'] * 1000:.0f} ms | {of['slowest'] * 1000:.0f} ms | {bar} |" for name, of, bar in rows
    ]
    came = ", ".join(f"{one['method']} ({one['passes']:.0f})" for one in result["order"])
    load = "" if result["load"] is None else f", load {result['load'][0]:.1f} at the start"
    return "\n".join(
        [
            BEGIN,
            "| | median | slowest | bar |",
            "| --- | --- | --- | --- |",
            *table,
            "",
            f"Methods came {'' if result['in_order_of_cost'] else 'not '}in order of their passes: {came}. Measured by "
            f"`python -m benchmarks.explorer` on {result['cores']} cores{load} "
            "([explorer.json](../../benchmarks/results/explorer.json)).",
            END,
        ]
    )


def write_page(result: dict[str, Any], page: Path = PAGE) -> None:
    """Puts the passage between its marks."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    page.write_text(before + passage(result) + rest.partition(END)[2], encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Measures, writes, and says whether the bars were met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=None)
    given = parser.parse_args(arguments)
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium on this machine")
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import Browser  # type: ignore[import-not-found,unused-ignore]

    about = machine()
    with Browser(chromium) as browser:
        result = {**about, "quick": given.quick, **measure(browser, quick=given.quick), "bars": BARS}
    met = verdicts(result)
    for name, value in met.items():
        print(f"{name}: {'met' if value else 'MISSED'}", flush=True)
    busy = about["load"] is not None and about["load"][0] > about["cores"] / 2
    note = "others worked on the machine" if busy else "the machine was idle"
    if not given.quick or given.output:
        write_json(given.output or RESULTS / "explorer.json", {**result, "met": met, "note": note})
    if not given.quick:
        write_page(result)
    print(passage(result))
    return int(not all(met.values()) and not given.quick)


if __name__ == "__main__":
    sys.exit(main())
