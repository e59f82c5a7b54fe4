#!/usr/bin/env python3
"""Writes tests/golden/quantized: one matrix in each layout that quantised checkpoints come in, and what it stands for.

usage: make_quantized.py      (needs numpy and ml_dtypes: python3 -m venv venv && venv/bin/pip install numpy ml_dtypes)

Each folder is a checkpoint of one matrix "p.weight" [N, K], packed here by the rules of the library that defines the
layout (named at each function), and "expected.safetensors": w f64 [N, K], the dequantised matrix; x f64 [4, K]; and y f64
[4, N] = x w^T, all computed in double from the integers that were drawn, before any packing. The numbers of MXFP4 are those of
ml_dtypes. Seeded: the same files each time."""

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np

OUT = Path(__file__).resolve().parent / "quantized"
TYPES = {"uint8": "F8_E4M3", "bool": "U8", "int8": "I8", "int32": "I32", "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64",
         "uint16": "BF16"}  # uint16: the bits of bfloat16; uint8: those of E4M3; bool: bytes


def write_safetensors(path, tensors):
    """Wide elements first, as the safetensors library does: each tensor is aligned then."""
    tensors = dict(sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])))
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": TYPES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values()))


def bf16_bits(x):
    """Of numbers that bfloat16 holds exactly."""
    bits = x.astype(np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


def words(fields, bits):
    """int32 words from their fields, the first in the lowest bits; the last axis is that of the fields."""
    shifts = np.arange(fields.shape[-1], dtype=np.uint64) * np.uint64(bits)
    return (fields.astype(np.uint64) << shifts).sum(-1).astype(np.uint32).view(np.int32)


def padded(a, axis, multiple):
    pad = [(0, 0)] * a.ndim
    pad[axis] = (0, -a.shape[axis] % multiple)
    return np.pad(a, pad)


def pack_along(a, axis, bits):
    """Neighbours along `axis` share a word: AutoGPTQ for qweight (in) and qzeros (out), compressed-tensors pack_to_int32."""
    per_word = 32 // bits
    a = np.moveaxis(padded(a, axis, per_word), axis, -1)
    return np.ascontiguousarray(np.moveaxis(words(a.reshape(*a.shape[:-1], -1, per_word), bits), -1, axis))


def gptq(rng, n, k, bits, group, sym, v2=False, act_order=False):
    """AutoGPTQ / GPTQModel: qweight [K / W, N], qzeros [groups, N / W] less one in the first format, scales, g_idx."""
    groups = k // group
    q = rng.integers(0, 2**bits, (n, k))
    zero = np.full((n, groups), 2 ** (bits - 1)) if sym else rng.integers(0 if v2 else 1, 2**bits, (n, groups))
    scale = (rng.uniform(0.001, 0.1, (n, groups)) * rng.choice([1, 1, 1, -1], (n, groups))).astype(np.float16)
    scale[0, 0] = np.float16(3e-7)  # a denormal half
    g_idx = np.arange(k) // group
    if act_order:
        g_idx = rng.permutation(g_idx)
    w = scale.astype(np.float64)[:, g_idx] * (q - zero[:, g_idx])
    config = {"quant_method": "gptq", "bits": bits, "group_size": -1 if groups == 1 else group, "sym": sym,
              "desc_act": act_order, "damp_percent": 0.01, "true_sequential": True}
    if v2:
        config["checkpoint_format"] = "gptq_v2"
    tensors = {"p.qweight": pack_along(q.T, 0, bits), "p.qzeros": pack_along((zero - (not v2)).T, 1, bits),
               "p.scales": np.ascontiguousarray(scale.T), "p.g_idx": g_idx.astype(np.int32)}
    return config, tensors, w


def awq(rng, n, k, group):
    """AutoAWQ WQLinear_GEMM: qweight [K, N / 8] and qzeros [groups, N / 8], eight n a word in the order 0 2 4 6 1 3 5 7."""
    order, groups = [0, 2, 4, 6, 1, 3, 5, 7], k // group
    q, zero = rng.integers(0, 16, (n, k)), rng.integers(0, 16, (n, groups))
    scale = rng.uniform(0.001, 0.1, (n, groups)).astype(np.float16)
    w = np.repeat(scale.astype(np.float64), group, 1) * (q - np.repeat(zero, group, 1))
    pack = lambda a: words(a.T.reshape(a.shape[1], n // 8, 8)[:, :, order], 4)
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm",
              "modules_to_not_convert": None}
    return config, {"p.qweight": pack(q), "p.qzeros": pack(zero), "p.scales": np.ascontiguousarray(scale.T)}, w


def compressed(rng, n, k, bits, group, sym, packed=True, act_order=False, strategy=None):
    """compressed-tensors PackedQuantizationCompressor (signed values plus 2^(bits-1), zero points packed along rows) and
    IntQuantizationCompressor (int8 as they are)."""
    groups, half = (k // group if group else 1), 2 ** (bits - 1)
    strategy = strategy or ("group" if group else "channel")
    q = rng.integers(-half, half, (n, k))
    zero = np.zeros((n, groups), int) if sym else rng.integers(-half, half, (n, groups))
    scale = np.ldexp(rng.integers(128, 256, (n, groups)).astype(np.float64), -14)  # 8 bits: exact in bfloat16
    if strategy == "tensor":
        scale[:] = scale[0, 0]
    g_idx = np.arange(k) // (group or k)
    if act_order:
        g_idx = rng.permutation(g_idx)
    w = scale[:, g_idx] * (q - zero[:, g_idx])
    weights = {"num_bits": bits, "type": "int", "symmetric": sym, "strategy": strategy, "group_size": group,
               "dynamic": False, "actorder": "group" if act_order else None}
    inputs = None if packed else {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    config = {"quant_method": "compressed-tensors", "format": "pack-quantized" if packed else "int-quantized",
              "quantization_status": "compressed", "ignore": ["lm_head"],
              "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs,
                                            "output_activations": None}}}
    tensors = {"p.weight_scale": bf16_bits(scale[0, :1] if strategy == "tensor" else scale)}
    if packed:
        tensors["p.weight_packed"] = pack_along(q + half, 1, bits)
        tensors["p.weight_shape"] = np.array([n, k], np.int64)
        if not sym:
            tensors["p.weight_zero_point"] = pack_along(zero + half, 0, bits)
    else:
        tensors["p.weight"] = q.astype(np.int8)
        if not sym:
            tensors["p.weight_zero_point"] = zero.astype(np.int8)
    if act_order:
        tensors["p.weight_g_idx"] = g_idx.astype(np.int32)
    return config, tensors, w


def e4m3(bits):
    """The numbers of E4M3 (OCP 8-bit floating point): exponent bias 7, no infinity."""
    exponent, mantissa = bits >> 3 & 15, (bits & 7).astype(np.float64)
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent.astype(np.float64) - 10))
    return np.where(bits & 128, -magnitude, magnitude)


