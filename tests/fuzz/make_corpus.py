#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus that are made from goldens and models. Seeds that were added by hand or by a crash
stay as they are. Run it where these change: tests/fuzz/make_corpus.py"""
import json
import re
import struct
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/e2e"))
from gguf_files import Writer  # noqa: E402
CORPUS = SOURCE / "tests/fuzz/corpus"
GOLDEN = SOURCE / "tests/golden"


def write(target, name, *parts):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    data = b"\n%%%\n".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    (folder / name).write_bytes(data)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def header_of(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


def safetensors():
    """The number of data bytes, a line end, the header: see safetensors_fuzz.cpp."""
    header = header_of(GOLDEN / "models/llama_gqa4/model.safetensors")
    some = {name: header[name] for name in sorted(header, key=lambda n: header[n].get("data_offsets", [0])[0])[:4]}
    size = max(entry["data_offsets"][1] for name, entry in some.items() if name != "__metadata__")
    write("safetensors", "golden", f"{size}\n{compact(some)}")
    write("safetensors", "padded", '16\n{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}       ')
    write("safetensors", "unknown_dtype", '8\n{"__metadata__":{"format":"pt"},"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}}')
    write("safetensors", "scalar_and_empty", '8\n{"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},'
                                             '"e":{"dtype":"U8","shape":[0,7],"data_offsets":[8,8]}}')
    text = b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
    write("safetensors", "whole_file", struct.pack("<Q", len(text)) + text + b"ab")


def checkpoint():
    index = compact({"metadata": {"total_size": 24}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})
    for name in ("llama_gqa4", "llama_llama3", "llama_linear", "mistral", "qwen2", "qwen2_yarn", "qwen3"):
        folder = GOLDEN / "models" / name
        config = compact(json.loads((folder / "config.json").read_text()))
        generation = compact(json.loads((folder / "generation_config.json").read_text()))
        write("checkpoint", name, config, generation, index if name in ("llama_linear", "qwen2") else "")
    for i, case in enumerate(json.loads((GOLDEN / "configs.json").read_text())[::4]):
        write("checkpoint", f"config_{i}", compact(case["config"]), '{"temperature":0.7,"top_k":20,"top_p":0.8,"do_sample":true}', "")


def gguf_model(arch, kind, columns, tensors, **keys):
    """The beginning of a GGUF file with one layer of that many columns; gguf_fuzz.cpp adds the data."""
    common = {"block_count": 1, "context_length": 64, "embedding_length": columns, "feed_forward_length": columns,
              "attention.head_count": 2}
    writer = Writer(**{"general.architecture": arch}).add({f"{arch}.{key}": value for key, value in (common | keys).items()})
    block, size = {"F32": (1, 4), "F16": (1, 2), "Q8_0": (32, 34), "Q4_1": (32, 20), "Q6_K": (256, 210)}[kind]
    for name, rows in tensors.items():
        shape = [columns] if rows is None else [rows, columns]
        data = bytes(4 * columns if rows is None else rows * columns // block * size)
        writer.tensor(name, "F32" if rows is None else kind, shape, data)
    return writer


def llama_tensors(columns, vocab=8):
    half = columns // 2
    return {"token_embd.weight": vocab, "output_norm.weight": None, "blk.0.attn_norm.weight": None, "blk.0.attn_q.weight": columns,
            "blk.0.attn_k.weight": half, "blk.0.attn_v.weight": half, "blk.0.attn_output.weight": columns,
            "blk.0.ffn_norm.weight": None, "blk.0.ffn_gate.weight": columns, "blk.0.ffn_up.weight": columns,
            "blk.0.ffn_down.weight": columns}


def gguf_seed(name, writer):
    data = writer.bytes(with_data=False)
    assert len(data) < 4096, f"{name}: {len(data)} bytes, more than scripts/fuzz.sh reads"
    write("gguf", name, data)


def gguf():
    llama = {"attention.head_count_kv": 1, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 10000.0}
    words = {"tokens": ["<s>", "a", "b", "c", "ab", "\u0120a", "\u0120", "d"], "token_type": [3, 1, 1, 1, 1, 1, 1, 4]}
    merges = words | {"model": "gpt2", "pre": "llama-bpe", "merges": ["a b", "\u0120 a"], "bos_token_id": 0}
    pieces = {"model": "llama", "tokens": ["<unk>", "<s>", "</s>", "<0x41>", "\u2581", "a", "\u2581a", "b"],
              "token_type": [2, 3, 3, 6, 1, 1, 1, 1], "scores": [0.0, 0.0, 0.0, 0.0, -3.0, -2.0, -1.0, -4.0]}
    keys = lambda of: {f"tokenizer.ggml.{key}": value for key, value in of.items()}
    gguf_seed("llama_f16", gguf_model("llama", "F16", 32, llama_tensors(32), **llama).add(keys(merges)))
    gguf_seed("llama_q8_0", gguf_model("llama", "Q8_0", 32, llama_tensors(32), **llama).add(keys(pieces)))
    gguf_seed("llama_q6_k", gguf_model("llama", "Q6_K", 256, llama_tensors(256), **llama).add(
        {"tokenizer.chat_template": "{{ bos_token }}"}))
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}
    biases = {f"blk.0.attn_{part}.bias": None for part in "qkv"}
    gguf_seed("qwen2_q4_1", gguf_model("qwen2", "Q4_1", 32, llama_tensors(32) | biases, **llama, **yarn).add(
        keys(merges | {"pre": "qwen2"})))
    gguf_seed("qwen3_f32", gguf_model("qwen3", "F32", 32, llama_tensors(32), **llama, **{"attention.key_length": 16}))
    gguf_seed("gpt2_f32", gguf_model("gpt2", "F32", 32, {
        "token_embd.weight": 8, "position_embd.weight": 64, "output_norm.weight": None, "output_norm.bias": None,
        **{f"blk.0.{norm}.{part}": None for norm in ("attn_norm", "ffn_norm") for part in ("weight", "bias")},
        "blk.0.attn_qkv.weight": 96, "blk.0.attn_output.weight": 32, "blk.0.ffn_up.weight": 32, "blk.0.ffn_down.weight": 32,
        **{f"blk.0.{part}.bias": None for part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down")}},
        **{"attention.layer_norm_epsilon": 1e-5}).add(keys(merges | {"pre": "gpt-2"})))
    gguf_seed("many_types", Writer(a=True, b=-0.5, c=[1.5], d=["x", ""], e=[True], f=7).tensor("t", "Q8_0", [2, 32], bytes(68)))


def small(document):
    """A tokenizer with a vocabulary of a few letters: mutations shall hit the rest of the file."""
    model = document["model"]
    keep = [t for t in model["vocab"] if len(t) == 1 and t in "abc ĠĊ▁12'éÃ©"] + ["<unk>", "<s>", "</s>", "<0x41>", "<0xC3>"]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(keep + ["ab", "bc", "abc"]))}
    return {**document, "model": {**model, "vocab": vocab, "merges": ["a b", "b c", "ab c"]}}


def tokenizer():
    text = "Anna's ab 12 <s>abc</s>  \n é e\u0301 \u2167 \u4e2d\U0001f600 <|x|>"
    for name in ("demo_style", "llama2_style", "llama3_style", "qwen_style"):
        folder = GOLDEN / "tokenizer" / name
        document = small(json.loads((folder / "tokenizer.json").read_text()))
        document["added_tokens"] = document["added_tokens"][:3]
        write("tokenizer", name, compact(document), text, (folder / "tokenizer_config.json").read_text())
    base = small(json.loads((GOLDEN / "tokenizer/components/tokenizer.json").read_text()))
    seen = set()
    for variant in json.loads((GOLDEN / "tokenizer/components/variants.json").read_text()):
        kind = variant["name"].split()[0] + "".join(variant["patch"])
        if kind in seen:
            continue
        seen.add(kind)
        patch = {key: value for key, value in variant["patch"].items() if key != "model"}
        write("tokenizer", "_".join(re.findall("[a-z0-9]+", variant["name"].lower()))[:40], compact({**base, **patch}), text, "")


TOYS = """  device = toy_device {},
  model = toy_model { path = 'm', max_model_len = 2048 / 2 },
  attention = toy_attention { block_size = 16 },
  scheduler = toy_scheduler { policy = 'shortest', weight = 0.25, classes = { 'a', 'b' } },
  proposer = toy_proposer {},
  kv_cache = { memory = '1.5GiB', dtype = 'bf16', prefix_cache = true },
  speculation = { verify = 'rejection', lengths = 'fixed' },
