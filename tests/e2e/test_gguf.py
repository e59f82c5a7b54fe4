"""GGUF files wherever a checkpoint is taken. The demo models written as GGUF must give what their folders give, to the bit."""
import json
import re
import struct

import pytest

import gguf_files
from conftest import SOURCE, run_mortise
from live_server import live_server

DEMO, DRAFT = SOURCE / "models/demo", SOURCE / "models/demo-draft"
PROMPT = "Once upon a time"
GREEDY = ("--temperature", "0", "--max-tokens", "24", "--json", "--logprobs", "2")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The models in several forms: demo (of parts, too), its draft model, and the draft model with other types of weights."""
    folder = tmp_path_factory.mktemp("gguf")
    demo = gguf_files.of_llama(DEMO)
    demo.write(folder / "demo.gguf")
    gguf_files.split(demo, folder, "parts", 3)
    gguf_files.of_llama(DRAFT).write(folder / "draft.gguf")
    for kind in ("Q8_0", "Q4_0", "Q4_1", "Q5_1", "F16"):
        gguf_files.of_llama(DRAFT, kind).write(folder / f"draft-{kind}.gguf")
    return folder


def answer(*args):
    """What `mortise run --json` prints, and what it logs."""
    process = run_mortise("run", *args, "-p", PROMPT, *GREEDY, env={"MORTISE_LOG": "info"})
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout), process.stderr


def same_answer(a, b):
    """The same tokens and log probabilities, to the bit."""
    keys = ("text", "tokens", "finish_reason", "completion_tokens", "prompt_tokens")
    assert all(key in a for key in keys), a
    return all(a[key] == b[key] for key in keys)


def error_of(*args):
    process = run_mortise(*args)
    assert process.returncode != 0
    return process.stderr


def test_a_file_gives_the_bits_of_the_folder_that_it_was_made_from(files):
    folder, _ = answer(DEMO)
    for name in ("demo.gguf", "parts-00001-of-00003.gguf"):
        file, log = answer(files / name)
        assert same_answer(folder, file)
        assert "are computed as" not in log  # bf16 stays as it is
        assert file["system_fingerprint"] != ""


def test_the_default_pipeline_can_be_printed_and_run(files, tmp_path):
    printed = run_mortise("run", "--print-script", files / "demo.gguf")
    assert printed.returncode == 0 and f'path = "{files / "demo.gguf"}"' in printed.stdout
    (tmp_path / "mine.lua").write_text(printed.stdout)
    assert run_mortise("check", tmp_path / "mine.lua").returncode == 0
    assert same_answer(answer(tmp_path / "mine.lua")[0], answer(DEMO)[0])


def test_check_opens_files_and_draft_models(files, script):
    assert run_mortise("check", files / "demo.gguf").returncode == 0
    drafting = script(f"""return pipeline {{ device = cpu {{}}, model = llama {{ path = "{files}/demo.gguf" }}, attention = paged {{}},
        scheduler = fcfs {{}}, proposer = draft_model {{ path = "{files}/draft.gguf", max_tokens = 3 }} }}""")
    process = run_mortise("check", drafting)
    assert process.returncode == 0, process.stderr
    assert same_answer(answer(drafting)[0], answer(DEMO)[0])


def test_tokenize_and_detokenize_take_files(files):
    texts = "".join(json.dumps(text) + "\n" for text in ("Once upon a time", "caf\u00e9 12345\n\n x", "<|im_start|>user\nHi<|im_end|>", ""))
    by_file, by_folder = (run_mortise("tokenize", model, stdin=texts) for model in (files / "demo.gguf", DEMO))
    assert by_file.returncode == 0 and by_file.stdout == by_folder.stdout
    assert (run_mortise("detokenize", files / "demo.gguf", stdin=by_file.stdout).stdout
            == run_mortise("detokenize", DEMO, stdin=by_file.stdout).stdout)


def test_a_chat_uses_the_template_of_the_file(files):
    args = ("--chat", "-p", "What is 12 + 30?", "--temperature", "0", "--max-tokens", "16")
    by_file, by_folder = (run_mortise("run", model, *args) for model in (files / "demo.gguf", DEMO))
    assert by_file.returncode == 0, by_file.stderr
    assert by_file.stdout == by_folder.stdout and "42" in by_file.stdout  # which also ends at the file's eot token


def test_batch_score_and_replay_take_files(files, tmp_path, jsonl):
    log, results = tmp_path / "requests.log", []
    body = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "logprobs": 1}
    for model in (files / "demo.gguf", DEMO):
        line = {"custom_id": "1", "url": "/v1/completions", "body": body}
        process, (batch,) = jsonl("batch", [line], model, "--overwrite", *(("--record", log) if model != DEMO else ()))
        assert process.returncode == 0, process.stderr
        process, (score,) = jsonl("score", [{"prompt": PROMPT, "completions": [" there was", " the"]}], model, "--overwrite")
        assert process.returncode == 0, process.stderr
        results.append((batch["response"]["body"]["choices"], score["completions"] if "completions" in score else
                        {key: value for key, value in score.items() if key not in ("model", "system_fingerprint")}))
    assert results[0] == results[1]
    assert run_mortise("replay", log, files / "demo.gguf").returncode == 0


def test_the_server_lists_and_serves_a_file(files):
    with live_server(files / "demo.gguf") as live:
        assert live.get("/v1/models")["data"][0]["id"] == "demo.gguf"
        body = live.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 4, "temperature": 0})
        assert body["choices"][0]["text"].startswith(" there was")


def test_bench_measures_a_file(files):
    process = run_mortise("bench", "decode", files / "draft.gguf", "--batch", 1, "--prompt", 16, "--output", 4, "--repeats", 1)
    assert process.returncode == 0, process.stderr


def test_integers_of_the_file_are_kept_or_read_as_floats(files, script):
    def pipeline(name, options=""):
        return script(f"""return pipeline {{ device = cpu {{}}, model = llama {{ path = "{files}/{name}"{options} }},
            attention = paged {{}}, scheduler = fcfs {{}} }}""", f"{name}{len(options)}.lua")
    def mebibytes(log):
        return float(re.search(r"are computed as bf16: ([0-9.]+) MiB in memory", log)[1])
    for kind in ("Q8_0", "Q4_0", "Q4_1", "Q5_1"):
        kept, log = answer(pipeline(f"draft-{kind}.gguf"))
        floats, float_log = answer(pipeline(f"draft-{kind}.gguf", ', weights = "float"'))
        assert f"weights of {kind} are computed as bf16" in float_log and "MiB in the file" in float_log
        assert mebibytes(log) < mebibytes(float_log)  # the embedding alone
        assert kept["system_fingerprint"] != floats["system_fingerprint"]
        # The weights are the same numbers; only activations are rounded.
        first, other = (run["tokens"][0]["logprob"] for run in (kept, floats))
        assert first != other and abs(first - other) < 0.1
    refused = error_of("check", pipeline("draft-Q8_0.gguf", ', weights = "int4"'))
    assert 'set it to "float"' in refused


@pytest.mark.parametrize("kind, bits", [("Q8_0", 8), ("Q4_1", 4)])
def test_integers_have_a_class_of_their_own_on_every_instruction_set(files, tmp_path, kind, bits):
    model, log = files / f"draft-{kind}.gguf", tmp_path / "requests.log"
    line = {"custom_id": "1", "url": "/v1/completions", "body": {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "logprobs": 1}}
    (tmp_path / "in.jsonl").write_text(json.dumps(line) + "\n")
    process = run_mortise("batch", model, "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", "--record", log,
                          env={"MORTISE_ISA": "portable"})
    assert process.returncode == 0, process.stderr
    assert f" with cpu-int8-block32/1, int{bits}-block32; " in json.loads(log.read_text().splitlines()[0])["numerics_id"]
    assert run_mortise("replay", log, model).returncode == 0


def test_a_changed_weight_changes_the_fingerprint(files, tmp_path):
    data = bytearray((files / "draft.gguf").read_bytes())
    data[-40] ^= 1
    (tmp_path / "draft.gguf").write_bytes(data)
    assert answer(tmp_path / "draft.gguf")[0]["system_fingerprint"] != answer(files / "draft.gguf")[0]["system_fingerprint"]


HOSTILE = {
    "big_endian": (lambda data: data[:4] + struct.pack(">I", 3) + data[8:], "big-endian GGUF file"),
    "version_1": (lambda data: data[:4] + struct.pack("<I", 1) + data[8:], "version 1; versions 2 and 3 are served"),
    "truncated": (lambda data: data[:-4096], "the file is truncated: download it again"),
    "no_gguf": (lambda data: b"GGML" + data[4:], 'does not begin with "GGUF"'),
    "huge_counts": (lambda data: data[:8] + b"\xff" * 16 + data[24:], "at most 262144 and 65536 are allowed"),
    "empty": (lambda data: b"", 'does not begin with "GGUF"'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_file_is_refused_with_a_remedy(files, tmp_path, name):
    damage, message = HOSTILE[name]
    path = tmp_path / "x.gguf"
    path.write_bytes(damage((files / "draft.gguf").read_bytes()))
    for command in ("check", "run"):
        error = error_of(command, path)
        assert message in error and str(path) in error


@pytest.mark.parametrize("change, message", [
    (lambda w: w.add({"llama.expert_count": 8}), "key 'llama.expert_count' at byte"),
    (lambda w: w.add({"llama.logit_scale": 2.0}), "this key is not served for the architecture llama"),
    (lambda w: w.add({"general.architecture": "gemma3"}), "served are llama (with Mistral), qwen2, qwen3, gpt2"),
    (lambda w: w.add({"tokenizer.ggml.pre": "viking"}), "known are default, gpt-2"),
    (lambda w: w.tensor("output_norm.bias", "F32", [64], bytes(256)), "tensor 'output_norm.bias' at byte"),
    (lambda w: w.tensor("more", 16, [1, 256], bytes(66)), "is of type IQ2_XXS, which is not served"),
])
def test_what_is_not_served_is_refused_by_name(tmp_path, change, message):
    writer = gguf_files.of_llama(DRAFT)
    change(writer)
    writer.write(tmp_path / "x.gguf")
    assert message in error_of("check", tmp_path / "x.gguf")


def test_parts_of_a_split_model_are_found_and_checked(files, tmp_path):
    assert "give the first part" in error_of("check", files / "parts-00002-of-00003.gguf")
    (tmp_path / "parts-00001-of-00003.gguf").symlink_to(files / "parts-00001-of-00003.gguf")
    assert "parts-00002-of-00003.gguf: is missing, part 2 of 3" in error_of("check", tmp_path / "parts-00001-of-00003.gguf")


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "absent.gguf: cannot be opened" in error_of("run", tmp_path / "absent.gguf")
