"""Texts and images to explain: data sets by name, files of one's own, subsets that can be drawn again."""

from looprop.inputs.datasets import demo_sentences, load_dataset, read_data
from looprop.inputs.examples import Dataset, Example, make_dataset
from looprop.inputs.files import read_texts
from looprop.inputs.mnist import Digits, load_mnist
from looprop.inputs.splitting import lines, paragraphs, sentences

__all__ = [
    "Dataset", "Digits", "Example", "demo_sentences", "lines", "load_dataset", "load_mnist", "make_dataset",
    "paragraphs", "read_data", "read_texts", "sentences",
]  # fmt: skip
