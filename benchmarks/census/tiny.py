"""A tiny random model of any architecture of the transformers library, made from its configuration class alone.

A configuration becomes small by the names of its fields; where it lists the kind of every layer, one layer of each kind
is kept; what an architecture needs besides stands in special.py. Nothing is downloaded.
"""

import dataclasses
import re
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from benchmarks.census.special import SPECIAL

VOCABULARY, LABELS, LAYERS = 99, 3, 2
PAD, UNKNOWN, FIRST, LAST, MASK = range(5)

# The first pattern that matches the whole name of a field gives its size.
SIZES = {
    re.compile(pattern): size
    for pattern, size in {
        r"((src|tgt|entity|t2u)_)?vocab_size(_per_layer_input)?": VOCABULARY,
        r"(num_)?(hidden_)?layers|((num|speech|t2u)_)?(en|de)coder_layers|[lxr]_layers": LAYERS,
        r"n_layers?|depth": LAYERS,
        r"(num|n|linear_num)_((en|de)coder_)?(attention_)?heads?|((t2u_|speech_)?(en|de)coder_)?attention_heads": 4,
        r"(index_n|swa_num_attention|linear_num_value)_heads": 4,
        r"(swa_|global_)?num_(global_)?key_value_heads|linear_num_key_heads": 2,
        r"(mamba_(n|num)|n_mamba)_heads": 8,
        r"(mamba_)?n_?groups": 1,
        r"(mamba_)?chunk_size": 8,
        r"((swa|global|linear|index|linear_key|linear_value|mamba|v|swa_v|qk_nope|qk_rope)_)?head_dim|d_kv|d_head": 8,
        r"attention_head_size|dim_head|kv_channels|query_pre_attn_scalar|mamba_d_head": 8,
        r"ssm_state_size|mamba_d_state|state_size|mamba_dt_rank": 8,
        r"hidden_size_per_layer_input|laurel_rank|gated_norm_rank|adapter_rank|moe_latent_size": 8,
        r"(embedding_size|intra_bottleneck_size|(q|kv|o)_lora_rank|hc_lowrank|router_hidden_size)": 16,
        r"((moe|shared_expert|moe_shared_expert)_intermediate|expert_ffn_hidden)_size": 32,
        r"((speech_encoder|dense|shared)_)?intermediate_size(_mlp)?|ffn_hidden_size|feed_forward_size|n_inner": 64,
        r"((t2u_)?(en|de)coder_)?ffn_dim|d_ff|d_inner|hidden_dim|dff|dim_ff|mlp_dim|prompt_mid_dim": 64,
        r"((backbone|attention|true|out)_)?hidden_size(_global)?|d_model|n_embd|dim|(emb|embedding|projection)_dim": 32,
        r"(input|output)_embedding_size|d_latents|lru_width|mm_embed_dim|prediction_head_size|mamba_d_ssm": 32,
        r"entity_emb_size|embedding_rank": 32,
        r"num_(local_)?experts|n_routed_experts|moe_num_experts": 4,
        r"num_experts_per_tok|moe_top_?k|moe_k|top_k_experts|expert_capacity": 2,
        r"n_group|topk_group|n_shared_experts|(moe_)?num_shared_experts|zero_expert_num": 1,
        r"first_k_dense_replace|num_dense_layers|moe_layer_start_index": 1,
        r"(max_((en|de)coder_|2d_)?|t2u_max_)position_embeddings|n_positions|n_ctx|max_seq_len|context_length": 64,
        r"max_(source|target)_positions|rel_extent|max_rel_2d_pos": 64,
        r"sliding_window(_size)?|window_size|attention_chunk_size|local_attention|attention_window_size": 8,
        r"image_size|input_size": 32,
        r"patch_size|encoder_stride": 8,
        r"index_topk(_blocks)?": 4,
        r"num_kv_shared_layers": 0,
        r"num_labels": LABELS,
        r"pad_token_id": PAD,
        r"((forced_)?bos|cls|decoder_start)_token_id": FIRST,
        r"((forced_)?eos|sep)_token_id": LAST,
        r"mask_token_id": MASK,
        r"((image|audio|video|[be]oi|[be]oa|vision_(start|end)))_token_(id|index)": 98,
    }.items()
}
# Given also where the default leaves them open.
ALWAYS = {"pad_token_id", "bos_token_id", "eos_token_id", "head_dim", "num_key_value_heads", "vocab_size"}
KINDS_OF_LAYERS = ("layer_types", "layers_block_type", "mlp_layer_types", "block_types")


