"""Tiny random models of every family that the engine is held to. Parameters are left trainable on purpose."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
DECODER: dict[str, Any] = {
    **SMALL,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LABELS: dict[str, Any] = {"num_labels": 3}


def _bert_like(config: type, model: type, **more: Any) -> Callable[[], nn.Module]:
    return lambda: model(config(**{**SMALL, **LABELS, "max_position_embeddings": 64, "pad_token_id": 0, **more}))


def _decoder(config: type, model: type, **more: Any) -> Callable[[], nn.Module]:
    return lambda: model(config(**{**DECODER, **more}))


ENCODERS: dict[str, Callable[[], nn.Module]] = {
    "bert": _bert_like(hf.BertConfig, hf.BertForSequenceClassification),
    "roberta": _bert_like(hf.RobertaConfig, hf.RobertaForSequenceClassification),
    "distilbert": lambda: hf.DistilBertForSequenceClassification(
        hf.DistilBertConfig(
            vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64, **LABELS
        )
    ),
    "electra": _bert_like(hf.ElectraConfig, hf.ElectraForSequenceClassification, embedding_size=16),
    "albert": _bert_like(hf.AlbertConfig, hf.AlbertForSequenceClassification, embedding_size=16),
    "modernbert": _bert_like(
        hf.ModernBertConfig,
        hf.ModernBertForSequenceClassification,
        num_hidden_layers=3,
        global_attn_every_n_layers=2,
        local_attention=8,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
    "deberta-v2": _bert_like(
        hf.DebertaV2Config,
        hf.DebertaV2ForSequenceClassification,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_biased_input=False,
    ),
    "mpnet": _bert_like(hf.MPNetConfig, hf.MPNetForSequenceClassification),
}
DECODERS: dict[str, Callable[[], nn.Module]] = {
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
    ),
    "llama": _decoder(hf.LlamaConfig, hf.LlamaForCausalLM),
    "qwen2": _decoder(hf.Qwen2Config, hf.Qwen2ForCausalLM),
    "qwen3": _decoder(hf.Qwen3Config, hf.Qwen3ForCausalLM, head_dim=8),
    "gemma3": _decoder(hf.Gemma3TextConfig, hf.Gemma3ForCausalLM, head_dim=8, sliding_window=16),
    "mistral": _decoder(hf.MistralConfig, hf.MistralForCausalLM),
    "phi3": _decoder(hf.Phi3Config, hf.Phi3ForCausalLM),
    "gpt-neox": _decoder(hf.GPTNeoXConfig, hf.GPTNeoXForCausalLM),
}


class T5Classifier(nn.Module):
    """A T5 encoder with a mean over tokens and a linear read-out."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = hf.T5EncoderModel(
            hf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, feed_forward_proj="relu")
        )
        self.head = nn.Linear(32, 3)

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.get_input_embeddings()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(hidden.mean(1))


class TorchEncoder(nn.Module):
    """torch's own nn.TransformerEncoder."""

    def __init__(self, *, norm_first: bool = False, activation: str = "gelu") -> None:
        super().__init__()
        self.embedding = nn.Embedding(99, 32)
        layer = nn.TransformerEncoderLayer(
            32, 4, 48, batch_first=True, dropout=0.0, norm_first=norm_first, activation=activation
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 3)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        padding = None if attention_mask is None else attention_mask == 0
        return self.head(self.encoder(self.embedding(input_ids), src_key_padding_mask=padding)[:, 0])


class HandWritten(nn.Module):
    """Attention as one would write it by hand, with an inline RMS norm and an inline SiLU gate."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(99, 32), nn.Linear(32, 3)
        self.projections = nn.ModuleList(nn.Linear(32, 32) for _ in range(6))
        self.gain = nn.Parameter(torch.ones(32))

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embedding(input_ids)
        for block in (self.projections[:3], self.projections[3:]):
            normed = x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.gain
            query, key, value = (p(normed) for p in block)
            scores = torch.einsum("bid,bjd->bij", query, key) / 32**0.5
            if attention_mask is not None:
                scores = scores.masked_fill(attention_mask[:, None, :] == 0, float("-inf"))
            mixed = torch.softmax(scores, -1) @ value
            x = x + mixed * torch.sigmoid(mixed)
        return self.head(x.mean(1))


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "t5-encoder": T5Classifier,
    "torch-encoder": TorchEncoder,
    "hand-written": HandWritten,
}


def vit() -> nn.Module:
    """A tiny ViT classifier on 16 x 16 images."""
    return hf.ViTForImageClassification(
        hf.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            image_size=16,
            patch_size=4,
            num_channels=1,
            num_labels=3,
        )
    )


TEXT = {**ENCODERS, **DECODERS, **OTHERS}


def build(name: str, seed: int = 0, *, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A tiny model of a family, random, in eval mode, with biases and gains that are not trivial."""
    torch.manual_seed(seed)
    model = (vit if name == "vit" else TEXT[name])().to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def token_ids(length: int = 9, batch: int = 1, seed: int = 0) -> Tensor:
    """Random token ids without special meaning."""
    return torch.randint(5, 99, (batch, length), generator=torch.Generator().manual_seed(seed))


def logits_of(output: Any) -> Tensor:
    """The logits of whatever a model returned; of a causal model those of the last position."""
    logits = getattr(output, "logits", output)
    return logits[:, -1] if logits.dim() == 3 else logits
