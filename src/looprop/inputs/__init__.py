"""Texts and images to explain: data sets by name, files of one's own, subsets that can be drawn again."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.inputs.datasets import load_dataset
    from looprop.inputs.demo import demo_sentences
    from looprop.inputs.examples import Dataset, Example, make_dataset
    from looprop.inputs.files import read_texts
    from looprop.inputs.mnist import Digits, load_mnist
    from looprop.inputs.reading import read_data
    from looprop.inputs.splitting import lines, paragraphs, sentences

# Imported when first used, so that what needs a name does not wait for numpy.
_HOMES = {
    "Dataset": "looprop.inputs.examples",
    "Digits": "looprop.inputs.mnist",
    "Example": "looprop.inputs.examples",
    "demo_sentences": "looprop.inputs.demo",
    "lines": "looprop.inputs.splitting",
    "load_dataset": "looprop.inputs.datasets",
    "load_mnist": "looprop.inputs.mnist",
    "make_dataset": "looprop.inputs.examples",
    "paragraphs": "looprop.inputs.splitting",
    "read_data": "looprop.inputs.reading",
    "read_texts": "looprop.inputs.files",
    "sentences": "looprop.inputs.splitting",
}

__all__ = [
    "Dataset",
    "Digits",
    "Example",
    "demo_sentences",
    "lines",
    "load_dataset",
    "load_mnist",
    "make_dataset",
    "paragraphs",
    "read_data",
    "read_texts",
    "sentences",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