class CannotBuildError(Exception):
    """A tiny model of this architecture cannot be made here."""


def build(head: str, architecture: str, class_name: str) -> nn.Module:
    """A tiny model, random, with biases and gains that are not trivial; CannotBuildError says why there is none."""
    try:
        kind = getattr(transformers, class_name)
        special = {**SPECIAL.get(architecture, {}), **SPECIAL.get(f"{head}:{architecture}", {})}
        config = small(CONFIG_MAPPING[architecture], special)
        if not isinstance(config, kind.config_class):  # a model of texts inside one of several kinds of input
            parts = [getattr(config, name) for name in config.sub_configs]
            config = next(part for part in parts if isinstance(part, kind.config_class))
        if head == "QUESTION_ANSWERING":
            config.num_labels = 2
        if head == "CAUSAL_LM" and getattr(config, "is_decoder", None) is False:
            config.is_decoder = True
        torch.manual_seed(0)
        return _stirred(kind(config))
    except Exception as error:  # whatever a constructor raises is the reason
        raise CannotBuildError(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def small(kind: type[PreTrainedConfig], special: dict[str, Any], default: Any = None) -> PreTrainedConfig:
    """A configuration whose fields are small. special: what is set besides; `part.field` is for a part of it."""
    default = kind() if default is None else default
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for name in names:
        size = next((size for pattern, size in SIZES.items() if pattern.fullmatch(name)), None)
        value = default.__dict__.get(name)
        if size is not None and (name in ALWAYS or not (value is None or isinstance(value, (list, tuple, dict, bool)))):
            given[name] = size
    if "kv_lora_rank" in names and "num_key_value_heads" in names:  # latent attention has a key for every head
        given["num_key_value_heads"] = given.get("num_attention_heads", 4)
    if "per_layer_config" in names and default.per_layer_config:
        given |= {"global_head_dim": 8, "num_global_key_value_heads": 2}
    given |= {"num_labels": LABELS, **_one_layer_of_each_kind(default, names)}
    for name in getattr(kind, "sub_configs", None) or {}:
        part = getattr(default, name, None)
        if isinstance(part, PreTrainedConfig):
            own = {key.partition(".")[2]: value for key, value in special.items() if key.startswith(f"{name}.")}
            given[name] = small(type(part), own, part)
    return kind(**given | {key: value for key, value in special.items() if "." not in key})


def _one_layer_of_each_kind(default: PreTrainedConfig, names: list[str]) -> dict[str, Any]:
    listed = {name: list(getattr(default, name, None) or ()) for name in KINDS_OF_LAYERS if name in names}
    kinds = {name: list(dict.fromkeys(layers)) for name, layers in listed.items() if layers}
    if not kinds:
        return {}
    count = max(LAYERS, *map(len, kinds.values()))
    found: dict[str, Any] = {name: [own[min(i, len(own) - 1)] for i in range(count)] for name, own in kinds.items()}
    depth = next((name for name in ("num_hidden_layers", "num_layers", "n_layer") if name in names), None)
    return {**found, depth: count} if depth else found


def _stirred(model: nn.Module) -> nn.Module:
    model = model.float().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.nan_to_num_(0.0, 0.0, 0.0).add_(noise * (0.2 if parameter.dim() > 1 else 0.1))
    return model


def calibrated(model: nn.Module, pixels: Tensor) -> nn.Module:
    """The model with the statistics of some images in its batch norms, without which deep convolutions answer alike."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train().momentum = None
        norm.reset_running_stats()
    if norms:
        with torch.no_grad():
            model(pixel_values=pixels)
    return model.eval()
