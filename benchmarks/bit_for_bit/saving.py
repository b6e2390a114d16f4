"""The files that every class of results saves, and what they give when they are loaded again."""

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bit_for_bit.answering import DOCUMENTS
from benchmarks.bit_for_bit.asked import DEMO
from benchmarks.bit_for_bit.explaining import Entries
from benchmarks.bit_for_bit.heads import decoder, images_and_sounds
from benchmarks.bit_for_bit.models import TEXTS, bert, stirred
from benchmarks.bit_for_bit.plain import packed, timeless, without_time


def page(text: str) -> dict[str, Any]:
    """A page by its hash, and in the words that a reader sees, so that a difference can be read."""
    body = re.sub(r"<(style|script)\b.*?</\1>", "", text, flags=re.DOTALL)
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)).strip()
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "words": words}


def written(place: Path) -> Any:
    """A saved file or folder as plain data."""
    if place.is_dir():
        return {str(file.relative_to(place)): written(file) for file in sorted(place.rglob("*")) if file.is_file()}
    if place.suffix == ".json":
        return packed(timeless(json.loads(place.read_text(encoding="utf-8"))))
    if place.suffix == ".html":
        return page(place.read_text(encoding="utf-8"))
    if place.suffix == ".parquet":
        import pyarrow.parquet

        return packed([timeless(row) for row in pyarrow.parquet.read_table(place).to_pylist()])
    if place.suffix == ".svg":
        return hashlib.sha256(place.read_bytes()).hexdigest()
    return f"{place.suffix}, not empty: {place.stat().st_size > 0}"


def saved_files() -> Entries:
    """JSON, pages, pictures and tables of each class; the round trip; what a notebook shows."""
    import looprop

    m, small, speaker = looprop.load(), looprop.load(bert()), looprop.load(decoder())
    build, tokenizer, items, _ = images_and_sounds()["clip"]
    answer = speaker.context(DOCUMENTS, "is it good?", answer=" very good")
    few = ["loo", "attnlrp", "random"]
    results: dict[str, tuple[Callable[[], Any], list[str]]] = {
        "explanation": (lambda: m.explain(DEMO[1], "attnlrp"), ["json", "html", "png", "svg"]),
        "explanation with check": (lambda: m.explain(DEMO[1], "attnlrp", check=4), ["json", "html"]),
        "explanation of an answer": (lambda: speaker.explain(answer, "loo"), ["json", "html"]),
        "explanation of sentences": (lambda: speaker.explain(answer, "loo", features="sentence"), ["json", "html"]),
        "explanation of a picture": (
            lambda: looprop.load((stirred(build), tokenizer)).explain(items[0], "attnlrp"),
            ["json", "html", "png"],
        ),
        "explanation in levels": (lambda: speaker.coarse_to_fine(answer), ["json", "html"]),
        "explanations": (
            lambda: looprop.Explanations([m.explain(DEMO[1], method) for method in ("loo", "attnlrp", "shapley")]),
            ["json", "html", "png", "svg"],
        ),
        "matrix": (lambda: speaker.explain(answer, "loo", output="each"), ["json", "html"]),
        "pairs": (lambda: m.interactions(DEMO[1]), ["json", "html"]),
        "evaluation": (lambda: looprop.evaluate(m, DEMO[:3], few), ["json", "html", "folder"]),
        "evaluation of models": (
            lambda: looprop.evaluate({"one": m, "two": small}, DEMO[:2], few),
            ["json", "html", "folder"],
        ),
        "audit": (lambda: looprop.audit(small, [TEXTS["short"]], ["loo", "cp-lrp"], ["vo-turned"]), ["json", "html"]),
    }
    loaded = {"evaluation": "folder", "evaluation of models": "folder"}
    for name, (make, endings) in results.items():

        def run(make: Callable[[], Any] = make, endings: list[str] = endings, name: str = name) -> Any:
            result = without_time(make())
            found: dict[str, Any] = {"repr": repr(result), "notebook": page(result._repr_html_() or "")}
            with tempfile.TemporaryDirectory() as place:
                for ending in endings:
                    path = Path(place) / ("kept" if ending == "folder" else f"kept.{ending}")
                    found[ending] = written(Path(result.save(path)))
                again = type(result).load(Path(place) / ("kept" if name in loaded else "kept.json"))
                found["again"] = timeless(packed(again.to_dict()))
            if hasattr(result, "to_pandas"):
                found["table"] = result.to_pandas().to_csv(float_format="%r")
            return found

        yield name, run
    yield "plans", lambda: packed(looprop.Plan(attention={1: "cp"}, epsilon=0.1).to_dict())
