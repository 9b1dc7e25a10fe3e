# SPDX-License-Identifier: Apache-2.0
"""Small configs of the hybrid families, with every field that changes what they compute."""

COMMON = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
MIXER = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 16, "mamba_chunk_size": 16}
BAMBA = {**COMMON, **MIXER, "num_hidden_layers": 3, "mamba_n_groups": 1, "attn_layer_indices": [1]}
GRANITE = {
    **COMMON,
    **MIXER,
    "num_hidden_layers": 3,
    "num_local_experts": 0,
    "shared_intermediate_size": 40,
    "layer_types": ["mamba", "attention", "mamba"],
    "embedding_multiplier": 12.0,
    "logits_scaling": 8.0,
    "residual_multiplier": 0.22,
    "attention_multiplier": 0.015625,
}
FALCON = {
    **COMMON,
    **MIXER,
    "num_hidden_layers": 2,
    "mamba_d_ssm": 64,
    "attention_in_multiplier": 0.9,
    "attention_out_multiplier": 0.7,
    "key_multiplier": 0.4,
    "ssm_in_multiplier": 1.25,
    "ssm_out_multiplier": 0.3,
    "ssm_multipliers": [0.4, 0.25, 0.2, 0.5, 0.3],
    "mlp_multipliers": [0.9, 0.6],
    "embedding_multiplier": 5.65,
    "lm_head_multiplier": 0.4,
}
NEMOTRON = {
    **COMMON,
    "layers_block_type": ["mamba", "mlp", "attention", "mamba", "mlp"],
    "head_dim": 8,
    "ssm_state_size": 16,
    "mamba_num_heads": 6,
    "mamba_head_dim": 8,
    "n_groups": 2,
    "chunk_size": 16,
}
ZAMBA = {
    **COMMON,
    "num_hidden_layers": 5,
    "num_key_value_heads": 4,
    "layers_block_type": ["mamba", "hybrid", "hybrid", "mamba", "hybrid"],
    "n_mamba_heads": 8,
    "mamba_d_state": 16,
    "chunk_size": 16,
    "num_mem_blocks": 2,
    "adapter_rank": 6,
}
HYBRIDS = {
    "bamba": ("bamba", BAMBA),
    "bamba-biases": (
        "bamba",
        {**BAMBA, "attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True, "mamba_n_groups": 2},
    ),
    "granite": ("granitemoehybrid", GRANITE),
    "granite-rope": (
        "granitemoehybrid",
        {
            **GRANITE,
            "position_embedding_type": "rope",
            "attention_bias": True,
            "mamba_proj_bias": True,
            "mamba_n_groups": 4,
            "tie_word_embeddings": True,
            "layer_types": ["attention", "mamba", "attention"],
        },
    ),
    "granite-mamba": ("granitemoehybrid", {**GRANITE, "layer_types": ["mamba"] * 3, "mamba_d_conv": 3}),
    "falcon_h1": ("falcon_h1", FALCON),
    "falcon_h1-norm": (
        "falcon_h1",
        {**FALCON, "mamba_rms_norm": True, "mamba_n_groups": 2, "projectors_bias": True, "mlp_bias": True},
    ),
    "falcon_h1-gate": (
        "falcon_h1",
        {
            **COMMON,
            **MIXER,
            "num_hidden_layers": 2,
            "mamba_d_ssm": None,
            "mamba_rms_norm": True,
            "mamba_norm_before_gate": False,
            "attention_bias": True,
            "mamba_proj_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    "nemotron_h": ("nemotron_h", NEMOTRON),
    "nemotron_h-biases": (
        "nemotron_h",
        {
            **NEMOTRON,
            "layers_block_type": ["mlp", "attention", "mamba"],
            "attention_bias": True,
            "mlp_bias": True,
            "use_bias": True,
            "use_conv_bias": False,
            "n_groups": 3,
        },
    ),
    "zamba2": ("zamba2", ZAMBA),
    "zamba2-adapters": (
        "zamba2",
        {
            **ZAMBA,
            "use_shared_attention_adapter": True,
            "use_mem_rope": True,
            "add_bias_linear": True,
            "mamba_ngroups": 2,
        },
    ),
    "zamba2-one-block": (
        "zamba2",
        {**ZAMBA, "num_mem_blocks": 1, "num_key_value_heads": 2, "use_mem_rope": True},
    ),
}
