"""A checkpoint's folder in the place of a script, and what else `run` takes on the command line."""
# Covers: runtime/assembly/{default_parts,default_script} runtime/cli/{prompt,run,session}
import json
import shutil

import pytest

from conftest import SOURCE

DEMO = SOURCE / "models/demo"
ONE = ("-p", "Once upon a time", "--max-tokens", 12, "--seed", 3, "--temperature", 0.8, "--json")


@pytest.fixture
def checkpoint(tmp_path):
    """checkpoint(without=[...], config={...}) -> a copy of the demo's folder, with changes."""
    def make(name="model", without=(), config=None):
        folder = tmp_path / name
        folder.mkdir()
        for file in DEMO.iterdir():
            if file.name not in without:
                shutil.copy(file, folder)
        if config:
            path = folder / "config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
        return folder
    return make


def test_the_printed_script_is_what_a_folder_runs(mortise, tmp_path):
    printed = mortise("run", "--print-script", DEMO)
    assert printed.returncode == 0 and printed.stderr == ""
    script = tmp_path / "mine.lua"
    script.write_text(printed.stdout)
    of_folder, of_script = (json.loads(mortise("run", what, *ONE).stdout) for what in (DEMO, script))
    assert of_folder["tokens"] == of_script["tokens"] and len(of_folder["tokens"]) > 3
    assert of_folder["system_fingerprint"] == of_script["system_fingerprint"]
    assert of_folder["system_fingerprint"] == json.loads(mortise("run", *ONE).stdout)["system_fingerprint"]


def test_every_command_takes_a_folder(mortise, jsonl, tmp_path):
    assert mortise("check", DEMO).stdout.startswith("pipeline demo\n")
    process, answers = jsonl("score", [{"prompt": "The sky is", "completions": [" blue"]}], DEMO)
    assert process.returncode == 0 and len(answers) == 1
    log = tmp_path / "requests.log"
    body = {"prompt": "Once", "max_tokens": 4}
    line = {"custom_id": "1", "url": "/v1/completions", "body": body}
    process, answers = jsonl("batch", [line], DEMO, "--record", log, "--overwrite")
    assert process.returncode == 0 and answers[0]["response"]["status_code"] == 200
    assert mortise("replay", log, DEMO).returncode == 0


def test_a_folder_with_a_dot_in_its_name_and_a_slash_behind_it(mortise, checkpoint):
    folder = checkpoint("Demo-3.2-1B")
    assert mortise("check", f"{folder}/").stdout.startswith("pipeline Demo-3.2-1B\n")


def test_folders_that_are_no_checkpoint_say_what_is_missing(mortise, checkpoint, tmp_path):
    def error(what):
        process = mortise("run", what, "-p", "x")
        assert process.returncode == 1 and process.stderr.count("\n") == 1
        return process.stderr

    assert "has no config.json, so it is not a Hugging Face checkpoint" in error(tmp_path)
    assert "has no tokenizer.json; download it with the checkpoint" in error(checkpoint("a", ["tokenizer.json"]))
    text = error(checkpoint("b", config={"model_type": "gemma9", "architectures": ["Gemma9ForCausalLM"]}))
    assert "no model plugin supports a checkpoint of model type 'gemma9' (Gemma9ForCausalLM); " in text
    assert "is not one of llama, mistral, qwen2, qwen3" in text and "opt: " in text and "gpt2: " in text
    gguf = checkpoint("c", ["model.safetensors"])
    (gguf / "model.Q4.gguf").write_bytes(b"GGUF")
    assert "is no Hugging Face checkpoint, but has 'model.Q4.gguf'; give the path of that file" in error(gguf)
    (gguf / "config.json").unlink()
    assert "but has 'model.Q4.gguf'; give the path of that file" in error(gguf)
    assert "model.Q4.gguf: 4 bytes, but the version at byte 4" in error(gguf / "model.Q4.gguf")
    pickle = checkpoint("d", ["model.safetensors"])
    (pickle / "pytorch_model.bin").write_bytes(b"x")
    assert "weights in pickle files (.bin, .pth, .pt) are not supported: load" in error(pickle)
    assert "weights in pickle files (.bin, .pth, .pt) are not supported; load the model with transformers, save it" in (
        error(pickle / "pytorch_model.bin"))
    assert "is a file of a checkpoint; give the folder that contains it" in error(DEMO / "config.json")
    assert "no such script, and not a checkpoint's folder; check the path" in error(tmp_path / "nothing")


def test_print_script_wants_a_folder(mortise):
    for args in ([], [SOURCE / "scripts/demo.lua"]):
        process = mortise("run", "--print-script", *args)
        assert process.returncode == 2 and "--print-script needs a checkpoint: mortise run" in process.stderr


def test_a_prompt_from_standard_input(mortise):
    told = mortise("run", "-p", "Once upon a time", "--max-tokens", 8, "--temperature", 0)
    read = mortise("run", "-p", "-", "--max-tokens", 8, "--temperature", 0, stdin="Once upon a time\n")
    assert read.returncode == 0 and read.stdout == told.stdout


def test_one_message_through_the_chat_template(mortise):
    process = mortise("run", "--chat", "-p", "What is 12 + 30?", "--temperature", 0)
    assert process.returncode == 0 and process.stdout.strip() == "12 + 30 = 42"


def test_several_choices_are_those_of_a_request_with_n(mortise, jsonl):
    args = ("-p", "Once upon a time", "--max-tokens", 6, "--seed", 5, "--temperature", 1)
    process = mortise("run", *args, "-n", 3)
    texts = [choice["text"] for choice in json.loads(mortise("run", *args, "-n", 3, "--json").stdout)]
    assert process.stdout == "".join(f"--- choice {i + 1} of 3 ---\n{text}\n" for i, text in enumerate(texts))
    assert process.stderr.count("choice ") == 3
    _, answers = jsonl("batch", [{"custom_id": "1", "url": "/v1/completions", "body": {
        "prompt": "Once upon a time", "max_tokens": 6, "seed": 5, "temperature": 1, "n": 3}}])
    assert [choice["text"] for choice in answers[0]["response"]["body"]["choices"]] == texts
    assert mortise("run", *args).stdout == texts[0] + "\n"  # one choice has no line of its own


def test_one_token_is_not_one_tokens(mortise):
    process = mortise("run", "-p", "Once upon a time", "--max-tokens", 1)
    assert process.stderr.startswith("1 token, ")


def test_a_prompt_over_the_models_own_length_is_not_told_to_raise_it(mortise):
    process = mortise("run", "-p", "one two three " * 2000)
    assert "exceeds the model's length of 2048; shorten it\n" in process.stderr


def test_batch_refuses_what_it_does_not_serve_and_names_what_it_does_not_know_once(jsonl):
    def line(**body):
        return {"custom_id": "1", "url": "/v1/chat/completions", "body": {
            "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, **body}}
    process, answers = jsonl("batch", [
        line(tools=[{"type": "function", "function": {"name": "f"}}]), line(messages=[{"role": "wizard", "content": "x"}]),
        line(tempreature=0), line(tempreature=1, tool_choice="none", tools=[])])
    assert [a["response"]["status_code"] for a in answers] == [400, 400, 200, 200]
    assert answers[0]["response"]["body"]["error"]["message"].startswith("tools is not supported")
    assert "role 'wizard' is not one of" in answers[1]["response"]["body"]["error"]["message"]
    assert process.stderr.count("unknown fields are ignored: tempreature (did you mean 'temperature'?)") == 1
