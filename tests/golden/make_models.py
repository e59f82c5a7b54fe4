#!/usr/bin/env python3
"""Writes the small random checkpoints of tests/golden/models and what transformers computes from them.

usage: make_models.py [NAME ...]      (all models when none is named; README.md has the layout of what is written)

Run it in a virtual environment of its own; nothing else in the repository needs torch:
    python3 -m venv venv && venv/bin/pip install torch transformers safetensors numpy
    venv/bin/python tests/golden/make_models.py

Every model is a seeded random one, so the files can be made again; with another release of torch or transformers the last
bits of the logits may differ. For each model the script searches the first seed for which greedy decoding is safe to compare:
at every one of the 64 steps the two best logits differ by more than MIN_GAP, and no bos or eos token is generated. It
then breaks the model on purpose (no window, no rope scaling, biases at 0, ...) and refuses a model whose logits hardly
notice, because a parity test on such a model would prove nothing.
"""

import copy
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

# Some virtual machines have AMX and hide its CPUID leaves; oneDNN then dies of SIGILL. bf16 needs no more than this.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import (AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, OPTConfig,  # noqa: E402
                          Qwen2Config, Qwen3Config)

OUT = Path(__file__).resolve().parent / "models"
NUM_GREEDY = 64
MIN_GAP = 1e-3  # between the two best logits of a greedy step: far above the error of f32
MIN_EFFECT = 2e-2  # of a part that is broken on purpose, in units of the row's largest logit: 1000 times the f32 tolerance
MIN_FORMULA_EFFECT = 6e-5  # of gelu for its approximation: three times the f32 tolerance, twelve times that on naive parts
MAX_BF16_NOISE = 1e-2  # bf16 against f32 on the same bf16 weights: leaves as much again of the test's 2e-2 to the other side
BOS, EOS = 1, 2
LONG = 330  # crosses a span of 256 keys, as does decoding after it


@dataclass
class Model:
    config: object  # a transformers configuration class
    args: dict
    prompt_len: int = 48
    rope: dict | None = None
    dtype: torch.dtype = torch.float32  # of the file; the f32 run then computes with these weights widened
    shard_size: str = "100MB"
    spelling: int = 5  # of config.json: that of transformers 4 or 5
    without_prefix: str = ""  # of the tensors' names, as in checkpoints of the model without its head


LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)


def dims(vocab, hidden, intermediate, heads, kv_heads, layers=2, **more):
    return dict(vocab_size=vocab, hidden_size=hidden, intermediate_size=intermediate, num_attention_heads=heads,
                num_key_value_heads=kv_heads, num_hidden_layers=layers, max_position_embeddings=512, **more)


def opt_dims(vocab, hidden, ffn, heads, layers=2, **more):
    return dict(vocab_size=vocab, hidden_size=hidden, ffn_dim=ffn, num_attention_heads=heads, num_hidden_layers=layers,
                max_position_embeddings=512, **more)


def gpt2_dims(vocab, hidden, heads, layers=2, **more):
    return dict(vocab_size=vocab, n_embd=hidden, n_head=heads, n_layer=layers, n_positions=512, **more)


MODELS = {
    "llama_mha": Model(LlamaConfig, dims(128, 64, 72, 4, 4)),
    "llama_gqa4": Model(LlamaConfig, dims(96, 48, 80, 8, 2, head_dim=24), LONG),
    "llama_gqa8": Model(LlamaConfig, dims(112, 64, 72, 16, 2, head_dim=16, tie_word_embeddings=False), LONG,
                        dtype=torch.float16, shard_size="60KB"),
    "llama_mqa": Model(LlamaConfig, dims(97, 48, 200, 4, 1, head_dim=16)),
    "llama_tied": Model(LlamaConfig, dims(160, 64, 56, 2, 2, layers=3, tie_word_embeddings=True)),
    "llama_llama3": Model(LlamaConfig, dims(96, 64, 80, 2, 1), LONG, rope=LLAMA3, spelling=4),
    "llama_linear": Model(LlamaConfig, dims(128, 64, 88, 4, 2), 72, shard_size="100KB", spelling=4,
                          rope=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    "llama_bias": Model(LlamaConfig, dims(100, 64, 88, 4, 2, attention_bias=True, mlp_bias=True)),
    "llama_f16": Model(LlamaConfig, dims(128, 64, 128, 4, 2), dtype=torch.float16),
    "qwen2": Model(Qwen2Config, dims(144, 64, 80, 4, 2), 72,
                   rope=dict(rope_type="default", rope_theta=1000000.0)),
    "qwen2_yarn": Model(Qwen2Config, dims(96, 64, 72, 4, 2), LONG, spelling=4,
                        rope=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)),
    "qwen3": Model(Qwen3Config, dims(96, 64, 72, 4, 2, head_dim=32), LONG,
                   rope=dict(rope_type="default", rope_theta=1000000.0)),
    "mistral": Model(MistralConfig, dims(96, 64, 88, 2, 1, head_dim=48, sliding_window=16), LONG),
    # As opt-125m and most others; as opt-350m; what the family's configuration allows beside.
    "opt": Model(OPTConfig, opt_dims(97, 64, 200, 4), LONG, dtype=torch.float16, spelling=4),
    "opt_projected": Model(OPTConfig, opt_dims(128, 64, 136, 8, 3, word_embed_proj_dim=40, do_layer_norm_before=False), 72,
                           without_prefix="model."),
    "opt_plain": Model(OPTConfig, opt_dims(100, 48, 72, 3, enable_bias=False, layer_norm_elementwise_affine=False,
                                           activation_function="gelu", _remove_final_layer_norm=True,
                                           tie_word_embeddings=False)),
    "gpt2": Model(GPT2Config, gpt2_dims(112, 48, 6), LONG, without_prefix="transformer."),
    "gpt2_variant": Model(GPT2Config, gpt2_dims(128, 64, 4, 3, n_inner=100, activation_function="relu", layer_norm_epsilon=1e-2,
                                                scale_attn_weights=False, tie_word_embeddings=False), 72,
                          dtype=torch.float16, shard_size="60KB"),
}


