"""Twenty-four short sentences written for this project, each with what makes it hard: negation, contrast, irony and so
on.
"""

from importlib.resources import as_file, files

from looprop.inputs.examples import Dataset, Example, make_dataset
from looprop.inputs.files import read_rows


def demo_sentences() -> Dataset:
    """The demo sentences, without labels. The id of each begins with its kind.

    >>> len(demo_sentences())
    24
    """
    with as_file(files("looprop") / "assets" / "demo.jsonl") as path:
        rows = [row for _, row in read_rows(path, columns=("id", "text", "kind"))]
    return make_dataset("demo", "all", [Example(row["id"], row["text"]) for row in rows])
