# Covers: runtime/cli/{generation,interrupt,prompt,run}
import json
import signal
import subprocess

from conftest import MORTISE


def test_prints_the_completion_alone(mortise):
    process = mortise("run", "-p", "Once upon a time", "--max-tokens", 30, "--temperature", 0)
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() and "Once upon a time" not in process.stdout
    assert "tokens/s" in process.stderr


def test_works_from_any_folder(mortise, tmp_path):
    assert mortise("run", "-p", "Q: 2 + 3 = ? A:", "--max-tokens", 3, "--temperature", 0, cwd=tmp_path).returncode == 0


def test_the_same_seed_gives_the_same_text_on_every_instruction_set_and_thread_count(mortise, pipeline):
    texts = set()
    for isa in ("", "portable", "avx2"):
        for threads in (1, 2):
            process = mortise("run", pipeline(device=f"threads = {threads}"), "-p", "Once upon a time", "--max-tokens", 40,
                              "--temperature", 0.9, "--seed", 7, env={"MORTISE_ISA": isa})
            if "does not have" in process.stderr:
                continue
            assert process.returncode == 0, process.stderr
            texts.add(process.stdout)
    assert len(texts) == 1


def test_another_seed_gives_another_text(mortise):
    texts = {mortise("run", "-p", "Once upon a time", "--max-tokens", 40, "--temperature", 1, "--seed", seed).stdout
             for seed in (1, 2, 3)}
    assert len(texts) > 1


def test_json_has_tokens_log_probabilities_and_the_fingerprint(mortise):
    process = mortise("run", "-p", "Once upon", "--max-tokens", 5, "--temperature", 0, "--json", "--logprobs", 2,
                      "--ignore-eos")
    answer = json.loads(process.stdout)
    assert answer["completion_tokens"] == len(answer["tokens"]) == 5
    assert answer["finish_reason"] == "length"
    for token in answer["tokens"]:
        assert token["rank"] == 1  # greedy
        assert token["logprob"] == token["top"][0]["logprob"] <= 0
        assert token["id"] == token["top"][0]["id"]
    assert answer["system_fingerprint"].startswith("mortise-")


def test_stop_strings_end_the_text_before_them(mortise):
    whole = mortise("run", "-p", "Once upon a time", "--max-tokens", 30, "--temperature", 0).stdout
    stop = whole.split()[3]
    cut = mortise("run", "-p", "Once upon a time", "--max-tokens", 30, "--temperature", 0, "--stop", stop).stdout
    assert cut.rstrip("\n") == whole[:whole.index(stop)]


def test_a_prompt_over_the_limit_is_refused_with_the_numbers(mortise, pipeline):
    script = pipeline(model=", max_model_len = 32")
    process = mortise("run", script, "-p", "one two three " * 40)
    assert process.returncode == 1
    assert "exceeds max_model_len 32" in process.stderr and "shorten it or raise max_model_len" in process.stderr


def test_a_request_larger_than_the_cache_is_refused_with_the_numbers(mortise, pipeline):
    process = mortise("run", pipeline(memory="100KiB"), "-p", "word " * 300, "--max-tokens", 500)
    assert process.returncode == 1
    assert "KV blocks" in process.stderr and "kv_cache.memory" in process.stderr


def test_parameters_out_of_range_are_named(mortise):
    process = mortise("run", "-p", "x", "--top-p", 7)
    assert process.returncode == 1
    assert "top_p is 7; it must be above 0 and at most 1" in process.stderr


def test_the_script_may_stand_behind_stop_strings_and_choices(mortise, pipeline):
    process = mortise("run", "--stop", "zzz", "--stop", "yyy", pipeline(), "-p", "Once", "--max-tokens", 3)
    assert process.returncode == 0, process.stderr
    process = mortise("run", "--choice", " 12", "--choice", " 5", "nosuch.lua", "-p", "Q: 2 + 3 = ? A:")
    assert process.returncode == 1 and "nosuch.lua" in process.stderr and "choices" not in process.stderr


def test_ctrl_c_in_an_answer_is_told_by_the_exit_code():
    with subprocess.Popen([MORTISE, "run", "-p", "Once", "--ignore-eos", "--max-tokens", "1000000"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        process.stdout.read(1)  # the answer has begun
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait() == 130
