"""Changes of what stands beside the weights: labels, modes, dtypes, settings, tokenizers."""

from typing import Any

import torch
from tokenizers import normalizers, processors
from torch import nn

from attacks.changes.registry import change
from attacks.changes.structure import inner
from attacks.changes.worlds import Dice, World


@change
def labels_in_place(world: World, module: Any, dice: Dice) -> None:
    """One label renamed in the dictionaries that are there."""
    config = inner(module).config
    config.id2label[0] = "awful"
    config.label2id["awful"] = 0


@change
def labels_swapped(world: World, module: Any, dice: Dice) -> None:
    """Two labels change places, in place or in new dictionaries."""
    config = inner(module).config
    labels = dict(config.id2label)
    labels[0], labels[1] = labels[1], labels[0]
    if dice.integers(2):
        config.id2label, config.label2id = labels, {label: i for i, label in labels.items()}
    else:
        config.id2label.update(labels)
        config.label2id.update({label: i for i, label in labels.items()})


@change
def only_label2id(world: World, module: Any, dice: Dice) -> None:
    """Only the way from label to number changes."""
    config = inner(module).config
    config.label2id = {label: (i + 1) % len(config.label2id) for label, i in config.label2id.items()}


@change
def pad_token_of_config(world: World, module: Any, dice: Dice) -> None:
    """Another pad token in the configuration, which classifiers on decoders read."""
    inner(module).config.pad_token_id = int(dice.integers(5, 50))


@change
def config_replaced(world: World, module: Any, dice: Dice) -> None:
    """A configuration that is equal but for its labels."""
    import copy

    model = inner(module)
    model.config = copy.deepcopy(model.config)
    if dice.integers(2):
        model.config.id2label = {i: f"class {i}" for i in model.config.id2label}
        model.config.label2id = {label: i for i, label in model.config.id2label.items()}


@change
def attention_implementation(world: World, module: Any, dice: Dice) -> None:
    """The other of eager and sdpa."""
    config = inner(module).config
    config._attn_implementation = "eager" if config._attn_implementation == "sdpa" else "sdpa"


@change
def train(world: World, module: Any, dice: Dice) -> None:
    """Training mode."""
    module.train()


@change
def evaluate(world: World, module: Any, dice: Dice) -> None:
    """Evaluation mode."""
    module.eval()


@change
def train_a_part(world: World, module: Any, dice: Dice) -> None:
    """Training mode of some modules only."""
    parts = [m for m in module.modules() if m is not module]
    parts[int(dice.integers(len(parts)))].train()


@change
def dropout(world: World, module: Any, dice: Dice) -> None:
    """Another probability of dropout, in the modules that hold one."""
    for m in module.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.3


@change
def requires_grad(world: World, module: Any, dice: Dice) -> None:
    """Gradients of all or some parameters off, or on."""
    wanted = bool(dice.integers(2))
    for p in module.parameters():
        if dice.random() < 0.7:
            p.requires_grad_(wanted)


@change
def double(world: World, module: Any, dice: Dice) -> None:
    """To float64."""
    module.double()


@change
def single(world: World, module: Any, dice: Dice) -> None:
    """To float32."""
    module.float()


@change
def half_and_back(world: World, module: Any, dice: Dice) -> None:
    """To bfloat16 and back: rounded weights."""
    before = next(module.parameters()).dtype
    module.to(torch.bfloat16).to(before)


@change
def tokens_added(world: World, module: Any, dice: Dice) -> None:
    """A word that was several tokens becomes one."""
    world.tokenizer.add_tokens([str(dice.choice(["film", "goody", "movie", "bad"]))])


@change
def special_tokens_added(world: World, module: Any, dice: Dice) -> None:
    """A word becomes a special token."""
    world.tokenizer.add_special_tokens({"additional_special_tokens": [str(dice.choice(["great", "fun"]))]})


@change
def case_of_letters(world: World, module: Any, dice: Dice) -> None:
    """Lower case or not."""
    backend = world.tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Lowercase() if dice.integers(2) else normalizers.Replace("good", "bad")


@change
def longest(world: World, module: Any, dice: Dice) -> None:
    """How many tokens a text may have."""
    world.tokenizer.model_max_length = int(dice.choice([4, 6, 512]))


@change
def other_ends(world: World, module: Any, dice: Dice) -> None:
    """Other special tokens around a text."""
    if world.tokenizer.cls_token is None:
        return
    world.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A" if dice.integers(2) else "[SEP] $A [CLS]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )


@change
def padding(world: World, module: Any, dice: Dice) -> None:
    """The other side, or another token."""
    tokens = world.tokenizer
    tokens.padding_side = "left" if tokens.padding_side == "right" else "right"
    if dice.integers(2) and tokens.unk_token:
        tokens.pad_token = tokens.unk_token


@change
def mask_token(world: World, module: Any, dice: Dice) -> None:
    """Another mask token, which removal by it reads."""
    if world.tokenizer.mask_token:
        world.tokenizer.mask_token = str(dice.choice(["[UNK]", "film", "bad"]))


@change
def chat_template(world: World, module: Any, dice: Dice) -> None:
    """Another way to write a chat."""
    if world.tokenizer.chat_template:
        world.tokenizer.chat_template = world.tokenizer.chat_template.replace("<", "the ")
