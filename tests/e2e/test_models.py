"""The models beside llama through the whole program: opt and gpt2 on their golden models."""
import json
import shutil
import struct

import pytest

from conftest import SOURCE, run_mortise

GOLDEN = SOURCE / "tests/golden/models"
MODELS = ["opt", "opt_projected", "opt_plain", "gpt2", "gpt2_variant"]


def expected(name):
    """What transformers computed: the tensors of expected.safetensors that are lists."""
    data = (GOLDEN / name / "expected.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])

    def values(tensor, code):
        begin, end = header[tensor]["data_offsets"]
        return [value for (value,) in struct.iter_unpack("<" + code, data[8 + size + begin:8 + size + end])]

    return values("prompt", "q"), values("greedy", "q"), values("greedy_logprobs", "f")


def checkpoint(folder, name, vocab_size, bos=None):
    """The golden model with a tokenizer that has a word for each id, and maybe puts one in front as OPT's does."""
    target = folder / name
    shutil.copytree(GOLDEN / name, target)
    post = None
    if bos is not None:
        post = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"</s>": {"id": "</s>", "ids": [bos], "tokens": ["</s>"]}}}
    vocab = {"</s>" if i == bos else chr(0x4e00 + i): i for i in range(vocab_size)}
    (target / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None, "decoder": None, "post_processor": post,
        "added_tokens": [] if bos is None else [{"id": bos, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False,
                                                 "normalized": False, "special": True}],
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}))
    (target / "tokenizer_config.json").write_text("{}")
    return target


def vocab_size(name):
    return json.loads((GOLDEN / name / "config.json").read_text())["vocab_size"]


def pipeline_of(script, path, plugin, options=""):
    return script(f"return pipeline {{ device = cpu {{ threads = 2 }}, model = {plugin} {{ path = '{path}'{options} }}, "
                  "attention = paged {}, scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }")


def body(**fields):
    return {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"temperature": 0, "ignore_eos": True, "logprobs": 0, **fields}}


@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_of_ids_goes_on_as_transformers_says(name, jsonl, script, tmp_path):
    prompt, greedy, logprobs = expected(name)
    pipeline = pipeline_of(script, checkpoint(tmp_path, name, vocab_size(name)), name.split("_")[0])
    process, (answer,) = jsonl("batch", [body(prompt=prompt, max_tokens=64, return_token_ids=True)], pipeline)
    assert process.returncode == 0, process.stderr
    choice = answer["response"]["body"]["choices"][0]
    assert choice["token_ids"] == greedy
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(logprobs, abs=2e-4)


def test_the_token_in_front_is_the_tokenizers(jsonl, script, tmp_path):
    folder = checkpoint(tmp_path, "opt", vocab_size("opt"), bos=2)
    text = "".join(chr(0x4e00 + i) for i in (7, 40, 12))
    lines = [body(prompt=prompt, max_tokens=8, return_token_ids=True) for prompt in (text, [2, 7, 40, 12], [7, 40, 12])]
    for i, line in enumerate(lines):
        line["custom_id"] = str(i)
    process, answers = jsonl("batch", lines, pipeline_of(script, folder, "opt"))
    assert process.returncode == 0, process.stderr
    from_text, with_bos, without = [answer["response"]["body"]["choices"][0]["logprobs"]["token_logprobs"] for answer in answers]
    assert from_text == with_bos != without


@pytest.mark.parametrize("name, key, value, text", [
    ("opt", "activation_function", "quick_gelu", "activation_function 'quick_gelu' is not supported; expected one of relu, gelu"),
    ("gpt2", "scale_attn_by_inverse_layer_idx", True, "scale_attn_by_inverse_layer_idx true"),
])
def test_what_is_not_served_is_named(name, key, value, text, script, tmp_path):
    folder = checkpoint(tmp_path, name, vocab_size(name))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    process = run_mortise("check", pipeline_of(script, folder, name))
    assert process.returncode != 0
    assert text in process.stderr + process.stdout


def test_a_length_without_positions_is_refused(script, tmp_path):
    folder = checkpoint(tmp_path, "gpt2", vocab_size("gpt2"))
    process = run_mortise("check", pipeline_of(script, folder, "gpt2", ", max_model_len = 513"))
    assert process.returncode != 0
    assert "513 is more than the checkpoint's max_position_embeddings 512" in process.stderr + process.stdout