def fp8(rng, n, k, strategy, method, scale_type=np.float32):
    """transformers' FineGrainedFP8 (weight_scale_inv of blocks, which multiplies), vLLM's fp8 (weight_scale and input_scale of
    the matrix), compressed-tensors FloatQuantizationCompressor and its block strategy."""
    bits = rng.integers(0, 127, (n, k)) | rng.integers(0, 2, (n, k)) << 7  # 127 is NaN
    blocks = (-(-n // 128), -(-k // 128))
    shape = {"tensor": (1, 1), "channel": (n, 1), "block": blocks}[strategy]
    scale = np.ldexp(rng.integers(128, 256, shape).astype(np.float64), -14)  # 8 bits: exact in every type
    rows, columns = (np.arange(n) // 128, np.arange(k) // 128) if strategy == "block" else (np.arange(n) * (shape[0] > 1), np.zeros(k, int))
    w = scale[rows][:, columns] * e4m3(bits)
    name = "p.weight_scale_inv" if method == "fp8" and strategy == "block" else "p.weight_scale"
    stored = scale[0, :1] if strategy == "tensor" else scale
    tensors = {"p.weight": bits.astype(np.uint8), name: bf16_bits(stored) if scale_type is None else stored.astype(scale_type)}
    if method == "fp8":
        config = {"quant_method": "fp8", "activation_scheme": "dynamic"}
        if strategy == "block":
            config |= {"fmt": "e4m3", "weight_block_size": [128, 128]}
        else:
            config["activation_scheme"] = "static"
            tensors[name] = tensors[name].reshape(())
            tensors["p.input_scale"] = np.float32([0.25]).reshape(())
        return config, tensors, w
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": strategy, "dynamic": False,
               "block_structure": [128, 128] if strategy == "block" else None}
    inputs = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}
    config = {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
              "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                                                   "input_activations": inputs, "output_activations": None}}}
    return config, tensors, w


def mxfp4(rng, n, k, activations):
    """compressed-tensors MXFP4PackedCompressor: weight_packed [N, K / 2], the first of two neighbours in the lower half of a
    byte, and weight_scale [N, K / 32], E8M0. The last rows have small and large scales."""
    bits = rng.integers(0, 16, (n, k)).astype(np.uint8)
    exponents = rng.integers(116, 124, (n, k // 32)).astype(np.uint8)
    exponents[-2], exponents[-1] = 40, 240
    numbers = bits.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    w = np.repeat(exponents.view(ml_dtypes.float8_e8m0fnu).astype(np.float64), 32, 1) * numbers
    args = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}
    config = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "quantization_status": "compressed",
              "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": args | {"dynamic": False},
                  "input_activations": args | {"dynamic": True} if activations else None, "output_activations": None}}}
    packed = bits[:, 0::2] | bits[:, 1::2] << 4
    return config, {"p.weight_packed": packed.view(bool), "p.weight_scale": exponents.view(bool)}, w