def learns_positions(config):
    return config.model_type in ("opt", "gpt2")


def make_config(spec):
    if spec.config in (OPTConfig, GPT2Config):
        return spec.config(**spec.args, bos_token_id=BOS, eos_token_id=EOS, attn_implementation="eager", use_cache=False)
    rope = spec.rope or dict(rope_type="default", rope_theta=10000.0)
    return spec.config(**spec.args, rope_parameters=rope, bos_token_id=BOS, eos_token_id=EOS, rms_norm_eps=1e-5,
                       attn_implementation="eager", use_cache=False)


def randomise_learned_positions(model, seed):
    """As below, for OPT and GPT-2: norms have biases, GPT-2's matrices are stored transposed."""
    generator = torch.Generator().manual_seed(seed)
    last_norm = ("model.decoder.final_layer_norm.weight", "transformer.ln_f.weight")
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        fan_in = parameter.shape[0 if "attn.c_" in name or "mlp.c_" in name else -1]
        if name.endswith("bias"):
            value = 0.4 * noise
        elif "norm" in name or "ln_" in name:
            value = 1 + 0.3 * noise.clamp(-2, 2)
            if name in last_norm and model.config.tie_word_embeddings:
                value *= torch.randint(0, 2, noise.shape, generator=generator) * 2 - 1
        elif "embed_tokens" in name or "wte" in name:
            value = noise
        elif "embed_positions" in name or "wpe" in name:
            value = 1.5 * noise  # else tied embeddings make it repeat itself
        elif "lm_head" in name:
            value = 0.3 * noise
        elif "out_proj" in name or "fc2" in name or "c_proj" in name:
            value = 0.5 * noise / fan_in**0.5
        elif "c_attn" in name and not model.config.scale_attn_weights:
            value = 0.6 * noise / fan_in**0.5
        else:
            value = noise / fan_in**0.5
        parameter.data.copy_(value)
    return model.eval()


