"""Quantised weights from the outside: made at load, and checkpoints that come quantised, which must score as the same
matrices do in f32 but for the rounding of activations to 8 bits."""
import array
import json
import random
import shutil
import struct

import pytest

from conftest import SOURCE

HIDDEN, INTERMEDIATE, VOCAB, GROUP = 64, 128, 4096, 32
TYPES = {"F32": "f", "I32": "i", "I64": "q", "I8": "b", "F8_E4M3": "B", "U8": "B"}
SHAPES = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 64),
          "mlp.gate_proj": (128, 64), "mlp.up_proj": (128, 64), "mlp.down_proj": (64, 128)}
WORDS = "Once upon a time there was a clever otter named Miro who lived near the hill".split()


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in sorted(tensors.items(), key=lambda item: -array.array(TYPES[item[1][0]]).itemsize):
        raw = array.array(TYPES[dtype], values).tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def word(fields, bits):
    """A signed 32-bit word, the first field lowest."""
    value = sum(field << bits * i for i, field in enumerate(fields))
    return value - (1 << 32) if value >> 31 else value


def pack(rows, bits):
    """Neighbours in a row share a word; flat."""
    each = 32 // bits
    return [word(row[i:i + each], bits) for row in rows for i in range(0, len(row), each)]


def transposed(rows):
    return [list(column) for column in zip(*rows)]


