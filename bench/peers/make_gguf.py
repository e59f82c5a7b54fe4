#!/usr/bin/env python3
"""A Llama checkpoint of `mortise bench --save-model` as a GGUF in bf16, with llama.cpp's gguf-py alone: no torch, no transformers.
usage: make_gguf.py LLAMA_CPP_DIR MODEL_DIR OUT.gguf
The scaling of rope is left out: it changes no speed, and random weights have no text that could become worse."""
import json
import struct
import sys
from pathlib import Path

import numpy as np

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GLOBAL_NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                "lm_head.weight": "output.weight"}


def tensors(path):
    """(name, bf16 bits as uint16 in the tensor's shape) of a safetensors file."""
    data = np.memmap(path, np.uint8, "r")
    length, = struct.unpack("<Q", data[:8].tobytes())
    for name, entry in json.loads(data[8:8 + length].tobytes()).items():
        assert entry["dtype"] == "BF16", f"{name}: {entry['dtype']}; only what --save-model writes is read"
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        yield name, data[begin:end].view(np.uint16).reshape(entry["shape"])


def gguf_name(name):
    if name in GLOBAL_NAMES:
        return GLOBAL_NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def interleaved(rows, num_heads):
    """llama.cpp's order of rope pairs: (0, 1), (2, 3) ... where Hugging Face has (0, n/2), (1, n/2 + 1) ..."""
    return rows.reshape(num_heads, 2, rows.shape[0] // num_heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def add_tokenizer(writer, gguf, model):
    vocab = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    kinds = {"<unk>": gguf.TokenType.UNKNOWN, "<s>": gguf.TokenType.CONTROL, "</s>": gguf.TokenType.CONTROL}
    types = [kinds.get(token, gguf.TokenType.BYTE if token.startswith("<0x") else gguf.TokenType.UNUSED) for token in tokens]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_bos_token_id(vocab["<s>"])
    writer.add_eos_token_id(vocab["</s>"])
    writer.add_add_bos_token(False)


def main(root, model, out):
    sys.path.insert(0, str(Path(root) / "gguf-py"))
    import gguf
    model = Path(model)
    config = json.loads((model / "config.json").read_text())
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    add_tokenizer(writer, gguf, model)
    for name, bits in tensors(model / "model.safetensors"):
        if bits.ndim == 1:
            writer.add_tensor(gguf_name(name), (bits.astype(np.uint32) << 16).view(np.float32))
            continue
        if "q_proj" in name or "k_proj" in name:
            bits = interleaved(bits, config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"])
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(bits).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
