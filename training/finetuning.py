"""Fine-tuning of a text classifier on a processor: short batches of like length, warm-up, linear decay, averaged
weights.
"""

import copy
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from looprop.inputs.examples import Dataset

Encoded = list[tuple[list[int], int]]  # (token ids, label) of each example


@dataclass(frozen=True)
class Recipe:
    """The numbers of one fine-tuning.

    average: decay per step of the exponential moving average of the weights, which is what is kept; 0 keeps the last
        weights.
    """

    epochs: int
    learning_rate: float
    batch_size: int = 32
    warm_up: float = 0.06
    weight_decay: float = 0.01
    average: float = 0.0
    longest: int = 128
    seed: int = 0


def encode_dataset(tokenizer: Tokenizer, data: Dataset, *, longest: int) -> Encoded:
    """Token ids and labels of a data set all of whose examples have labels; ids are cut at `longest` with the closing
    token kept.
    """
    tokenizer.enable_truncation(longest)
    labels = [example.label for example in data if example.label is not None]
    return [(encoding.ids, label) for encoding, label in zip(tokenizer.encode_batch(data.texts), labels, strict=True)]


def batches(data: Encoded, *, size: int, generator: random.Random) -> Iterator[Encoded]:
    """Batches in random order, of examples of like length: sorted by length within runs of 64 batches, so that little
    is padded.
    """
    order = list(range(len(data)))
    generator.shuffle(order)
    run = 64 * size
    ordered = [
        i
        for start in range(0, len(order), run)
        for i in sorted(order[start : start + run], key=lambda i: len(data[i][0]))
    ]
    starts = list(range(0, len(ordered), size))
    generator.shuffle(starts)
    for start in starts:
        yield [data[i] for i in ordered[start : start + size]]


def logits_and_labels(model: PreTrainedModel, batch: Encoded) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (B, C) and labels (B,) of a batch, padded to its longest example."""
    length = max(len(ids) for ids, _ in batch)
    pad = model.config.pad_token_id
    ids = torch.tensor([ids + [pad] * (length - len(ids)) for ids, _ in batch])  # (B, T)
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids, _ in batch])  # (B, T)
    return model(input_ids=ids, attention_mask=mask).logits, torch.tensor([label for _, label in batch])


def accuracy(model: PreTrainedModel, data: Encoded) -> float:
    """The share of examples whose largest logit is that of their label."""
    model.eval()
    ordered = sorted(data, key=lambda example: len(example[0]))
    right = 0
    with torch.inference_mode():
        for start in range(0, len(ordered), 32):
            logits, labels = logits_and_labels(model, ordered[start : start + 32])
            right += int((logits.argmax(-1) == labels).sum())
    return right / len(data)


def fine_tune(model: PreTrainedModel, train: Encoded, dev: Encoded, recipe: Recipe, *, folder: Path) -> PreTrainedModel:
    """The fine-tuned model, saved in `folder` after each epoch. Accuracy on dev is printed and decides nothing."""
    random_order = random.Random(recipe.seed)
    torch.manual_seed(recipe.seed)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim == 1]  # biases and norms
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)
    steps = recipe.epochs * -(-len(train) // recipe.batch_size)
    rising = max(1, round(recipe.warm_up * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min((i + 1) / rising, (steps - i) / max(1, steps - rising))
    )
    averaged = copy.deepcopy(model)
    step, started, running = 0, time.monotonic(), 0.0
    for epoch in range(1, recipe.epochs + 1):
        for batch in batches(train, size=recipe.batch_size, generator=random_order):
            model.train()
            logits, labels = logits_and_labels(model, batch)
            loss = cross_entropy(logits, labels)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            step += 1
            running += float(loss.detach())
            # the average starts short and grows to its full length, so that the weights before training are soon
            # forgotten
            follow(averaged, model, min(recipe.average, step / (step + 10)))
            if step % 50 == 0:
                print(f"step {step}/{steps}  loss {running / 50:.4f}  {time.monotonic() - started:.0f} s", flush=True)
                running = 0.0
        print(f"epoch {epoch}: dev {accuracy(model, dev):.4f}, averaged {accuracy(averaged, dev):.4f}", flush=True)
        averaged.save_pretrained(folder)
    return averaged.eval()


def follow(averaged: PreTrainedModel, model: PreTrainedModel, decay: float) -> None:
    """averaged <- decay * averaged + (1 - decay) * model"""
    with torch.no_grad():
        torch._foreach_lerp_(list(averaged.parameters()), list(model.parameters()), 1 - decay)