CASES = {
    "gptq4_sym": lambda rng: gptq(rng, 24, 128, 4, 32, sym=True),
    "gptq4_act_order": lambda rng: gptq(rng, 40, 192, 4, 64, sym=False, act_order=True),
    "gptq4_row": lambda rng: gptq(rng, 16, 72, 4, 72, sym=False),
    "gptq8_sym": lambda rng: gptq(rng, 20, 128, 8, 128, sym=True),
    "gptq8_v2_act_order": lambda rng: gptq(rng, 36, 96, 8, 32, sym=False, v2=True, act_order=True),
    "awq": lambda rng: awq(rng, 40, 128, 64),
    "pack4_group": lambda rng: compressed(rng, 23, 128, 4, 32, sym=True),
    "pack4_asym_act_order": lambda rng: compressed(rng, 21, 256, 4, 128, sym=False, act_order=True),
    "pack4_channel": lambda rng: compressed(rng, 19, 101, 4, None, sym=False),
    "pack8_channel": lambda rng: compressed(rng, 18, 70, 8, None, sym=True),
    "pack8_group_asym": lambda rng: compressed(rng, 18, 128, 8, 64, sym=False),
    "int8_channel": lambda rng: compressed(rng, 17, 65, 8, None, sym=True, packed=False),
    "int8_asym": lambda rng: compressed(rng, 17, 64, 8, None, sym=False, packed=False),
    "int8_tensor": lambda rng: compressed(rng, 9, 33, 8, None, sym=True, packed=False, strategy="tensor"),
    "fp8_block": lambda rng: fp8(rng, 150, 200, "block", "fp8"),
    "fp8_tensor": lambda rng: fp8(rng, 13, 40, "tensor", "fp8"),
    "fp8_compressed_tensor": lambda rng: fp8(rng, 13, 40, "tensor", "compressed-tensors"),
    "fp8_compressed_channel": lambda rng: fp8(rng, 17, 130, "channel", "compressed-tensors", None),
    "fp8_compressed_block": lambda rng: fp8(rng, 129, 257, "block", "compressed-tensors", None),
    "mxfp4_w4a16": lambda rng: mxfp4(rng, 21, 96, activations=False),
    "mxfp4_w4a4": lambda rng: mxfp4(rng, 18, 160, activations=True),
}


def main():
    for seed, (name, make) in enumerate(CASES.items()):
        rng = np.random.default_rng(seed)
        config, tensors, w = make(rng)
        x = rng.normal(size=(4, w.shape[1]))
        folder = OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        text = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "float16",
                "quantization_config": config}
        (folder / "config.json").write_text(json.dumps(text, indent=1) + "\n")
        write_safetensors(folder / "model.safetensors", tensors)
        write_safetensors(folder / "expected.safetensors", {"w": w.astype(np.float64), "x": x, "y": x @ w.T})


if __name__ == "__main__":
    main()
