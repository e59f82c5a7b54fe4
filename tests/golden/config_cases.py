"""Odd configurations of every model family, each a small checkpoint: what make_config_cases.py and tests/parity/odd_configs.py compute.

Every field that the configuration class of a family has in transformers 5 is changed by some case, and so is every key that
transformers reads in configurations of any kind (GENERIC). make_config_cases.py fails if a field is missing.
"""
import json
import warnings
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, OPTConfig, OPTForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

VOCAB = 96
PROMPT = torch.randint(0, VOCAB, (120,), generator=torch.Generator().manual_seed(0)).tolist()
ANY = dict(vocab_size=VOCAB, initializer_range=0.3, bos_token_id=None, eos_token_id=None)
SIZES = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=512)
ROPED = dict(**ANY, **SIZES, intermediate_size=96, num_key_value_heads=2, head_dim=16)
FAMILIES = {
    "llama": (LlamaConfig, LlamaForCausalLM, ROPED),
    "mistral": (MistralConfig, MistralForCausalLM, dict(**ROPED, sliding_window=24)),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, ROPED),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, ROPED),
    "gpt2": (GPT2Config, GPT2LMHeadModel, dict(**ANY, n_embd=64, n_layer=3, n_head=4, n_positions=512)),
    "opt": (OPTConfig, OPTForCausalLM, dict(**ANY, **SIZES, ffn_dim=96, word_embed_proj_dim=64)),
}
# Read by parts of transformers that all families share, or by other families and other engines.
GENERIC = [dict(is_causal=False), dict(is_decoder=True), dict(is_encoder_decoder=True), dict(attention_chunk_size=16),
           dict(use_bidirectional_attention=True), dict(logit_scale=0.5), dict(final_logit_softcapping=3.0), dict(attn_logit_softcapping=3.0),
           dict(attention_multiplier=0.5), dict(query_pre_attn_scalar=1), dict(residual_multiplier=0.3), dict(embedding_multiplier=3.0),
           dict(num_experts=4), dict(sliding_window=16), dict(layer_types=["full_attention"] * 3), dict(layer_types=["attention"] * 3),
           dict(layer_types=["chunked_attention"] * 3), dict(layer_types=["sliding_attention"] * 3, sliding_window=16),
           dict(layer_types=["full_attention", "sliding_attention", "full_attention"], sliding_window=16)]
