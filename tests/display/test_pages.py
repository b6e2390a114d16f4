"""Pages: escaped, off the network, complete; strips, legend, tables."""

import html as standard
import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looprop.display.data import Cell, Column, Strip, estimated
from looprop.display.html import card, escape, facts, fragment, heat_table, page, paragraph, table
from looprop.display.strips import (
    View,
    comparison_fragment,
    comparison_page,
    explanation_fragment,
    explanation_page,
    feature_table,
    legend,
    strip,
)

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style>",
    "&amp;",
    "a'b",
    "\u202eabc",
    "\x00\x1b[31m",
    "\ud800",
    "🙂",
    " ",
]

TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "header",
    "footer",
    "section",
    "div",
    "span",
    "h1",
    "h2",
    "p",
    "small",
    "i",
    "b",
}
TAGS |= {"dl", "dt", "dd", "script", "button", "label", "input", "table", "thead", "tbody", "tr", "th", "td"}


class Reader(HTMLParser):
    """Collects tags, attributes and the text outside of style and script."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "input", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data

    def features(self) -> list[dict[str, str | None]]:
        return [
            attributes
            for tag, attributes in self.tags
            if tag == "span" and "f" in (attributes.get("class") or "").split()
        ]


def view(features: list[str], name: str = "loo", r: float | None = None) -> View:
    scores = [(-1) ** i * (i + 1) / 10 for i in range(len(features))]
    shown = Strip(features, scores, name=name, facts=[("model", "<b>")], r=r)
    return View(shown, Strip(features[:2], scores[:2], name=name))


def every_page() -> dict[str, str]:
    one, two = view(HOSTILE), view(HOSTILE, name="<i>", r=0.5)
    hostile_table = table(
        [Column("<th>", bars=True), Column("x")], [[Cell(1.0, tip="<tip>"), "<td>"], [Cell(-1.0, text="<t>"), "&"]]
    )
    return {
        "explanation": explanation_page("<title>", one, subtitle="<sub>", footer="<foot>"),
        "comparison": comparison_page("<title>", [[one, two]]),
        "table": page("t", card(hostile_table, title="<h>") + paragraph("<p>")),
        "heat": page("t", card(heat_table(HOSTILE, ["<c>"], [[float(i)] for i in range(len(HOSTILE))], corner="<x>"))),
        "explanation fragment": explanation_fragment("<title>", one),
        "comparison fragment": comparison_fragment([[one, two], [one]]),
    }


@pytest.mark.parametrize("name", every_page())
def test_hostile_text_stays_text(name: str) -> None:
    source = every_page()[name]
    reader = Reader(source)
    assert not reader.open, "every element is closed"
    scripts = [tag for tag, _ in reader.tags if tag == "script"]
    assert len(scripts) == (0 if "fragment" in name else 1), "only the page's own script"
    assert {tag for tag, _ in reader.tags} <= TAGS
    assert not any(attribute.startswith("on") for _, attributes in reader.tags for attribute in attributes)
    if name != "table":
        assert "<script>alert(1)</script>" in reader.text
    assert "\u202e" not in source
    source.encode("utf-8")


@pytest.mark.parametrize("name", every_page())
def test_nothing_from_the_network(name: str) -> None:
    source = every_page()[name]
    assert not re.search(r"https?:|//\w+\.\w|@import|url\(", source)
    loads = [
        (tag, key)
        for tag, attributes in Reader(source).tags
        for key in attributes
        if key in {"src", "href", "srcset", "action"}
    ]
    assert not loads


def test_pages_forbid_the_network_themselves() -> None:
    policy = next(
        a["content"]
        for t, a in Reader(every_page()["table"]).tags
        if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")


@settings(max_examples=50)
@given(st.text())
def test_escape_keeps_readable_text(text: str) -> None:
    escaped = escape(text)
    assert not set("<>\"'") & set(escaped)
    readable = "".join(c for c in text if c.isprintable() or c == " ")
    unescaped = standard.unescape(escaped)
    assert all(character in unescaped for character in readable)


def test_strip_is_the_text_itself() -> None:
    shown = Strip(["un", "believ", "able", "!"], [0.1, 0.2, 0.3, 0.0], joined=[False, True, True, True])
    assert Reader(strip(shown)).text == "unbelievable!"
    assert Reader(strip(Strip(["a", "b"], [1.0, 2.0]))).text == "a b"


def test_colours_of_a_strip() -> None:
    shown = Strip(["a", "b", "c", "d", "e"], [1.0, -2.0, 0.0, 50.0, math.nan], outside_scale=frozenset({3}))
    marks = [(a["class"], a["style"]) for a in Reader(strip(shown)).features()]
    assert marks == [
        ("f p", "--m:50.0%"),
        ("f n", "--m:100.0%"),
        ("f p", "--m:0.0%"),
        ("f outside", ""),
        ("f outside", ""),
    ]


def test_value_on_hover() -> None:
    tips = [a["title"] for a in Reader(strip(Strip(["a", "b"], [1.0, -2.5], outside_scale=frozenset({1})))).features()]
    assert tips == ["+1.00 · position 1 of 2", "−2.50 (outside the colour scale)"]


def test_legend_has_zero_in_the_middle() -> None:
    text = Reader(legend(2.5)).text
    assert text.index("−2.50") < text.index("+2.50")
    assert "50%" in fragment("")


@pytest.mark.parametrize("scores", [[], [0.0, 0.0], [math.nan, math.nan], [math.inf, 1.0]])
def test_degenerate_scores(scores: list[float]) -> None:
    shown = Strip([f"f{i}" for i in range(len(scores))], scores)
    for source in (
        strip(shown),
        feature_table(shown),
        explanation_page("t", View(shown)),
        comparison_page("t", [[View(shown), View(shown)]]),
    ):
        assert not Reader(source).open


def test_feature_table_is_sorted_by_magnitude() -> None:
    source = feature_table(Strip(["low", "high", "nan", "negative"], [0.1, 0.9, math.nan, -1.5]))
    names = re.findall(r'<td class="short">(\w+)</td>', source)
    assert names == ["negative", "high", "low", "nan"]


def test_bars_start_at_zero() -> None:
    source = table([Column("x", bars=True)], [[Cell(3.0, low=2.0, high=3.0)], [Cell(-1.0)]])
    pieces = re.findall(r'<(i|i class="n"|b) style="--from:([\d.]+);--length:([\d.]+)"', source)
    # The column spans -1 to 3, zero lies at a quarter.
    assert pieces == [("i", "0.2500", "0.7500"), ("b", "0.7500", "0.2500"), ('i class="n"', "0.0000", "0.2500")]


def test_table_cells() -> None:
    source = table(
        [Column("name"), Column("x", tip="why")],
        [["a", Cell(1.5, best=True)], ["b", Cell(math.nan)]],
        strong=frozenset({1}),
    )
    assert '<td class="num best" data-sort="1.5">1.50</td>' in source
    assert '<tr class="strong"><td class="short">b</td><td class="num" data-sort="nan">–</td></tr>' in source
    assert 'title="why"' in source
    assert "aria-sort" not in table([Column("x")], [], sortable=False)


def test_the_cell_of_a_mean() -> None:
    cell = estimated(0.126, -0.5, 1.0, count=7, undefined=2, best=True)
    assert cell == Cell(0.126, -0.5, 1.0, text="0.13", tip="−0.500 to +1.00, n = 7, undefined on 2", best=True)
    unknown = estimated(math.nan, math.nan, math.nan, count=0)
    assert (unknown.text, unknown.tip) == ("–", "– to –, n = 0")


def test_heat_table_scales_each_column() -> None:
    source = heat_table(
        ["a", "b", "sink"], ["x", "y"], [[1.0, 10.0], [-2.0, 5.0], [99.0, 99.0]], uncoloured=frozenset({2})
    )
    assert re.findall(r'class="heat (\w+)" style="([^"]*)"', source) == [
        ("p", "--m:50.0%"),
        ("p", "--m:100.0%"),
        ("n", "--m:100.0%"),
        ("p", "--m:50.0%"),
        ("outside", ""),
        ("outside", ""),
    ]


def test_word_view_beside_the_token_view() -> None:
    both = explanation_page("t", View(Strip(["a", "b"], [1.0, 2.0]), Strip(["ab"], [3.0])), subtitle="s")
    alone = explanation_page("t", View(Strip(["a", "b"], [1.0, 2.0])))
    assert both.count('<input type="checkbox"') == 1
    assert both.count('<div class="words">') == both.count('<div class="tokens">') == 2
    assert '<input type="checkbox"' not in alone


def test_comparison_shows_r_to_loo() -> None:
    source = comparison_page(
        "t",
        [
            [
                view(["a", "b"], r=1.0),
                view(["a", "b"], name="cp-lrp", r=-0.25),
                view(["a", "b"], name="flat", r=math.nan),
            ]
        ],
    )
    assert re.findall(r"r to LOO <b>(.*?)</b>", source) == ["+1.00", "−0.25", "undefined"]


def test_facts_are_pairs() -> None:
    assert Reader(facts([("model", "bert"), ("cost", "3")])).text == "modelbertcost3"
    assert facts([]) == ""


def test_fragment_style_touches_nothing_else() -> None:
    style = re.sub(r"/\*.*?\*/", "", re.search(r"<style>(.*?)</style>", fragment(""), re.S)[1], flags=re.S)  # type: ignore[index]
    selectors = [
        s.strip()
        for block in re.findall(r"([^{}]+)\{", style)
        if not block.strip().startswith("@")
        for s in block.split(",")
    ]
    assert selectors
    assert all(".looprop" in selector or selector.count("(") != selector.count(")") for selector in selectors)
