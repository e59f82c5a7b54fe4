"""The shapes of the two demo models, and the bytes of weights that one decoding step reads."""

from transformers import LlamaConfig, LlamaForCausalLM

MAX_POSITIONS = 2048
# A step of the draft may cost at most this part of a step of the target.
DRAFT_SHARE = 12


def _config(**shape) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=4096,
        max_position_embeddings=MAX_POSITIONS,
        head_dim=64,
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        bos_token_id=0,
        eos_token_id=[1, 3],
        pad_token_id=1,
        **shape
    )


def target_config() -> LlamaConfig:
    return _config(
        hidden_size=256, intermediate_size=896, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2
    )


def draft_config() -> LlamaConfig:
    return _config(
        hidden_size=96, intermediate_size=288, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2
    )


def step_bytes(model: LlamaForCausalLM) -> int:
    """bf16 bytes of every layer, the last norm and the head; the embedding is a look-up of one row and not counted."""
    return 2 * (
        sum(p.numel() for p in model.model.layers.parameters())
        + model.model.norm.weight.numel()
        + model.lm_head.weight.numel()
    )
