"""Small models with weights of their own, so that nothing depends on what a library ships."""

from collections.abc import Callable
from typing import Any

WORDS = "the film is not good bad very great a it this movie was un ##believ ##able fun and".split()
CORPUS = [
    "the film is not good",
    "a very bad movie , isn't it ?",
    "this was unbelievable fun and great",
    "the great the good the bad",
]
SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
LABELS = {0: "negative", 1: "neutral", 2: "positive"}
LABELLED: dict[str, Any] = {"id2label": LABELS, "label2id": {v: k for k, v in LABELS.items()}}

TEXTS = {
    "one word": "good",
    "short": "the film is not good",
    "pieces": "this unbelievable movie, it was un fun!",
    "long": "this movie was not a very great film and it is not bad fun . was it the bad the good the film ?",
}
PAIR = ("the film is not good", "a very bad movie")


def wordpiece() -> Any:
    import transformers as hf
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = dict.fromkeys(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, *(f"##{c}" for c in letters), *".,!?'"]
    )
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece()
    special = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def byte_level(corpus: list[str] = CORPUS) -> Any:
    import transformers as hf
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|end|>", eos_token="<|end|>", pad_token="<|end|>"
    )


def stirred(build: Callable[[], Any]) -> Any:
    """Random, with biases and gains that are not trivial."""
    import torch

    torch.manual_seed(0)
    model = build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def bert() -> tuple[Any, Any]:
    import transformers as hf

    tokenizer = wordpiece()
    config = hf.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=48, **SMALL, **LABELLED)
    return stirred(lambda: hf.BertForSequenceClassification(config)), tokenizer


def llama() -> tuple[Any, Any]:
    import transformers as hf

    tokenizer = byte_level()
    more = {
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
    }
    return stirred(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=len(tokenizer), **SMALL, **more))), tokenizer


def vit() -> tuple[Any, Any]:
    import transformers as hf

    config = hf.ViTConfig(image_size=16, patch_size=4, num_channels=1, **SMALL, **LABELLED)
    return stirred(lambda: hf.ViTForImageClassification(config)), None


def others() -> dict[str, tuple[Any, Any]]:
    """Models of other kinds, each of which takes another way through the code: relative positions, local attention,
    means over rows...
    """
    import torch
    import transformers as hf
    from torch import nn

    class MeanForSequenceClassification(nn.Module):
        """torch's own encoder, with a mean over all rows that are not masked."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(len(pieces), 32), nn.Linear(32, 3)
            layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, dropout=0.0, activation="gelu")
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def get_input_embeddings(self) -> nn.Module:
            return self.embedding

        def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
            mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            rows = self.encoder(self.embedding(input_ids), src_key_padding_mask=mask == 0)
            weight = mask[..., None].to(rows.dtype)
            return self.head((rows * weight).sum(1) / weight.sum(1))

    pieces, level = wordpiece(), byte_level()
    text = {"vocab_size": len(pieces), "max_position_embeddings": 48, "pad_token_id": 0, **SMALL, **LABELLED}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    causal = {
        "vocab_size": len(level),
        "max_position_embeddings": 64,
        "num_key_value_heads": 2,
        "pad_token_id": 0,
        **ends,
        **SMALL,
    }
    modern = {
        "global_attn_every_n_layers": 2,
        "local_attention": 8,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "cls_token_id": 2,
        "sep_token_id": 3,
    }
    deberta = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
    builders: dict[str, tuple[Callable[[], Any], Any]] = {
        "roberta": (lambda: hf.RobertaForSequenceClassification(hf.RobertaConfig(**text)), pieces),
        "mpnet": (lambda: hf.MPNetForSequenceClassification(hf.MPNetConfig(**text)), pieces),
        "modernbert": (
            lambda: hf.ModernBertForSequenceClassification(
                hf.ModernBertConfig(**text | modern | {"num_hidden_layers": 3})
            ),
            pieces,
        ),
        "modernbert mean": (
            lambda: hf.ModernBertForSequenceClassification(
                hf.ModernBertConfig(**text | modern | {"classifier_pooling": "mean"})
            ),
            pieces,
        ),
        "deberta-v2": (lambda: hf.DebertaV2ForSequenceClassification(hf.DebertaV2Config(**text, **deberta)), pieces),
        "mean": (MeanForSequenceClassification, pieces),
        "eager bert": (
            lambda: hf.BertForSequenceClassification(hf.BertConfig(**text, attn_implementation="eager")),
            pieces,
        ),
        "llama classifier": (lambda: hf.LlamaForSequenceClassification(hf.LlamaConfig(**causal, **LABELLED)), level),
        "llama classifier, no padding": (
            lambda: hf.LlamaForSequenceClassification(hf.LlamaConfig(**causal | {"pad_token_id": None}, **LABELLED)),
            level,
        ),
        "gpt2": (
            lambda: hf.GPT2LMHeadModel(
                hf.GPT2Config(vocab_size=len(level), n_embd=32, n_layer=2, n_head=4, n_positions=64, **ends)
            ),
            level,
        ),
        "gemma3": (lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**causal, head_dim=8, sliding_window=8)), level),
    }
    return {name: (stirred(build), tokenizer) for name, (build, tokenizer) in builders.items()}


def plain_modules() -> dict[str, Any]:
    """Modules on tensors (3, 6) or (6,), and functions."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        """Attention as one writes it by hand, between norms and an inline gate."""

        def __init__(self) -> None:
            super().__init__()
            self.parts, self.norm, self.head = (
                nn.ModuleList(nn.Linear(6, 6) for _ in range(3)),
                nn.LayerNorm(6),
                nn.Linear(6, 3),
            )

        def forward(self, x: Any) -> Any:
            query, key, value = (part(self.norm(x)) for part in self.parts)
            mixed = torch.softmax(query @ key.transpose(-2, -1) / 6**0.5, -1) @ value
            x = x + mixed * torch.sigmoid(mixed)
            return self.head(x.mean(1))

    perceptron = stirred(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(18, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 3))
    )
    convolution = stirred(
        lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    )

    relus = stirred(
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(18, 8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)
        )
    )
    with torch.no_grad():  # units with one positive weight and a negative bias, as `relu-rearranged` asks for
        relus[4].weight[:3].abs_().neg_()
        relus[4].weight[range(3), range(3)] = 1.5
        relus[4].bias[:3] = -0.05

    def product(x: Any) -> Any:
        return (x[:, 0, 0] * x[:, 0, 1]) * x[:, 1, 2]

    def refused(x: Any) -> Any:
        return torch.cumprod(x.flatten(1), 1)[:, :3]

    modules = {"perceptron": perceptron, "attention": stirred(Attention), "convolution": convolution, "relus": relus}
    return {**modules, "product": product, "refused": refused}
