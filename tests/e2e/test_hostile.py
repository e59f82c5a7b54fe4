"""Checkpoints, scripts and requests that want too much end in one message, or in an answer, and never in a crash or a wait."""
import json
import shutil

import pytest
from conftest import SOURCE

DEEP = "[" * 1_000_000


@pytest.fixture
def changed_demo(tmp_path):
    """changed_demo(file, {key: value}) -> the demo model's folder with other values in one of its JSON files."""
    def change(name, values):
        folder = shutil.copytree(SOURCE / "models/demo", tmp_path / "demo", dirs_exist_ok=True)
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
        return folder
    return change


@pytest.mark.parametrize("values,text", [
    ({"num_hidden_layers": 2**40}, "num_hidden_layers is 1099511627776; expected an integer from 1 to 4096"),
    ({"num_hidden_layers": 4096}, "the checkpoint has no such tensor"),
    ({"head_dim": 0}, "head_dim is 0; expected an integer from 1 to 4096"),
    ({"head_dim": -2}, "head_dim is -2"),
    ({"head_dim": 1.5}, "head_dim is 1.5"),
    ({"hidden_size": 2**22}, "expected [4096, 4194304] according to config.json"),
    ({"hidden_size": 2**31}, "hidden_size is 2147483648; expected an integer from 1 to 4194304"),
    ({"intermediate_size": 2**63}, "intermediate_size is 9223372036854775808"),
    ({"num_attention_heads": 0}, "num_attention_heads is 0"),
    ({"num_key_value_heads": 7}, "num_key_value_heads is 7"),
    ({"vocab_size": 0}, "vocab_size is '0'; expected a whole number from 1 to 2147483647"),
    ({"vocab_size": 2**22}, "found shape [4096, 256], expected [4194304, 256]"),
    ({"max_position_embeddings": 2**31 - 1}, "max_position_embeddings is 2147483647; expected an integer from 1 to 16777216"),
    ({"rope_parameters": {"rope_theta": 0}}, "rope_theta is 0; expected a number from 1.0 to 1e+15"),
    ({"rope_parameters": {"rope_theta": 1e300}}, "rope_theta is 1e+300"),
    ({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "factor is 0; expected a number from 1.0"),
    ({"rms_norm_eps": -1e-6}, "rms_norm_eps is -1e-06"),
    ({"rms_norm_eps": float("nan")}, "config.json: not JSON: parse error"),
    ({"eos_token_id": list(range(5000))}, "eos_token_id lists 5000 token ids"),
    ({"model_type": "llama" * 100_000}, "llamallama"),
])
def test_absurd_configurations_are_refused(mortise, pipeline, changed_demo, values, text):
    process = mortise("run", pipeline(path=changed_demo("config.json", values)), "-p", "x")
    assert process.returncode == 1
    assert text in process.stderr
    assert len(process.stderr) < 2000


def test_a_model_larger_than_the_memory_is_refused_with_the_numbers(mortise, pipeline, changed_demo):
    # A file of 2 TiB that is a hole, with the shapes that its configuration calls for.
    sizes = {"num_hidden_layers": 64, "hidden_size": 65536, "intermediate_size": 65536, "num_attention_heads": 64,
             "num_key_value_heads": 64, "head_dim": 1024, "vocab_size": 4096}
    folder = changed_demo("config.json", {**sizes, "torch_dtype": "bfloat16", "dtype": "bfloat16"})
    shapes = {f"model.layers.{i}.{name}_proj.weight": [65536, 65536] for i in range(64)
              for name in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o")}
    header, end = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end := end + 2 * shape[0] * shape[1]]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    process = mortise("run", pipeline(path=folder, memory="1GiB"), "-p", "x")
    assert process.returncode == 1
    assert "its weights take 2048.0 GiB in bf16, and device 'cpu' has" in process.stderr


@pytest.mark.parametrize("name,values", [
    ("config.json", {"max_position_embeddings": 2**24}),  # a table of all positions would take minutes and 2 GiB
    ("generation_config.json", {"eos_token_id": 2**31 - 1}),  # no such token
])
def test_claims_that_do_no_harm_are_taken(jsonl, pipeline, changed_demo, name, values):
    body = {"prompt": [5, 6], "max_tokens": 3, "min_tokens": 2}
    process, answers = jsonl("batch", [{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": body}],
                             pipeline(path=changed_demo(name, values)))
    assert process.returncode == 0, process.stderr + json.dumps(answers)


@pytest.mark.parametrize("memory", ["1000000GiB", "1152921504606846976"])
def test_a_kv_cache_of_exabytes_is_refused_with_the_numbers(mortise, pipeline, memory):
    process = mortise("run", pipeline(memory=memory), "-p", "Once", "--max-tokens", "2")
    assert process.returncode == 1
    assert "GiB of KV cache and 0.0 GiB of weights do not fit the" in process.stderr
    assert "GiB of memory of device 'cpu'; lower kv_cache.memory" in process.stderr


def test_a_shard_list_that_leads_out_of_the_folder(mortise, pipeline, changed_demo):
    folder = changed_demo("config.json", {})
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../../etc/passwd"}}')
    process = mortise("run", pipeline(path=folder), "-p", "x")
    assert process.returncode == 1 and "names the shard '../../etc/passwd'" in process.stderr


@pytest.mark.parametrize("command", ["batch", "score"])
def test_a_line_nested_a_million_deep_is_a_bad_line(jsonl, command):
    good = {"batch": {"custom_id": "g", "method": "POST", "url": "/v1/score", "body": {"prompt": [5], "completions": [[6]]}},
            "score": {"prompt": [5], "completions": [[6]]}}[command]
    fields = ["prompt", "completions", "custom_id", "id", "method", "url", "body", "model"]
    lines = [DEEP, "{" + '"a":{' * 1_000_000] + [f'{{"{field}":{DEEP + DEEP.replace("[", "]")}}}' for field in fields]
    process, answers = jsonl(command, [*lines, good])
    assert process.returncode == 1
    assert len(answers) == len(lines) + 1
    for number, answer in enumerate(answers[:-1], 1):
        assert answer["error"]["line"] == number
        assert "JSON is nested deeper than 100 levels" in answer["error"]["message"]
    assert answers[-1].get("error") is None


def test_a_body_that_asks_for_too_much_is_refused(jsonl):
    many = {"prompt": [[5]] * 20_000, "max_tokens": 1}
    copies = {"prompt": [5] * 100_000, "completions": [[6]] * 10_000}
    process, answers = jsonl("batch", [{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": many},
                                       {"custom_id": "b", "method": "POST", "url": "/v1/score", "body": copies}])
    assert process.returncode == 1
    texts = [answer["response"]["body"]["error"]["message"] for answer in answers]
    assert "asks for 20000 choices (20000 prompts, n = 1); at most 16384 are allowed" in texts[0]
    assert "prompt of 100000 tokens exceeds the model's length of 2048" in texts[1]  # not refused for its amount: completions share one copy of the prompt


@pytest.fixture
def slow_decoder(changed_demo):
    """The demo model with a token whose text the decoder's expression cannot deal with: id 4095."""
    folder = changed_demo("config.json", {})
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    replace = {"type": "Replace", "pattern": {"Regex": "(?:a|a)*[bc]"}, "content": "x"}
    tokenizer["decoder"] = {"type": "Sequence", "decoders": [replace, tokenizer["decoder"]]}
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a" * 60] = vocabulary.pop(next(text for text, token in vocabulary.items() if token == 4095))
    tokenizer["model"]["merges"] = []
    path.write_text(json.dumps(tokenizer))
    return folder


def test_a_text_that_cannot_be_decoded_ends_its_own_request_alone(jsonl, pipeline, slow_decoder):
    bodies = {"good": {"prompt": [5, 6]}, "prompt": {"prompt": [5, 4095]}, "drawn": {"prompt": [7], "logit_bias": {"4095": 100}},
              "echoed": {"prompt": [4095, 5], "echo": True}, "scored": {"prompt": [5, 4095, 6], "echo": True, "logprobs": 1},
              "beside": {"prompt": [8, 9]}}
    lines = [{"custom_id": name, "method": "POST", "url": "/v1/completions", "body": {"max_tokens": 3, **body}}
             for name, body in bodies.items()]
    process, answers = jsonl("batch", lines, pipeline(path=slow_decoder))
    assert process.returncode == 1, process.stderr
    status = {answer["custom_id"]: answer["response"]["status_code"] for answer in answers}
    assert status["good"] == status["beside"] == 200, answers
    assert status["prompt"] == 400 and {status["drawn"], status["echoed"], status["scored"]} <= {400, 500}
    for answer in answers:
        if answer["response"]["status_code"] != 200:
            assert "tokenizer.json" in answer["response"]["body"]["error"]["message"], answer
