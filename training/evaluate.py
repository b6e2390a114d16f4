"""Accuracy of the embedded model on SST-2, dev and test, and how much of it the pruned vocabulary leaves as it was.

python -m training.evaluate [--data DATA] [--model FOLDER] [--base FOLDER of the unpruned tokenizer]
"""

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from looprop.inputs.datasets import load_dataset
from training.finetuning import accuracy, encode_dataset

EMBEDDED = Path(__file__).parent.parent / "src" / "looprop" / "assets" / "sentiment"
LONGEST = 512


def load(folder: Path) -> tuple[PreTrainedModel, Tokenizer]:
    """The model, in float32 whatever its file holds, and its tokenizer."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))


def accuracies(folder: Path = EMBEDDED, *, data: Path | None = None) -> dict[str, float]:
    """Accuracy in per cent on SST-2 in GLUE form and in whole sentences of natural case, dev and test."""
    model, tokenizer = load(folder)
    result = {}
    for form in ("glue", "sentences"):
        for split in ("dev", "test"):
            examples = load_dataset("sst2", split=split, form=form, folder=data)
            result[f"{form}/{split}"] = 100 * accuracy(model, encode_dataset(tokenizer, examples, longest=LONGEST))
    return result


def same_pieces(folder: Path, base: Path, texts: list[str]) -> float:
    """The share, in per cent, of texts that the tokenizers of two folders cut alike."""
    pruned, original = (Tokenizer.from_file(str(place / "tokenizer.json")) for place in (folder, base))
    original.no_padding()
    original.no_truncation()
    pairs = zip(pruned.encode_batch(texts), original.encode_batch(texts), strict=True)
    return 100 * sum(ours.tokens == theirs.tokens for ours, theirs in pairs) / len(texts)


def report(folder: Path, *, data: Path | None = None, base: Path | None = None) -> None:
    """Prints the numbers as they stand in the model card."""
    for name, value in accuracies(folder, data=data).items():
        print(f"accuracy {name:<16}{value:6.2f} %")
    if base is not None:
        for split in ("dev", "test"):
            texts = load_dataset("sst2", split=split, folder=data).texts
            print(f"same pieces {split:<13}{same_pieces(folder, base, texts):6.2f} %")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data; by default LOOPROP_DATA")
    parser.add_argument("--model", type=Path, default=EMBEDDED)
    parser.add_argument("--base", type=Path, help="folder of the base model, to compare the tokenizers")
    arguments = parser.parse_args()
    report(arguments.model, data=arguments.data, base=arguments.base)


if __name__ == "__main__":
    main()
