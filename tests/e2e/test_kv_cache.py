"""The types of the KV cache, from the outside: what int8 and fp8 give, what they take, and what is refused."""
import json
import re

import pytest

BYTES = {"int8": ', dtype = "int8"', "fp8": ', dtype = "fp8"'}
PROMPT = "Once upon a time"


def generate(mortise, script, *args, env=None):
    process = mortise("run", script, "-p", PROMPT, "--max-tokens", 40, "--json", "--logprobs", 1, *args, env=env)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def logprob(jsonl, tmp_path, script, text):
    (tmp_path / "out.jsonl").unlink(missing_ok=True)  # otherwise score would resume an earlier run
    process, [result] = jsonl("score", [{"prompt": PROMPT, "completions": [text]}], script)
    assert process.returncode == 0, process.stderr
    return result["completions"][0]["logprob"]


@pytest.mark.parametrize("dtype", BYTES)
def test_bytes_write_the_same_story_under_another_fingerprint(dtype, mortise, pipeline, jsonl, tmp_path):
    story = generate(mortise, pipeline(), "--temperature", 0)
    expected = logprob(jsonl, tmp_path, pipeline(), story["text"])
    other = generate(mortise, pipeline(kv=BYTES[dtype]), "--temperature", 0)
    actual = logprob(jsonl, tmp_path, pipeline(kv=BYTES[dtype]), story["text"])
    assert other["system_fingerprint"] != story["system_fingerprint"]
    assert other["text"][:40] == story["text"][:40]
    assert 0 < abs(actual - expected) < 0.1 * abs(expected)  # 0: the cache was not in bytes


@pytest.mark.parametrize("dtype", BYTES)
def test_bytes_have_the_same_bits_on_every_instruction_set_and_thread_count(dtype, mortise, pipeline):
    texts = set()
    for isa in ("", "portable", "avx2", "avx512"):
        for threads in (1, 2):
            script = pipeline(device=f"threads = {threads}", kv=BYTES[dtype])
            process = mortise("run", script, "-p", PROMPT, "--max-tokens", 40, "--seed", 7, "--json", "--logprobs", 1,
                              env={"MORTISE_ISA": isa})
            if "does not have" not in process.stderr:
                texts.add(json.dumps(json.loads(process.stdout)["tokens"]))
    assert len(texts) == 1


@pytest.mark.parametrize("dtype", BYTES)
def test_bytes_hold_nearly_twice_the_blocks(dtype, mortise, pipeline):
    def blocks(kv):
        process = mortise("check", pipeline(kv=kv))
        assert process.returncode == 0, process.stderr
        return int(re.search(r"kv_cache +(\d+) blocks", process.stdout)[1])

    assert 1.8 < blocks(BYTES[dtype]) / blocks("") < 2


def test_a_type_that_cannot_be_says_what_can(mortise, pipeline):
    for command in (["check"], ["run", "-p", "x"]):
        process = mortise(command[0], pipeline(kv=', dtype = "f32"'), *command[1:])
        assert process.returncode == 1
        assert 'differs from the type that the model computes in; use "auto", "int8" or "fp8"' in process.stderr
    process = mortise("check", pipeline(kv=', dtype = "int4"'))
    assert process.returncode == 1 and "kv_cache" in process.stderr and '"int8"' in process.stderr
