"""What the names of a configuration's fields cannot say: sizes that must fit each other, by architecture.

`HEAD:architecture` is for one head only; `part.field` is a field of a part of the configuration.
"""

from typing import Any

_SOUND: dict[str, Any] = {
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 16,
}
_WINDOWS: dict[str, Any] = {
    "patch_size": 4,
    "embed_dim": 16,
    "depths": [1, 1],
    "num_heads": [2, 4],
    "window_size": 4,
}
_STAGES: dict[str, Any] = {"depths": [1, 1], "hidden_sizes": [16, 32]}
_PYRAMID: dict[str, Any] = {
    "hidden_sizes": [16, 16, 32, 32],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 2, 2],
}
_INDEXER = {"n_heads": 2, "kv_heads": 1, "head_dim": 8, "budget": 4, "compress_ratio": 2}
_LATENT = {"num_latents": 8, "num_self_attends_per_block": 2, "num_blocks": 1}

TEXT: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"num_key_value_heads": 4},
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"use_cache": False, "encoder_hash_byte_group_vocab": 50, "encoder_hash_byte_group_size": [3]},
    "bros": {"hidden_size": 128},
    "canine": {
        "num_hash_buckets": 64,
        "local_transformer_stride": 4,
        "downsampling_rate": 4,
        "upsampling_kernel_size": 4,
    },
    "codegen": {"rotary_dim": 4},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}
    },
    "dbrx": {"attn_config.rope_theta": 1e4, "attn_config.kv_n_heads": 2, "attn_config.clip_qkv": 8.0},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "encoder-decoder": {"decoder.is_decoder": True, "decoder.add_cross_attention": True},
    "esm": {"vocab_size": 99, "pad_token_id": 0, "mask_token_id": 4},
    "esmc": {"num_key_value_heads": 4},
    "falcon_h1": {"mamba_d_ssm": 64},
    "flint": {"mlp_only_layers": [0]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4, "visual_embed": False},
    "led": {"attention_window": [8, 8]},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lilt": {"hidden_size": 48},
    "longformer": {"attention_window": [8, 8]},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "markuplm": {
        "max_xpath_tag_unit_embeddings": 16,
        "max_xpath_subs_unit_embeddings": 16,
        "tag_pad_id": 5,
        "subs_pad_id": 5,
        "max_depth": 4,
    },
    "musicgen": {"decoder.num_codebooks": 1},
    "musicgen_melody": {"decoder.num_codebooks": 1},
    "neomme": {"hidden_size": 64, "head_dim": 16},
    "perceiver": _LATENT,
    "qwen4_exp": {f"text_config.indexer_{key}": value for key, value in _INDEXER.items()},
    "qwen4_exp_text": {f"indexer_{key}": value for key, value in _INDEXER.items()},
    "reformer": {
        "axial_pos_shape": [4, 16],
        "axial_pos_embds_dim": [8, 24],
        "attn_layers": ["local", "lsh"],
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
        "hash_seed": 0,
        "num_buckets": 2,
    },
    "CAUSAL_LM:reformer": {"is_decoder": True},
    "roc_bert": {
        "pronunciation_vocab_size": 20,
        "shape_vocab_size": 20,
        "pronunciation_embed_dim": 8,
        "shape_embed_dim": 8,
    },
    "squeezebert": {
        "embedding_size": 32,
        "post_attention_groups": 1,
        **dict.fromkeys(("q_groups", "k_groups", "v_groups", "intermediate_groups", "output_groups"), 2),
    },
    "t5": {"decoder_start_token_id": 0},
    "vibevoice_asr": {
        f"{part}_tokenizer_encoder_config.{key}": value
        for part in ("acoustic", "semantic")
        for key, value in {"num_filters": 4, "downsampling_ratios": (2, 2), "depths": (1, 1, 1)}.items()
    },
    "xlstm": {"hidden_size": 128, "embedding_dim": 128},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
        "num_hidden_layers": 3,
    },
    "zaya": {"num_experts_per_tok": 1},
}
IMAGE: dict[str, dict[str, Any]] = {
    "bit": {**_STAGES, "num_groups": 4, "embedding_size": 16},
    "convnext": {**_STAGES, "num_stages": 2, "patch_size": 4},
    "convnextv2": {**_STAGES, "num_stages": 2, "patch_size": 4},
    "cvt": {"embed_dim": [16, 32, 32], "num_heads": [1, 2, 2], "depth": [1, 2, 3]},
    "donut-swin": _WINDOWS,
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320},
    "focalnet": {
        **_STAGES,
        "patch_size": 4,
        "embed_dim": 16,
        "focal_levels": [2, 2],
        "focal_windows": [3, 3],
    },
    "hgnet_v2": {
        **_STAGES,
        "embedding_size": 16,
        "stem_channels": [3, 8, 12],
        "stage_in_channels": [12, 16],
        "stage_mid_channels": [8, 8],
        "stage_out_channels": [16, 32],
        "stage_num_blocks": [1, 1],
        "stage_downsample": [False, True],
        "stage_light_block": [False, True],
        "stage_kernel_size": [3, 5],
        "stage_numb_of_layers": [2, 2],
    },
    "hiera": {
        "image_size": [32, 32],
        "patch_size": [4, 4],
        "patch_stride": [2, 2],
        "patch_padding": [1, 1],
        "embed_dim": 16,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "masked_unit_size": [4, 4],
        "masked_unit_attention": [True, False],
        "query_stride": [2, 2],
        "num_query_pool": 1,
    },
    "levit": {
        "hidden_sizes": [16, 24, 32],
        "num_attention_heads": [2, 2, 2],
        "depths": [1, 1, 1],
        "key_dim": [8, 8, 8],
        "patch_size": 16,
        "image_size": 64,
    },
    "mobilenet_v1": {"depth_multiplier": 0.25, "min_depth": 8},
    "mobilenet_v2": {"depth_multiplier": 0.25, "min_depth": 8},
    "mobilevit": {
        "hidden_sizes": [16, 16, 24],
        "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32],
        "patch_size": 2,
        "image_size": 64,
    },
    "mobilevitv2": {
        "width_multiplier": 0.25,
        "patch_size": 2,
        "image_size": 64,
        "base_attn_unit_dims": [32, 32, 64],
        "n_attn_blocks": [1, 1, 1],
    },
    "IMAGE_CLASSIFICATION:perceiver": {**_LATENT, "d_latents": 32, "d_model": 32, "image_size": 16},
    "poolformer": {"hidden_sizes": [16, 16, 24, 32], "depths": [1, 1, 1, 1]},
    "pp_lcnet": {"class_expand": 32, "scale": 0.25},
    "pvt": {**_PYRAMID, "patch_sizes": [4, 2, 2, 2]},
    "pvt_v2": _PYRAMID,
    "regnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 4},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    "segformer": _PYRAMID,
    "swiftformer": {"depths": [1, 1, 1, 1], "embed_dims": [8, 16, 16, 24]},
    "swin": _WINDOWS,
    "swinv2": {**_WINDOWS, "pretrained_window_sizes": [0, 0]},
    "textnet": {"stem_out_channels": 8, "hidden_sizes": [8, 8, 16, 16, 24]},
}
SOUND: dict[str, dict[str, Any]] = {
    "audio-spectrogram-transformer": {
        "max_length": 24,
        "num_mel_bins": 16,
        "time_stride": 8,
        "frequency_stride": 8,
    },
    "sew": {**_SOUND, "squeeze_factor": 2},
    "sew-d": {**_SOUND, "squeeze_factor": 2},
    "wav2vec2-bert": {"feature_projection_input_dim": 16, "classifier_proj_size": 16},
    "AUDIO_CLASSIFICATION:whisper": {"num_mel_bins": 16, "max_source_positions": 12, "classifier_proj_size": 16},
    **dict.fromkeys(
        ("data2vec-audio", "hubert", "unispeech", "unispeech-sat", "wav2vec2", "wav2vec2-conformer", "wavlm"), _SOUND
    ),
}
SPECIAL = {**TEXT, **IMAGE, **SOUND}
