"""Pages: escaped, off the network, complete; strips, legend, tables."""

import html as standard
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looprop.display.charts import Line, line_chart
from looprop.display.data import Cell, Column, PatchedImage, Strip, estimated
from looprop.display.html import card, escape, facts, fragment, heat_table, page, paragraph, table
from looprop.display.strips import (
    View,
    comparison,
    comparison_fragment,
    comparison_page,
    explanation_fragment,
    explanation_page,
    feature_table,
    legend,
    strip,
)
from looprop.metrics import Estimate

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
TAGS |= {
    "template",
    "pre",
    "br",
    "h3",
    "details",
    "summary",
    "img",
    "select",
    "option",
    "svg",
    "g",
    "polyline",
    "line",
    "text",
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
        if tag not in {"meta", "input", "img", "br"}:
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


PIXEL = "iVBORw0KGgo="


def patches(scores: list[float]) -> Strip:
    return Strip(
        [f"0,{i}" for i in range(len(scores))],
        scores,
        name="loo",
        picture=PatchedImage(PIXEL, 1, len(scores) + 1, cells=[[i] for i in range(len(scores))]),
    )


def every_page() -> dict[str, str]:
    one, two = view(HOSTILE), view(HOSTILE, name="<i>", r=0.5)
    hostile_table = table(
        [Column("<th>", bars=True), Column("x")], [[Cell(1.0, tip="<tip>"), "<td>"], [Cell(-1.0, text="<t>"), "&"]]
    )
    return {
        "explanation": explanation_page("<title>", one, subtitle="<sub>", footer="<foot>"),
        "comparison": comparison_page("<title>", [[one, two]]),
        "picture": page("t", card(comparison([View(replace(patches([1.0, 2.0]), name="<b>", features=["<i>", "&"]))]))),
        "chart": page("t", card(line_chart("<t>", [Line("<l>", [0.0, 1.0], [1.0, 2.0])], across="<x>", up="<y>"))),
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
    assert len(scripts) == 1, "only the page's own script"
    assert {tag for tag, _ in reader.tags} <= TAGS
    assert not any(attribute.startswith("on") for _, attributes in reader.tags for attribute in attributes)
    if name not in ("table", "picture", "chart"):
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
    assert set(loads) <= {("img", "src")}, "pictures are written in the page"
    sources = [attributes["src"] or "" for tag, attributes in Reader(source).tags if tag == "img"]
    assert all(address.startswith("data:image/png;base64,") for address in sources)


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
    mean = Estimate(0.126, -0.5, 1.0, 7, 2, 0.95, "percentile", 2000, 0)
    cell = estimated(mean, best=True)
    tip = "−0.500 to +1.00, n = 7, undefined on 2"
    assert cell == Cell(0.126, -0.5, 1.0, text="0.13", tip=tip, best=True, under="[−0.50, 1.00]")
    unknown = estimated(replace(mean, mean=math.nan, low=math.nan, high=math.nan, count=0, undefined=0))
    assert (unknown.text, unknown.tip, unknown.under) == ("–", "– to –, n = 0", "")


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


def test_the_output_of_a_notebook_lies_in_a_template() -> None:
    """Whatever its style says holds inside its shadow root, which is made of the template."""
    reader = Reader(fragment("<p>x</p>", plain="<plain>"))
    assert [tag for tag, _ in reader.tags] == ["div", "template", "style", "div", "p", "pre", "script"]
    assert reader.text.replace("\n", "") == "x<plain>"


def test_line_breaks_of_a_text_are_kept() -> None:
    shown = Strip(["one", "two", "three"], [1.0, 2.0, 3.0], breaks=[0, 1, 4])
    source = strip(shown)
    assert re.sub(r"</?(p|span)[^>]*>", "", source) == "one<br>two<br><br>three"
    tokens = Strip(["Hello", ",\n\n", " world", "\n", "  "], [1.0] * 5, joined=[False, True, False, True, True])
    assert Reader(strip(tokens)).text == "Hello,↵\n↵\n world↵\n␣␣"


def test_rows_and_marks_of_a_feature_have_one_name() -> None:
    source = explanation_page("t", View(Strip(["a", "b"], [1.0, 2.0]), Strip(["ab"], [3.0])))
    names = [a["data-feature"] for tag, a in Reader(source).tags if "data-feature" in a and tag in ("span", "tr")]
    assert sorted(names) == ["t0", "t0", "t1", "t1", "w0", "w0"]  # type: ignore[type-var]


def test_many_features_are_listed_on_demand() -> None:
    few, many = (Strip([f"f{i}" for i in range(n)], [float(i) for i in range(n)]) for n in (30, 31))
    assert "<details" not in feature_table(few)
    source = feature_table(many)
    assert "<summary>all 31 features</summary>" in source
    assert source.partition("<details")[0].count("<tr data-feature") == 30
    assert source.partition("<details")[2].count("<tr data-feature") == 31


def test_a_picture_has_its_heat_map_over_it_and_a_slider() -> None:
    source = explanation_page("t", View(patches([1.0, -0.5, math.nan])))
    reader = Reader(source)
    assert [a["src"] for tag, a in reader.tags if tag == "img"] == [f"data:image/png;base64,{PIXEL}"]
    cells = [a for tag, a in reader.tags if "patch" in (a.get("class") or "").split()]
    assert [a["class"] for a in cells] == ["patch p", "patch n", "patch", "patch"]
    assert [a.get("style") for a in cells] == ["--a:1.000", "--a:0.500", "--a:0.000", None]
    assert [a.get("title") for a in cells][:2] == ["patch 0,0: +1.00", "patch 0,1: −0.500"]
    assert source.count('class="strength"') == 1
    several = comparison_page("t", [[View(patches([1.0])), View(patches([2.0]))]])
    assert several.count("<img") == 2
    assert several.count('class="strength"') == 1


def test_one_scale_leaves_out_what_has_another_unit() -> None:
    views = [
        View(Strip(["a"], [4.0], name="loo")),
        View(Strip(["a"], [1.0], name="looprop")),
        View(Strip(["a"], [9.0], name="rollout", alike=False)),
    ]
    source = comparison_page("t", [views])
    assert re.findall(r'<p class="strip"( style="--share:[\d.]+")?>', source) == ["", ' style="--share:0.2500"', ""]
    assert source.count('class="scale-switch"') == 1
    assert "scale-switch" not in comparison_page("t", [views[:1]]).partition("<main>")[2].partition("<script>")[0]


def test_rows_of_sentences_name_their_columns() -> None:
    source = table([Column("<a>"), Column("x")], [["b", Cell(1.0)]], stacked=True)
    assert [a.get("data-label") for tag, a in Reader(source).tags if tag == "td"] == ["<a>", "x"]
    assert "data-label" not in table([Column("a")], [["b"]])


def test_a_chart_has_a_line_and_a_name_for_each_method() -> None:
    lines = [Line("<loo>", [0.0, 0.5, 1.0], [2.0, math.nan, -1.0]), Line("weak", [0.0, 1.0], [1.0, 1.0], strong=False)]
    source = line_chart("<t>", lines, across="<x>", up="<y>")
    reader = Reader(source)
    assert not reader.open
    groups = [(a["class"], a["data-line"]) for tag, a in reader.tags if tag == "g"]
    assert groups == [("other", "weak"), ("line-0", "<loo>")], "what is strong lies above"
    points = [a["points"] for tag, a in reader.tags if tag == "polyline" and a["class"] == "curve"]
    (left, top), (right, bottom) = (tuple(map(float, p.split(","))) for p in (points[1] or "").split())
    assert left < right
    assert top < bottom, "up is up"
    for degenerate in ([], [Line("a", [0.0], [math.nan])], [Line("a", [0.0, 1.0], [3.0, 3.0])]):
        assert not Reader(line_chart("t", degenerate, across="", up="")).open


@settings(max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12))
def test_names_in_a_chart_do_not_stand_on_each_other(ends: list[float]) -> None:
    lines = [Line(f"m{i}", [0.0, 1.0], [0.0, end]) for i, end in enumerate(ends)]
    source = line_chart("t", lines, across="", up="")
    heights = sorted(float(y) for y in re.findall(r'class="name" x="\d+" y="([\d.-]+)">m[0-6]<', source))
    assert len(heights) == min(7, len(ends))
    assert all(b - a > 12 for a, b in pairwise(heights))