TYPES = ["full_attention", "sliding_attention", "full_attention"]
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, rope_theta=1000.0)
YARN = dict(rope_type="yarn", factor=4.0, rope_theta=1000.0, original_max_position_embeddings=64)
ROPES = [
    None, {}, dict(rope_type="default"), dict(rope_theta=500.0), dict(rope_type="default", rope_theta=1e6),
    dict(rope_type="default", rope_theta=100.0, factor=4.0), dict(type="linear", factor=4.0, rope_theta=100.0),
    dict(rope_type="linear", factor=4.0), dict(rope_type="linear", factor=4.0, rope_theta=100.0, attention_factor=2.0), LLAMA3,
    dict(**LLAMA3, original_max_position_embeddings=64), dict(**LLAMA3, original_max_position_embeddings=64, attention_factor=2.0),
    dict(rope_type="yarn", factor=4.0, rope_theta=1000.0), YARN, {**YARN, "beta_fast": 8.0, "beta_slow": 2.0}, {**YARN, "beta_fast": None},
    {**YARN, "beta_fast": 1.0, "beta_slow": 1.0}, {**YARN, "attention_factor": 1.7}, {**YARN, "mscale": 0.7, "mscale_all_dim": 0.3},
    {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, {**YARN, "mscale": 0.7}, {**YARN, "truncate": False}, {**YARN, "factor": None},
    {**YARN, "factor": None, "original_max_position_embeddings": 1024},
    {**YARN, "factor": 1.0}, {**YARN, "original_max_position_embeddings": 2}, {**YARN, "rope_theta": 2.0},
    {**YARN, "finetuned": True, "attn_factor": 2.0, "extrapolation_factor": 2.0},
    dict(rope_type="dynamic", factor=4.0), dict(rope_type="proportional"), dict(rope_type="mrope", mrope_section=[2, 3, 3]),
    dict(rope_type="longrope", factor=4.0, short_factor=[1.0] * 8, long_factor=[2.0] * 8, original_max_position_embeddings=64),
    dict(rope_type="default", rope_theta=1000.0, partial_rotary_factor=0.5), dict(rope_type="linear", factor=2.0, partial_rotary_factor=0.5),
    dict(full_attention=dict(rope_type="default", rope_theta=100.0)),
]
ROPED_CASES = [
    *(dict(rope_parameters=rope) for rope in ROPES), dict(rope_parameters={**LLAMA3, "original_max_position_embeddings": 64},
                                                          original_max_position_embeddings=32),
    dict(rope_theta=500.0), dict(rope_theta=500.0, DROP=["rope_parameters"]), dict(partial_rotary_factor=0.5),
    dict(rope_scaling=dict(type="linear", factor=4.0), rope_theta=500.0, DROP=["rope_parameters"]),
    dict(rope_scaling=dict(type="linear", factor=4.0)), dict(rope_scaling={**YARN, "type": "yarn"}, DROP=["rope_parameters"]),
    dict(rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=100.0), sliding_attention=dict(rope_type="default", rope_theta=1e3)),
         layer_types=TYPES, sliding_window=16, use_sliding_window=True),
    dict(sliding_window=None), dict(DROP=["sliding_window"]), dict(use_sliding_window=True, sliding_window=16),
    dict(use_sliding_window=True, sliding_window=16, max_window_layers=1, DROP=["layer_types"]),
    dict(use_sliding_window=True, sliding_window=None, max_window_layers=0, DROP=["layer_types"]),
    dict(use_sliding_window=False, sliding_window=16, max_window_layers=0, DROP=["layer_types"]),
    dict(layer_types=TYPES), dict(layer_types=TYPES, sliding_window=16, use_sliding_window=True), dict(layer_types=TYPES, sliding_window=None),
    dict(layer_types=None, sliding_window=16), dict(layer_types=TYPES[:2]),
    dict(attention_bias=True), dict(mlp_bias=True), dict(attention_bias=True, MAKE=True), dict(mlp_bias=True, MAKE=True),
    dict(hidden_act="gelu"), dict(hidden_act="swish"), dict(hidden_act="relu"), dict(rms_norm_eps=0.5), dict(DROP=["rms_norm_eps"]),
    dict(head_dim=32, MAKE=True), dict(DROP=["head_dim"]), dict(head_dim=8), dict(num_key_value_heads=None), dict(DROP=["num_key_value_heads"]),
    dict(num_attention_heads=16, num_key_value_heads=8, head_dim=8, MAKE=True, DROP=["num_key_value_heads"]),
    dict(num_key_value_heads=4, MAKE=True, DROP=["num_key_value_heads"]), dict(num_attention_heads=2), dict(intermediate_size=48),
    dict(rope_interleaved=True), dict(no_rope_layers=[0, 1, 1]), dict(use_qk_norm=True), dict(pretraining_tp=2),
    dict(attention_dropout=0.5), dict(use_cache=False), dict(max_position_embeddings=256),
]
OWN_CASES = {
    "gpt2": [dict(activation_function=name) for name in ("relu", "gelu", "gelu_new", "gelu_fast", "silu", "tanh", "quick_gelu")] +
            [dict(n_head=2), dict(n_inner=128), dict(n_inner=256), dict(n_inner=128, MAKE=True), dict(layer_norm_epsilon=0.5),
             dict(DROP=["layer_norm_epsilon"]), dict(scale_attn_weights=False), dict(scale_attn_by_inverse_layer_idx=True),
             dict(reorder_and_upcast_attn=True), dict(add_cross_attention=True), dict(resid_pdrop=0.5), dict(embd_pdrop=0.5),
             dict(attn_pdrop=0.5), dict(summary_type="mean"), dict(summary_use_proj=False), dict(summary_activation="tanh"),
             dict(summary_proj_to_labels=False), dict(summary_first_dropout=0.5), dict(use_cache=False), dict(n_layer=2), dict(n_embd=32),
             dict(n_positions=256)],
    "opt": [dict(activation_function=name) for name in ("relu", "gelu", "gelu_new", "silu", "tanh", "quick_gelu")] +
           [dict(num_attention_heads=2), dict(do_layer_norm_before=False), dict(do_layer_norm_before=False, MAKE=True),
            dict(_remove_final_layer_norm=True), dict(_remove_final_layer_norm=True, MAKE=True), dict(enable_bias=False),
            dict(enable_bias=False, MAKE=True), dict(layer_norm_elementwise_affine=False), dict(layer_norm_elementwise_affine=False, MAKE=True),
            dict(word_embed_proj_dim=32), dict(word_embed_proj_dim=32, MAKE=True), dict(dropout=0.5), dict(attention_dropout=0.5),
            dict(layerdrop=0.5), dict(init_std=0.5), dict(use_cache=False), dict(num_hidden_layers=2), dict(hidden_size=32), dict(ffn_dim=48),
            dict(max_position_embeddings=256)],
}
EVERY = [dict(tie_word_embeddings=True, MAKE=True), dict(tie_word_embeddings=False, MAKE=True), dict(pad_token_id=PROMPT[5]),
         dict(bos_token_id=3), dict(eos_token_id=[3, 4]), dict(initializer_range=0.9), dict(vocab_size=64)]


