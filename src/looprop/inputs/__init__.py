"""Texts and images to explain: data sets by name, files of one's own, subsets that can be drawn again."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.inputs.datasets import load_dataset as load_dataset
    from looprop.inputs.demo import demo_sentences as demo_sentences
    from looprop.inputs.examples import Dataset as Dataset, Example as Example, make_dataset as make_dataset
    from looprop.inputs.files import read_texts as read_texts
    from looprop.inputs.mnist import Digits as Digits, load_mnist as load_mnist
    from looprop.inputs.reading import read_data as read_data
    from looprop.inputs.splitting import lines as lines, paragraphs as paragraphs, sentences as sentences

# Imported when first used, so that what needs a name does not wait for numpy.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "datasets": "load_dataset",
        "demo": "demo_sentences",
        "examples": "Dataset Example make_dataset",
        "files": "read_texts",
        "mnist": "Digits load_mnist",
        "reading": "read_data",
        "splitting": "lines paragraphs sentences",
    },
)