"""


def pipeline():
    write("pipeline", "plain", f"return pipeline {{\n{TOYS}}}\n")
    write("pipeline", "named", f"local p = pipeline {{\n{TOYS}}}\nreturn {{ default = p, exact = p }}\n")
    write("pipeline", "callbacks", """function chat_template(messages)
  local text = {}
  for i, m in ipairs(messages) do text[#text + 1] = ('<%s>%s'):format(m.role, m.content:lower()) end
  return table.concat(text, '\\n')
end
function on_request(request)
  if request.user == 'vip' then return { priority = -1, group = 'g', proposer = 'none' } end
end
return pipeline {
""" + TOYS + "}\n")
    write("pipeline", "library", """local t = setmetatable({}, { __index = function(t, k) return k end, __len = function() return 3 end })
local u = { table.unpack({ 3, 1, 2 }) } table.sort(u) table.insert(u, 1, 0) table.remove(u) table.move(u, 1, 2, 2)
local s = ('x,y'):rep(3, ';') for i = 1, #s do t[s:sub(i, i)] = s:byte(i) end
pcall(error, 'x') xpcall(error, tostring, {}) local f = load('return ...', 'c', 't', {}) select('#', f(1, 2))
string.pack('<i4z', 7, 'a') utf8.char(228) os.time() os.date('%Y') math.floor(2.5) tostring(t[1]) ('%s'):format(s:upper())
local x <close> = setmetatable({}, { __close = function() end }) goto done ::done::
return pipeline {
""" + TOYS + "}\n")
    write("pipeline", "file", "local f = io.open('a.txt') or io.lines\nreturn pipeline { device = plugin('./x.so') {} }\n")


def requests():
    ids = [[5, 6, 7, 8]]
    write("requests", "completion", "c\n" + compact({
        "model": "m", "prompt": "Once upon", "max_tokens": 6, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "n": 2,
        "seed": -1, "stop": ["a", "b"], "logit_bias": {"5": -2.5}, "stop_token_ids": [1, 2], "ignore_eos": True, "min_tokens": 1,
        "presence_penalty": 1, "frequency_penalty": 0.25, "repetition_penalty": 1.5, "logprobs": 2, "echo": True,
        "return_token_ids": True, "priority": 3, "group": "g", "choices": ["x", "y"], "add_special_tokens": False,
        "speculation": {"proposer": "none", "max_tokens": 2}, "stream_options": {"include_usage": True}}))
    write("requests", "lm_eval", "c\n" + compact({"model": "m", "prompt": ids, "temperature": 0, "max_tokens": 1, "logprobs": 1,
                                                  "seed": 1234, "echo": True}))
    write("requests", "prompts", "c\n" + compact({"prompt": ["a", "b"], "stop": None, "n": 1}))
    write("requests", "chat", "h\n" + compact({
        "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": "y"}]}],
        "max_completion_tokens": 5, "logprobs": True, "top_logprobs": 2, "stop": "x"}))
    write("requests", "resumed", "c1~mortise-0~a036~1795562216~a~0~ac071212c73282d0~1-1\n" + compact({
        "prompt": [5, 6], "seed": 10, "max_tokens": 8, "stream": True, "resume_token_ids": [7],
        "stream_options": {"include_usage": True, "continuous_usage_stats": True, "include_event_ids": True}}))
    write("requests", "empty_prompt", "c\n" + compact({"prompt": "", "add_special_tokens": False, "stream": True}))
    write("requests", "predicted", "c\n" + compact({"prompt": "a", "prediction": {"type": "content", "content": "b c"}}))
    write("requests", "decisions", "d\n" + compact({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}],
        "questions": [{"type": "predicate", "instructions": "b"},
                      {"type": "choice", "instructions": "c", "choices": [{"value": "d"}, {"value": True, "description": "e"}]},
                      {"type": "score", "instructions": "f", "levels": [{"label": "g"}, {"label": "h"}]}]}))
    write("requests", "score", "s\n" + compact({"id": "q", "prompt": "Q:", "completions": [" 5", [7, 8]]}))
    write("requests", "score_nothing", "s\n" + compact({"prompt": [5], "completions": []}))


def plugin_file():
    """A shared object of header, program header, three section headers, two symbols and their names."""
    names = b"\0mortise_plugin_entry_v0\0helper\0"
    symbols = b"".join(struct.pack("<IBBHQQ", names.index(name), 0x12, 0, 1, 0, 0) for name in (b"mortise", b"helper"))
    begin = 64 + 56 + 3 * 64
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, 64 + 56, 0, 64, 56, 1, 64, 3, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, begin, begin, 4096)
    section = lambda kind, offset, size, link, entry: struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link, 0, 8, entry)
    sections = section(0, 0, 0, 0, 0) + section(11, begin, len(symbols), 2, 24) + section(3, begin + len(symbols), len(names), 0, 0)
    write("plugin_file", "tiny", header + segment + sections + symbols + names)
    write("plugin_file", "header", header)
    write("plugin_file", "text", "#!/bin/sh\n")


def plugin_index():
    """A letter for the file, and the file: see plugin_index_fuzz.cpp."""
    part = {"name": "suffix", "kind": "proposer", "summary": "s", "numerics": ["a/1"]}
    of_all = {"id": "a.b", "version": "1.0", "abi": "0.6", "platform": "linux-x86_64", "parts": [part]}
    write("plugin_index", "entry", "e" + compact({
        "format": "mortise-plugin/1", **of_all, "vendor": "v", "license": "MIT", "file": "x.so", "size": 1, "sha256": "0" * 64,
        "check": {"mortise": "0.1", "level": "quick", "passed": 1, "not_applicable": 0, "options": {}}}))
    write("plugin_index", "index", "i" + compact({"format": "mortise-index/1", "plugins": [{"entry": "x.json", **of_all}] * 2}))
    write("plugin_index", "signature", "s" + compact({"format": "mortise-signature/1", "key": "0" * 32, "signature": "A" * 86 + "=="}))
    write("plugin_index", "key", "k-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA/FHNjmIYoaONpH7QAjDwWAgW7RO6MwOsXeuRFUiQgCU=\n"
                                 "-----END PUBLIC KEY-----\n")


for make in (safetensors, checkpoint, gguf, tokenizer, pipeline, requests, plugin_file, plugin_index):
    make()
