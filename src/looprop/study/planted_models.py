"""The planted models: what each of them computes is known, and so is what leaving a word out does, and every share.

Their attention is hard or flat on purpose. A hard head finds its word wherever it stands and looks at [CLS], which says
nothing, where the word is gone; a flat one counts.
"""

from typing import TYPE_CHECKING

from looprop.errors import UnknownNameError
from looprop.study.planted_transformer import (
    ANSWER,
    CLS,
    LENGTH,
    WORD,
    Block,
    Circuit,
    HandSetTransformer,
    Head,
    Neuron,
    position,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SHARP = 24.0
"""The score of what a hard head looks for, above that of [CLS]: what it does not look for has less than 1e-10."""
SPECIAL = ("[PAD]", "[UNK]", CLS, "[MASK]")


def seen(word: str) -> str:
    """The feature that says that a word was found."""
    return f"{word} was seen"


def _finds(feature: str, writes: str) -> Head:
    """Is there a word with this feature? Above [CLS] what has it, below what has not."""
    return Head(asks=({CLS: SHARP},), finds=({feature: 2.0, WORD: -1.0},), copies={feature: 1.0}, writes=writes)


def _detectors(*words: str) -> tuple[Head, ...]:
    return tuple(_finds(word, seen(word)) for word in words)


def _own(*words: str) -> dict[str, dict[str, float]]:
    """Every word has a feature of its own."""
    return {word: {word: 1.0} for word in words}


def _above(words: tuple[str, ...], least: float, weight: float) -> Neuron:
    """How many of the words there are, less `least`."""
    return Neuron(reads={seen(word): 1.0 for word in words}, bias=-least, writes={ANSWER: weight})


_PAIR, _ANY, _NEGATION = ("key", "lock"), ("tea", "coffee", "juice"), ("not", "good")
_SINK = {CLS: SHARP, WORD: SHARP}

CIRCUITS: dict[str, Circuit] = {
    # Both words, or nothing.
    "and": Circuit(_own(*_PAIR), (Block(_detectors(*_PAIR), (_above(_PAIR, 1.0, 1.0),)),)),
    # One of three is enough, and more are no more.
    "or": Circuit(_own(*_ANY), (Block(_detectors(*_ANY), (_above(_ANY, 0.0, 1.0), _above(_ANY, 1.0, -1.0))),)),
    # The same, but by one head that shares its attention between words that mean the same.
    "redundant": Circuit(
        {word: {"praise": 1.0} for word in ("superb", "wonderful")}, (Block((_finds("praise", ANSWER),)),)
    ),
    # "good" is worth 1, "not good" is worth -1, "not" alone nothing.
    "negation": Circuit(
        _own(*_NEGATION),
        (
            Block(
                (_finds("not", seen("not")), _finds("good", seen("good"))),
                (_above(("good",), 0.0, 1.0), _above(_NEGATION, 1.0, -2.0)),
            ),
        ),
    ),
    # The needle draws all attention and says 1; where it is gone, the straw is looked at and says -1.
    "needle": Circuit(
        {"needle": {"needle": 1.0}, "straw": {"straw": 1.0}},
        (Block((Head(({CLS: SHARP},), ({"needle": 1.0, CLS: -1.0},), {"needle": 1.0, "straw": -1.0}, ANSWER),)),),
    ),
    # Flat attention takes the mean of the votes; normalised, only its sign is left.
    "majority": Circuit(
        {"yes": {"vote": 1.0}, "no": {"vote": -1.0}},
        (
            Block(
                (Head(({},), ({},), {"vote": 1.0}, "mean vote"),),
                (Neuron({"mean vote": 1.0}, {"for": 1.0}), Neuron({"mean vote": -1.0}, {"against": 1.0})),
            ),
        ),
        sides=("for", "against"),
    ),
    # First every word looks at the one before it, then [CLS] copies the word that comes after "colour".
    "copying": Circuit(
        {"colour": {"colour": 1.0}, "red": {"says": 1.0}, "blue": {"says": -1.0}},
        (
            Block(
                (
                    Head(
                        asks=(*({position(number + 1): 2 * SHARP} for number in range(LENGTH - 1)), _SINK),
                        finds=(*({position(number): 1.0} for number in range(LENGTH - 1)), {CLS: 1.0}),
                        copies={"colour": 1.0},
                        writes="after colour",
                    ),
                )
            ),
            Block((Head(({CLS: SHARP},), ({"after colour": 2.0, WORD: -1.0},), {"says": 1.0}, ANSWER),)),
        ),
    ),
}


def planted_model(name: str) -> "tuple[HandSetTransformer, PreTrainedTokenizerFast]":
    """A planted model and its tokenizer, as `looprop.load` takes them: "and", "or", "redundant", "negation", "needle",
    "majority", "copying".
    """
    if name not in CIRCUITS:
        raise UnknownNameError("planted model", name, CIRCUITS)
    circuit = CIRCUITS[name]
    tokens = (*SPECIAL, *circuit.words)
    return HandSetTransformer(circuit, tokens).eval(), _tokenizer(tokens)


def _tokenizer(tokens: tuple[str, ...]) -> "PreTrainedTokenizerFast":
    """Words and marks in small letters behind [CLS]; a word that no circuit knows is [UNK], and only takes up room."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A", special_tokens=[(CLS, tokens.index(CLS))]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LENGTH, **names)