class Matrix:
    def __init__(self, draw, n, k, bits, act_order):
        self.n, self.k, self.bits, self.groups = n, k, bits, k // GROUP
        self.q = [[draw.randrange(1 << bits) for _ in range(k)] for _ in range(n)]
        self.zero = [[draw.randrange(1 << bits - 2, 3 << bits - 2) for _ in range(self.groups)] for _ in range(n)]
        self.scale = [[draw.uniform(0.5, 1.5) * 2 ** (2 - bits) / k**0.5 for _ in range(self.groups)] for _ in range(n)]
        self.g_idx = [j // GROUP for j in range(k)]
        if act_order:
            draw.shuffle(self.g_idx)

    def dequantized(self):
        return [s[g] * (v - z[g]) for row, s, z in zip(self.q, self.scale, self.zero) for v, g in zip(row, self.g_idx)]


class Fp8Matrix:
    """E4M3 numbers with a scale of the matrix, of each row, or of each 128 x 128."""

    def __init__(self, draw, n, k, strategy):
        self.n, self.k = n, k
        self.rows, self.columns = (128, 128) if strategy == "block" else (1, k) if strategy == "channel" else (n, k)
        number = lambda: draw.choice((0, 128)) | (draw.choice((0, 4, 5, 6, 7)) << 3) | draw.randrange(8)
        self.bits = [[number() for _ in range(k)] for _ in range(n)]
        self.scale = [[draw.uniform(0.7, 1.7) / k**0.5 for _ in range(0, k, self.columns)] for _ in range(0, n, self.rows)]

    @staticmethod
    def value(bits):
        exponent, mantissa = bits >> 3 & 15, bits & 7
        magnitude = mantissa * 2**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
        return -magnitude if bits & 128 else magnitude

    def dequantized(self):
        return [self.scale[i // self.rows][j // self.columns] * self.value(b)
                for i, row in enumerate(self.bits) for j, b in enumerate(row)]


def fp8(m, name):
    block = m.rows == 128 and m.columns == 128
    shape = [1] if m.rows == m.n else [len(m.scale), len(m.scale[0])]
    return {name + ".weight": ("F8_E4M3", [m.n, m.k], sum(m.bits, [])),
            name + (".weight_scale_inv" if block else ".weight_scale"): ("F32", shape, sum(m.scale, [])),
            name + ".input_scale": ("F32", [1], [0.1])}


class Mxfp4Matrix:
    """E2M1 numbers with an E8M0 scale for 32 columns."""
    NUMBERS = [0, 0.5, 1, 1.5, 2, 3, 4, 6]

    def __init__(self, draw, n, k):
        self.n, self.k = n, k
        self.bits = [[draw.randrange(16) for _ in range(k)] for _ in range(n)]
        self.exponent = [[draw.randrange(121, 124) for _ in range(k // 32)] for _ in range(n)]

    def dequantized(self):
        return [self.NUMBERS[b & 7] * (-1 if b & 8 else 1) * 2.0 ** (e[j // 32] - 127)
                for row, e in zip(self.bits, self.exponent) for j, b in enumerate(row)]


def mxfp4(m, name):
    return {name + ".weight_packed": ("U8", [m.n, m.k // 2], [row[j] | row[j + 1] << 4 for row in m.bits for j in range(0, m.k, 2)]),
            name + ".weight_scale": ("U8", [m.n, m.k // 32], sum(m.exponent, []))}


def gptq(m, name):
    zeros = transposed([[z - 1 for z in row] for row in m.zero])
    columns = m.k * m.bits // 32
    words = pack(m.q, m.bits)  # [N, K / W], to be [K / W, N]
    return {name + ".qweight": ("I32", [columns, m.n], [words[n * columns + i] for i in range(columns) for n in range(m.n)]),
            name + ".qzeros": ("I32", [m.groups, m.n * m.bits // 32], pack(zeros, m.bits)),
            name + ".scales": ("F32", [m.groups, m.n], sum(transposed(m.scale), [])),
            name + ".g_idx": ("I32", [m.k], m.g_idx)}


def awq(m, name):
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    interleaved = lambda row: [row[i + o] for i in range(0, len(row), 8) for o in order]
    return {name + ".qweight": ("I32", [m.k, m.n // 8], pack([interleaved(row) for row in transposed(m.q)], 4)),
            name + ".qzeros": ("I32", [m.groups, m.n // 8], pack([interleaved(row) for row in transposed(m.zero)], 4)),
            name + ".scales": ("F32", [m.groups, m.n], sum(transposed(m.scale), []))}


def packed(m, name):
    zeros = transposed(m.zero)  # [groups, N], packed along N, then [N / W, groups]
    words, columns = pack(zeros, m.bits), m.n * m.bits // 32
    return {name + ".weight_packed": ("I32", [m.n, m.k * m.bits // 32], pack(m.q, m.bits)),
            name + ".weight_shape": ("I64", [2], [m.n, m.k]),
            name + ".weight_zero_point": ("I32", [columns, m.groups], [words[g * columns + i] for i in range(columns) for g in range(m.groups)]),
            name + ".weight_scale": ("F32", [m.n, m.groups], sum(m.scale, [])),
            name + ".weight_g_idx": ("I32", [m.k], m.g_idx)}


def int8(m, name):
    return {name + ".weight": ("I8", [m.n, m.k], [v - 128 for row in m.q for v in row]),
            name + ".weight_zero_point": ("I8", [m.n, m.groups], [z - 128 for row in m.zero for z in row]),
            name + ".weight_scale": ("F32", [m.n, m.groups], sum(m.scale, []))}


def compressed(format, bits):
    weights = {"num_bits": bits, "type": "int", "symmetric": False, "strategy": "group", "group_size": GROUP}
    return {"quant_method": "compressed-tensors", "format": format,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def float_quantized(strategy):
    weights = {"num_bits": 8, "type": "float", "strategy": strategy}
    return {"quant_method": "compressed-tensors", "format": "float-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                          "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}}}}


FP8_LAYOUTS = {
    "block": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    "tensor": {"quant_method": "fp8", "activation_scheme": "static"},
    "channel": float_quantized("channel"),
}
MXFP4 = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "group",
                                                                         "group_size": 32}}}}
LAYOUTS = {
    "gptq4": (gptq, 4, False, {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": False}),
    "gptq4_act_order": (gptq, 4, True, {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True, "sym": False}),
    "gptq8": (gptq, 8, False, {"quant_method": "gptq", "bits": 8, "group_size": GROUP, "desc_act": False, "sym": False}),
    "awq": (awq, 4, False, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}),
    "pack4": (packed, 4, True, compressed("pack-quantized", 4)),
    "pack8": (packed, 8, False, compressed("pack-quantized", 8)),
    "int8": (int8, 8, False, compressed("int-quantized", 8)),
}


def write_models(folder, layout):
    """folder/quantized and folder/plain: the same model, its matrices quantised and as f32."""
    draw = random.Random(layout)
    if layout in FP8_LAYOUTS:
        # Wider, so that a row has several blocks of 128.
        shapes = {"mlp.gate_proj": (320, 64), "mlp.up_proj": (320, 64), "mlp.down_proj": (64, 320)}
        write_model_pair(folder, FP8_LAYOUTS[layout], draw, {**SHAPES, **shapes}, 320, fp8,
                         lambda n, k: Fp8Matrix(draw, n, k, layout))
        return
    if layout == "mxfp4":
        write_model_pair(folder, MXFP4, draw, SHAPES, INTERMEDIATE, mxfp4, lambda n, k: Mxfp4Matrix(draw, n, k))
        return
    pack_matrix, bits, act_order, section = LAYOUTS[layout]
    # Each in an order of its own: q, k and v cannot be one weight, which GPTQ allows but does not do.
    write_model_pair(folder, section, draw, SHAPES, INTERMEDIATE, pack_matrix, lambda n, k: Matrix(draw, n, k, bits, act_order))


def write_model_pair(folder, section, draw, shapes, intermediate, pack_matrix, draw_matrix):
    normal = lambda count, mean, deviation: [draw.gauss(mean, deviation) for _ in range(count)]
    shared = {"model.embed_tokens.weight": ("F32", [VOCAB, HIDDEN], normal(VOCAB * HIDDEN, 0, 0.3)),
              "model.norm.weight": ("F32", [HIDDEN], normal(HIDDEN, 1, 0.1))}
    plain, quantized = dict(shared), dict(shared)
    for layer in ("model.layers.0.", "model.layers.1."):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            plain[layer + norm + ".weight"] = quantized[layer + norm + ".weight"] = ("F32", [HIDDEN], normal(HIDDEN, 1, 0.1))
        for name, (n, k) in shapes.items():
            matrix = draw_matrix(n, k)
            quantized.update(pack_matrix(matrix, layer + name))
            plain[layer + name + ".weight"] = ("F32", [n, k], matrix.dequantized())
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32", "hidden_size": HIDDEN,
              "intermediate_size": intermediate, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
              "vocab_size": VOCAB, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}
    for name, tensors in (("plain", plain), ("quantized", quantized)):
        (folder / name).mkdir()
        write_safetensors(folder / name / "model.safetensors", tensors)
        more = {"quantization_config": section} if name == "quantized" else {}
        (folder / name / "config.json").write_text(json.dumps({**config, **more}))
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(SOURCE / "models/demo" / file, folder / name)


def logprobs(jsonl, script):
    (script.parent / "out.jsonl").unlink(missing_ok=True)  # score goes on where an earlier run ended
    lines = [{"prompt": " ".join(WORDS[:i]), "completions": [" " + " ".join(WORDS[i:])]} for i in (2, 5, 9)]
    process, results = jsonl("score", lines, script)
    assert process.returncode == 0, process.stderr
    return [p for result in results for p in result["completions"][0]["token_logprobs"]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_quantized_checkpoint_scores_as_its_matrices_do(layout, tmp_path, jsonl, pipeline):
    write_models(tmp_path, layout)
    plain = logprobs(jsonl, pipeline(path=tmp_path / "plain"))
    quantized = logprobs(jsonl, pipeline(path=tmp_path / "quantized"))
    worst = max(abs(a - b) for a, b in zip(plain, quantized, strict=True))
    spread = max(plain) - min(plain)
    assert 0 < worst < 0.05 * spread, (worst, spread)  # 0: the matrices were not quantised at all


@pytest.mark.parametrize("layout", FP8_LAYOUTS)
def test_an_fp8_checkpoint_scores_as_its_matrices_do(layout, tmp_path, mortise, jsonl, pipeline):
    write_models(tmp_path, layout)
    plain = logprobs(jsonl, pipeline(path=tmp_path / "plain"))
    quantized = logprobs(jsonl, pipeline(path=tmp_path / "quantized"))
    worst = max(abs(a - b) for a, b in zip(plain, quantized, strict=True))
    spread = max(plain) - min(plain)
    assert 0 < worst < 1e-4 * spread, (worst, spread)  # activations are not rounded
    process = mortise("run", pipeline(path=tmp_path / "quantized"), "-p", "Once", "--max-tokens", 2, env={"MORTISE_LOG": "info"})
    assert process.stderr.count("scales for activations and KV (model.layers.0.mlp.down_proj.input_scale, ...) are not used:") == 1


@pytest.mark.parametrize("dtype", ["f32", "bf16"])  # the other weights are rounded to bf16 in both
def test_an_mxfp4_checkpoint_gives_the_bits_of_its_matrices(dtype, tmp_path, mortise, jsonl, pipeline):
    write_models(tmp_path, "mxfp4")
    option = f', dtype = "{dtype}"'
    plain = logprobs(jsonl, pipeline(path=tmp_path / "plain", model=option))
    quantized = logprobs(jsonl, pipeline(path=tmp_path / "quantized", model=option))
    assert plain == quantized
    process = mortise("check", pipeline(path=tmp_path / "quantized", model=option), env={"MORTISE_LOG": "info"})
    assert process.returncode == 0, process.stderr


def test_weights_made_at_load_change_the_fingerprint_and_little_else(mortise, jsonl, pipeline):
    scripts = {"": "", "int8": ', weights = "int8"', "int4": ', weights = "int4"',
               "fp8": ', weights = "fp8"', "mxfp4": ', weights = "mxfp4"',
               "int8-block32": ', weights = "int8-block32"', "int4-block32": ', weights = "int4-block32"', "g32": ', weights = "int4", group_size = 32'}
    answers, scores = {}, {}
    for name, option in scripts.items():
        script = pipeline(model=option)
        answers[name] = json.loads(mortise("run", script, "-p", "Q: 23 + 58 = ? A:", "--max-tokens", 2, "--temperature", 0,
                                           "--json").stdout)
        scores[name] = sum(logprobs(jsonl, script))
    assert len({answer["system_fingerprint"] for answer in answers.values()}) == 8
    assert answers["int8"]["text"] == answers[""]["text"]
    assert 0 < abs(scores["int8"] - scores[""]) < abs(scores[""]) * 0.1
    assert 0 < abs(scores["fp8"] - scores[""]) < abs(scores[""]) * 0.1
    assert 0 < abs(scores["int8-block32"] - scores[""]) < abs(scores[""]) * 0.1
    assert 0 < abs(scores["int4-block32"] - scores[""]) < abs(scores[""]) * 0.3
    assert 0 < abs(scores["int4"] - scores[""]) < abs(scores[""]) * 0.3
    assert 0 < abs(scores["mxfp4"] - scores[""]) < abs(scores[""]) * 0.3


def test_quantized_weights_have_the_same_bits_on_every_instruction_set_and_thread_count(mortise, pipeline):
    for weights in ("int8", "int4", "fp8", "mxfp4", "int8-block32", "int4-block32"):
        texts = set()
        for isa in ("", "portable", "avx2", "avx512"):
            for threads in (1, 2):
                process = mortise("run", pipeline(device=f"threads = {threads}", model=f', weights = "{weights}"'), "-p",
                                  "Once upon a time", "--max-tokens", 20, "--seed", 7, "--json", "--logprobs", 1,
                                  env={"MORTISE_ISA": isa})
                if "does not have" not in process.stderr:
                    texts.add(json.dumps(json.loads(process.stdout)["tokens"]))
        assert len(texts) == 1, weights


def test_mistakes_say_what_is_expected(mortise, pipeline, tmp_path):
    def error(**options):
        process = mortise("run", pipeline(**options), "-p", "x")
        assert process.returncode == 1
        return process.stderr

    assert "int8" in error(model=', weights = "int5"')
    assert "group_size" in error(model=', weights = "int4", group_size = 48')
    (tmp_path / "mx").mkdir()
    write_models(tmp_path / "mx", "mxfp4")
    weights = tmp_path / "mx/quantized/model.safetensors"
    data = bytearray(weights.read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    at = json.loads(data[8:8 + size])["model.layers.1.mlp.up_proj.weight_scale"]["data_offsets"][0]
    data[8 + size + at + 3] = 255
    weights.write_bytes(data)
    text = error(path=tmp_path / "mx/quantized")
    assert "tensor model.layers.1.mlp.up_proj.weight_scale: the scale of row 1, columns 32 to 63 is NaN (255); the checkpoint is damaged" in text
    write_models(tmp_path, "awq")
    text = error(path=tmp_path / "quantized", model=', weights = "int8"')
    assert '"int8" for a checkpoint that is quantised already; leave `weights` out' in text
    config = tmp_path / "quantized/config.json"
    config.write_text(config.read_text().replace('"awq"', '"bitsandbytes"'))
    assert "supported are gptq (4 or 8 bits), awq (version gemm, 4 bits), compressed-tensors" in error(path=tmp_path / "quantized")
