"""Writes GGUF files with nothing but the standard library: of keys and tensors that a test names, and of a small Llama checkpoint
in bf16 such as those in models/, as llama.cpp's converter does it."""
import json
import pathlib
import struct

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_1": 7, "Q8_0": 8, "Q6_K": 14, "BF16": 30}
NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GLOBAL_NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                "lm_head.weight": "output.weight"}


def text_bytes(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value_bytes(value):
    """The type and the bytes of a value; lists are of one type."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text_bytes(value)
    kinds, parts = zip(*map(value_bytes, value)) if value else ((8,), ())
    return 9, struct.pack("<IQ", kinds[0], len(value)) + b"".join(parts)


class Writer:
    def __init__(self, **keys):
        self.keys = {}
        self.tensors = []  # (name, type, shape with rows first, bytes)
        self.add(keys)

    def add(self, keys):
        self.keys |= keys
        return self

    def tensor(self, name, kind, shape, data):
        self.tensors.append((name, kind, shape, data))
        return self

    def bytes(self, version=3, with_data=True):
        out = [b"GGUF", struct.pack("<IQQ", version, len(self.tensors), len(self.keys))]
        for key, value in self.keys.items():
            kind, data = value_bytes(value)
            out += [text_bytes(key), struct.pack("<I", kind), data]
        offset, data = 0, []
        for name, kind, shape, content in self.tensors:
            out += [text_bytes(name), struct.pack("<I", len(shape)), *(struct.pack("<Q", extent) for extent in reversed(shape)),
                    struct.pack("<IQ", TYPES.get(kind, kind), offset)]
            padded = content + bytes(-len(content) % 32)
            data.append(padded)
            offset += len(padded)
        head = b"".join(out)
        return head + (bytes(-len(head) % 32) + b"".join(data) if with_data else b"")

    def write(self, path, **options):
        pathlib.Path(path).write_bytes(self.bytes(**options))
        return path


def floats_of_bf16(data):
    return [value for value, in struct.iter_unpack("<f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))]


def half(value):
    return struct.pack("<e", value)


def q8_0(block):
    scale = max(map(abs, block)) / 127
    inverse = 1 / scale if scale else 0
    return half(scale) + struct.pack("<32b", *(round(value * inverse) for value in block))


def q4_0(block):
    largest = max(block, key=abs)
    scale = largest / -8
    inverse = 1 / scale if scale else 0
    values = [min(15, int(value * inverse + 8.5)) for value in block]
    return half(scale) + bytes(values[i] | values[i + 16] << 4 for i in range(16))


def q4_1(block):
    least = min(block)
    scale = (max(block) - least) / 15
    inverse = 1 / scale if scale else 0
    values = [min(15, int((value - least) * inverse + 0.5)) for value in block]
    return half(scale) + half(least) + bytes(values[i] | values[i + 16] << 4 for i in range(16))


def q5_1(block):
    least = min(block)
    scale = (max(block) - least) / 31
    inverse = 1 / scale if scale else 0
    values = [min(31, int((value - least) * inverse + 0.5)) for value in block]
    high = sum((value >> 4) << i for i, value in enumerate(values))
    return (half(scale) + half(least) + struct.pack("<I", high)
            + bytes(values[i] & 15 | (values[i + 16] & 15) << 4 for i in range(16)))


def encode(kind, bf16):
    """The bytes of a tensor in bf16 as another type."""
    if kind == "BF16":
        return bf16
    values = floats_of_bf16(bf16)
    if kind == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if kind == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    block = {"Q8_0": q8_0, "Q4_0": q4_0, "Q4_1": q4_1, "Q5_1": q5_1}[kind]
    return b"".join(block(values[i:i + 32]) for i in range(0, len(values), 32))


def interleaved(data, rows, heads):
    """llama.cpp's order of the rows of q and k: each head's two halves, one row of each after the other."""
    width, size = len(data) // rows, rows // heads
    order = [head * size + half_of * (size // 2) + i for head in range(heads) for i in range(size // 2) for half_of in range(2)]
    return b"".join(data[row * width:(row + 1) * width] for row in order)


def tokenizer_keys(folder, pre):
    """The keys of a byte-level tokenizer."""
    file = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    tokens = {**file["model"]["vocab"], **{token["content"]: token["id"] for token in file["added_tokens"]}}
    names = sorted(tokens, key=tokens.get)
    special = {token["content"] for token in file["added_tokens"]}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in file["model"]["merges"]]
    keys = {"model": "gpt2", "pre": pre, "tokens": names, "token_type": [3 if name in special else 1 for name in names],
            "merges": merges, "bos_token_id": tokens[config["bos_token"]], "eos_token_id": tokens[config["eos_token"]],
            "padding_token_id": tokens[config["pad_token"]], "add_bos_token": True}
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items()} | {"tokenizer.chat_template": config["chat_template"]}


def llama_keys(config):
    return {"general.architecture": "llama", "general.type": "model", "general.name": "test",
            "llama.block_count": config["num_hidden_layers"], "llama.context_length": config["max_position_embeddings"],
            "llama.embedding_length": config["hidden_size"], "llama.feed_forward_length": config["intermediate_size"],
            "llama.attention.head_count": config["num_attention_heads"],
            "llama.attention.head_count_kv": config["num_key_value_heads"],
            "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], "llama.rope.dimension_count": config["head_dim"],
            "llama.rope.freq_base": config["rope_parameters"]["rope_theta"], "llama.attention.key_length": config["head_dim"],
            "llama.attention.value_length": config["head_dim"], "llama.vocab_size": config["vocab_size"]}


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack_from("<Q", data)
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield name, entry["shape"], data[8 + length + begin:8 + length + end]


def of_llama(folder, kind="BF16", embedding=None):
    """The checkpoint of a folder as a Writer. `kind`: of the layers' matrices; `embedding`: of the embedding, if it differs.
    The demo models' pre-tokenizer is Qwen2's, and their eos tokens are two."""
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    writer = Writer().add(llama_keys(config)).add(tokenizer_keys(folder, "qwen2"))
    eos = config["eos_token_id"]
    if isinstance(eos, list):
        writer.add({"tokenizer.ggml.eos_token_id": eos[0], "tokenizer.ggml.eot_token_id": eos[1]})
    for name, shape, data in read_safetensors(folder / "model.safetensors"):
        if name in GLOBAL_NAMES:
            new = GLOBAL_NAMES[name]
        else:
            _, _, layer, rest = name.split(".", 3)
            new = f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"
        if "q_proj" in name or "k_proj" in name:
            data = interleaved(data, shape[0], config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"])
        its = "F32" if len(shape) == 1 else embedding or kind if "embed" in name else kind
        writer.tensor(new, its, shape, encode(its, data))
    return writer


def split(writer, folder, stem, count):
    """Writes the model as `count` parts; returns the path of the first."""
    for i in range(count):
        part = Writer(**{"split.no": i, "split.count": count})
        if i == 0:
            part.add(writer.keys | {"split.tensors.count": len(writer.tensors)})
        part.tensors = writer.tensors[i::count]
        part.write(pathlib.Path(folder) / f"{stem}-{i + 1:05}-of-{count:05}.gguf")
    return pathlib.Path(folder) / f"{stem}-00001-of-{count:05}.gguf"