def randomise(model, seed):
    """No norm weight is 1 and no bias 0. The scales are a compromise: position, window and biases must show in the logits,
    yet two correct bf16 implementations, which round at different places, must not drift apart by more than the test allows."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        fan_in = parameter.shape[-1]
        if "norm" in name:
            value = 1 + 0.3 * noise.clamp(-2, 2)
            if name == "model.norm.weight" and model.config.tie_word_embeddings:
                # With tied embeddings every token would predict itself; signs in the last norm end that.
                value *= torch.randint(0, 2, noise.shape, generator=generator) * 2 - 1
        elif name.endswith("bias"):
            value = 0.4 * noise
        elif "embed_tokens" in name:
            value = noise
        elif "lm_head" in name:
            value = 0.3 * noise
        elif "o_proj" in name or "down_proj" in name:
            value = 0.5 * noise / fan_in**0.5
        else:
            value = noise / fan_in**0.5
        parameter.data.copy_(value)
    return model.eval()


@torch.no_grad()
def logits_of(model, tokens):
    return model(input_ids=torch.tensor([tokens])).logits[0].float()


@torch.no_grad()
def greedy_of(model, prompt):
    """Decodes by running the whole sequence each time, so that no cache implementation takes part in the expectation."""
    tokens, gaps, logprobs = list(prompt), [], []
    for _ in range(NUM_GREEDY):
        row = logits_of(model, tokens)[-1]
        best = row.topk(2).values
        gaps.append((best[0] - best[1]).item())
        tokens.append(int(row.argmax()))
        logprobs.append(torch.log_softmax(row.double(), -1)[tokens[-1]].item())
        if gaps[-1] <= MIN_GAP or tokens[-1] in (BOS, EOS):
            return None
    return tokens[len(prompt):], min(gaps), logprobs


def with_dtype(model, dtype):
    """A copy with rounded weights. model.to() would round the rope frequencies too, which loading a checkpoint does not."""
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data = parameter.data.to(dtype)
    return other


def search(spec):
    for seed in range(1000):
        model = make_model(spec, seed)
        generator = torch.Generator().manual_seed(seed + 1_000_000)
        prompt = torch.randint(3, spec.args["vocab_size"], (spec.prompt_len,), generator=generator).tolist()
        found = greedy_of(model, prompt)
        if not found or len(set(found[0])) < 16:  # a model that repeats itself tests little
            continue
        bf16, noise = bf16_run(model, prompt)
        if noise <= MAX_BF16_NOISE:
            return seed, model, prompt, found, bf16, noise
    raise SystemExit("no seed decodes without a near tie and with little bf16 noise; change the scales")


def bf16_run(model, prompt):
    """Logits of transformers in bf16, and how far they are from f32 arithmetic on the same bf16 weights."""
    bf16_model = with_dtype(model, torch.bfloat16)
    bf16 = logits_of(bf16_model, prompt)
    return bf16, relative_error(bf16, logits_of(with_dtype(bf16_model, torch.float32), prompt))


def make_model(spec, seed):
    model = AutoModelForCausalLM.from_config(make_config(spec), dtype=torch.float32)
    model = randomise_learned_positions(model, seed) if learns_positions(model.config) else randomise(model, seed)
    return with_dtype(with_dtype(model, spec.dtype), torch.float32)  # f16 weights are rounded before anything is computed


def relative_error(wrong, right):
    """The measure of the parity test: largest difference over largest magnitude of the row; the worst row."""
    return ((wrong - right).abs().amax(-1) / right.abs().amax(-1)).max().item()


def rebuilt(model, **changes):
    config = copy.deepcopy(model.config)
    for key, value in changes.items():
        setattr(config, key, value)
    config._attn_implementation = "eager"
    other = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    missing, _ = other.load_state_dict(model.state_dict(), strict=False)
    assert not missing, missing  # what the other has too many is what was broken
    return other


def edited(model, edit):
    other = copy.deepcopy(model)
    for name, parameter in other.named_parameters():
        edit(name, parameter.data)
    return other


def learned_position_breakages(model):
    config, names = model.config, [name for name, _ in model.named_parameters()]

    def without(part, value=0):
        return edited(model, lambda n, p: part in n and p.fill_(value))

    def shifted(name, parameter):
        if "embed_positions" in name or "wpe" in name:
            parameter.copy_(parameter.roll(1, 0))

    opt = config.model_type == "opt"
    broken = {"positions one further": edited(model, shifted)}
    for part in ("q_proj.bias", "k_proj.bias", "v_proj.bias", "out_proj.bias", "fc1.bias", "fc2.bias", "c_attn.bias",
                 "c_proj.bias", "c_fc.bias", "layer_norm.bias", "ln_1.bias", "ln_2.bias", "ln_f.bias"):
        # The bias of k adds the same to all scores of a row: softmax does not see it.
        if part != "k_proj.bias" and any(name.endswith(part) for name in names):
            broken[part] = without(part)
    for part in ("self_attn_layer_norm.weight", "final_layer_norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight"):
        if any(name.endswith(part) for name in names):
            broken[part] = without(part, 1)
    if config.activation_function in ("gelu", "gelu_new"):
        other = {"gelu": "gelu_new", "gelu_new": "gelu"}[config.activation_function]
        broken["formula of gelu"] = rebuilt(model, activation_function=other)
    broken["activation"] = rebuilt(model, activation_function="silu")
    if opt and not config.do_layer_norm_before:
        broken["norm last"] = rebuilt(model, do_layer_norm_before=True, _remove_final_layer_norm=True)
    if opt and config.do_layer_norm_before and not config._remove_final_layer_norm:
        broken["final norm"] = rebuilt(model, _remove_final_layer_norm=True)
    if not opt:
        broken["attention scale"] = rebuilt(model, scale_attn_weights=not config.scale_attn_weights)
        broken["epsilon"] = rebuilt(model, layer_norm_epsilon=1.0)
    return broken


def breakages(model):
    """name -> the model with one part broken; only parts that this model has."""
    if learns_positions(model.config):
        return learned_position_breakages(model)
    config, names = model.config, [name for name, _ in model.named_parameters()]
    plain = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"]}
    broken = {"rope theta": rebuilt(model, rope_parameters={**config.rope_parameters, "rope_theta": 500.0})}
    if config.rope_parameters["rope_type"] != "default":
        broken["rope scaling"] = rebuilt(model, rope_parameters=plain)
    if config.model_type == "mistral":
        broken["window"] = rebuilt(model, sliding_window=None)
        broken["window one longer"] = rebuilt(model, sliding_window=config.sliding_window + 1)
    if config.num_key_value_heads not in (1, config.num_attention_heads):
        broken["head groups"] = edited(model, lambda n, p: ("k_proj" in n or "v_proj" in n) and p.copy_(
            p.unflatten(0, (config.num_key_value_heads, -1)).flip(0).flatten(0, 1)))
    for part in ("q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias", "gate_proj.bias", "up_proj.bias",
                 "down_proj.bias"):
        if any(name.endswith(part) for name in names):
            broken[part] = edited(model, lambda n, p, part=part: n.endswith(part) and p.zero_())
    for part in ("input_layernorm", "post_attention_layernorm", "q_norm", "k_norm", "model.norm"):
        if any(part in name for name in names):
            broken[part] = edited(model, lambda n, p, part=part: part in n and p.fill_(1))
    return broken


def check_effects(name, model, prompt, logits):
    effects = {part: relative_error(logits_of(other, prompt), logits) for part, other in breakages(model).items()}
    for part, effect in effects.items():
        if effect < (MIN_FORMULA_EFFECT if part == "formula of gelu" else MIN_EFFECT):
            raise SystemExit(f"{name}: without its {part} the logits change by {effect:.1e} only; change the scales")
    return effects


def transformers4_spelling(config):
    if "rope_parameters" in config:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        # Checkpoints of before 4.45 say `type`; the two spellings are spread over the models.
        kind = rope.pop("rope_type")
        config["rope_scaling"] = (None if kind == "default" else
                                  {("type" if kind == "linear" else "rope_type"): kind, **rope})
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    return config


def write_checkpoint(folder, spec, model):
    shutil.rmtree(folder, ignore_errors=True)
    with_dtype(model, spec.dtype).save_pretrained(folder, max_shard_size=spec.shard_size)
    config = json.loads((folder / "config.json").read_text())
    if spec.spelling == 4:
        config = transformers4_spelling(config)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    if spec.without_prefix:
        file = folder / "model.safetensors"
        save_file({name.removeprefix(spec.without_prefix): tensor for name, tensor in load_file(file).items()}, file,
                  metadata={"format": "pt"})


def stored_positions(prompt_len):
    """All of the first 64 positions, every 8th after them, and the last: rows of logits are most of the bytes."""
    return sorted({*range(min(64, prompt_len)), *range(64, prompt_len, 8), prompt_len - 1})


def make(name):
    spec = MODELS[name]
    seed, model, prompt, (greedy, gap, greedy_logprobs), bf16, noise = search(spec)
    logits = logits_of(model, prompt)
    effects = check_effects(name, model, prompt, logits)

    folder = OUT / name
    write_checkpoint(folder, spec, model)
    for dtype, expected in ((torch.float32, logits), (torch.bfloat16, bf16)):
        again = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
        assert torch.equal(logits_of(again, prompt), expected), f"{name}: reads back as another model"

    positions = torch.tensor(stored_positions(len(prompt)))
    tensors = {
        "prompt": torch.tensor(prompt),
        "positions": positions,
        "logits": logits[positions].contiguous(),
        "logits_bf16": bf16[positions].contiguous(),
        "greedy": torch.tensor(greedy),
        "greedy_logprobs": torch.tensor(greedy_logprobs, dtype=torch.float32),
    }
    made_by = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "seed": str(seed),
               "min_greedy_gap": f"{gap:.2e}", "bf16_noise": f"{noise:.2e}"}
    # One key: safetensors writes several in random order, and the files should come out byte for byte the same.
    save_file(tensors, folder / "expected.safetensors", metadata={"made_by": json.dumps(made_by)})
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: seed {seed}, gap {gap:.1e}, bf16 noise {noise:.1e}, {size / 1024:.0f} KiB; changes when broken:",
          ", ".join(f"{part} {effect:.2f}" for part, effect in effects.items()), flush=True)


def main():
    torch.set_num_threads(1)  # the sums of a product may depend on the number of threads
    transformers.utils.logging.disable_progress_bar()
    for name in sys.argv[1:] or MODELS:
        make(name)


if __name__ == "__main__":
    main()
