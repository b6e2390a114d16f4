"""Output in a real JupyterLab, light and dark: isolated from its style, in its theme, pictures shown."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from browser import Browser
from display.prompt_examples import example
from evaluation.pages import evaluated
from jupyter import jupyter_lab, notebook, serving
from looprop.display import prompt_frame
from looprop.display.colour import DARK, LIGHT, colour_of, parse
from looprop.evaluation.examples import said_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(jupyter_lab() is None, reason="no JupyterLab: put jupyter-lab on the path (tests/jupyter.py)"),
]


class Framed:
    """The page of a prompt as a notebook shows it."""

    def _repr_html_(self) -> str:
        return prompt_frame("t", example())


@pytest.fixture(scope="module")
def content() -> str:
    found = evaluated()
    frame = found.frames["0"]
    several = said_of(frame, [row for row in found.rows if row["example"] == "0"])
    return notebook(
        [("e", several[1]), ("e.plot()", several[1].plot()), ("both", several), ("measured", found), ("p", Framed())]
    )


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def opened(
    request: pytest.FixtureRequest, browser: Browser, content: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Browser, bool]]:
    command = jupyter_lab()
    assert command is not None
    with serving(command, tmp_path_factory.mktemp("lab"), content, dark=request.param) as address:
        # The system prefers the other theme: the notebook's own must win.
        browser.open(address, width=1280, height=1000, dark=not request.param)
        browser.wait("document.querySelectorAll('[data-looprop]').length === 3")
        browser.wait("[...document.querySelectorAll('[data-looprop]')].every(host => host.shadowRoot)")
        yield browser, request.param


INSIDE = "[...document.querySelectorAll('[data-looprop]')].map(host => host.shadowRoot)"


def test_outputs_are_drawn_in_the_theme_of_the_notebook(opened: tuple[Browser, bool]) -> None:
    browser, dark = opened
    assert browser.evaluate(f"{INSIDE}.map(root => root.querySelector('.looprop').dataset.theme)") == (
        ["dark" if dark else "light"] * 3
    )
    strongest = "[...root.querySelectorAll('.f')].find(f => f.style.getPropertyValue('--m') === '100.0%')"
    shown = browser.evaluate(f"""{INSIDE}.slice(0, 1).map(root => {{
        const canvas = new OffscreenCanvas(1, 1).getContext('2d'), chip = {strongest};
        canvas.fillStyle = getComputedStyle(chip).backgroundColor;
        canvas.fillRect(0, 0, 1, 1);
        return [chip.classList.contains('p'), [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)];
    }})""")
    ((speaks_for, colour),) = shown
    expected = parse(colour_of(1.0 if speaks_for else -1.0, DARK if dark else LIGHT))
    assert colour == pytest.approx([round(255 * part) for part in expected], abs=2)


def test_labels_do_not_lie_on_values(opened: tuple[Browser, bool]) -> None:
    """What new users saw: Jupyter's own style of dl and table had gone in."""
    browser, _ = opened
    boxes = browser.evaluate(
        f"[...{INSIDE}[0].querySelectorAll('.facts div')]"
        ".map(pair => [...pair.children].map(e => (b => [b.left, b.top, 0, b.bottom])(e.getBoundingClientRect())))"
    )
    assert len(boxes) >= 5
    for name, value in boxes:
        assert name[3] <= value[1] + 1, "a label stands above its value"
        assert abs(name[0] - value[0]) <= 1, "and begins where it does"


def test_the_table_of_an_evaluation_can_be_read(opened: tuple[Browser, bool]) -> None:
    browser, _ = opened
    rows = browser.evaluate(
        f"[...{INSIDE}[2].querySelectorAll('tbody tr')]"
        ".map(row => [...row.cells].filter(c => c.getClientRects().length)"
        ".map(c => (b => [b.left, b.right])(c.getBoundingClientRect())))"
    )
    assert len(rows) == len(evaluated().methods)
    for cells in rows:
        assert all(left[1] <= right[0] + 1 for left, right in pairwise(cells)), "side by side"
    sizes = browser.evaluate(f"[...{INSIDE}[2].querySelectorAll('td, th')].map(c => getComputedStyle(c).fontFamily)")
    assert len(set(sizes)) == 1
    assert "system-ui" in sizes[0]


def test_a_plot_is_a_picture(opened: tuple[Browser, bool]) -> None:
    browser, _ = opened
    pictures = browser.evaluate("[...document.querySelectorAll('.jp-OutputArea-output img')].map(i => i.naturalWidth)")
    assert len(pictures) == 1
    assert pictures[0] > 300


def test_the_frame_of_a_prompt_takes_the_height_it_needs(opened: tuple[Browser, bool]) -> None:
    browser, _ = opened
    browser.wait("(h => h >= 240 && h !== 620)(document.querySelector('[data-looprop-frame] iframe').offsetHeight)")


def test_switches_work(opened: tuple[Browser, bool]) -> None:
    browser, _ = opened
    notes = (
        f"[...{INSIDE}[1].querySelectorAll('.own-scale, .one-scale > span')].map(n => n.getClientRects().length > 0)"
    )
    before = browser.evaluate(notes)
    browser.evaluate(f"{INSIDE}[1].querySelector('.scale-switch').click()")
    assert browser.evaluate(notes) == [not shown for shown in before]