def cases(family):
    """Changes of the file; with MAKE of the model itself as well, so that its weights fit. DROP: keys that the file then lacks."""
    own = OWN_CASES.get(family) or ROPED_CASES + [dict(num_hidden_layers=2), dict(hidden_size=32)]
    return [{}] + EVERY + GENERIC + own


def write(family, case, folder):
    """Writes the checkpoint. Norms and biases get random weights, so that none goes unnoticed."""
    config_class, model_class, sizes = FAMILIES[family]
    change = {key: value for key, value in case.items() if key not in ("MAKE", "DROP")}
    torch.manual_seed(1)
    model = model_class(config_class(**{**sizes, **(change if "MAKE" in case else {})}))
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            weight.data.normal_(1.0 if "norm" in name or "ln" in name else 0.0, 0.3)
    model.save_pretrained(folder)
    file = Path(folder) / "config.json"
    config = {**json.loads(file.read_text()), **change}
    for key in case.get("DROP", []):
        config.pop(key, None)
    file.write_text(json.dumps(config))
    return config


def write_with_other_head(family, folder):
    """A checkpoint that says that the head is the embedding, and has another head."""
    config = write(family, dict(tie_word_embeddings=True, MAKE=True), folder)
    file = Path(folder) / "model.safetensors"
    weights = load_file(file)
    embedding = next(weight for name, weight in weights.items() if name.endswith(("embed_tokens.weight", "wte.weight")))
    save_file({**weights, "lm_head.weight": torch.randn_like(embedding)}, file, {"format": "pt"})
    return config


def load(folder):
    """The model, and whether the file names other tensors than the checkpoint has."""
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    return model.eval(), bool(info["missing_keys"] or info["unexpected_keys"])


@torch.no_grad()
def logprobs(folder):
    """Of the prompt's tokens but the first, in f32. Throws what transformers throws."""
    rows = load(folder)[0](torch.tensor([PROMPT])).logits[0, :-1].log_softmax(-1)
    return rows.gather(1, torch.tensor(PROMPT[1:])[:, None])[:, 0]


def be_quiet():
    transformers.utils.logging.set_verbosity(transformers.utils.logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore")
