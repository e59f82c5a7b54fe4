# Covers: runtime/cli/score
import json
import math
import os
import random
import subprocess

from conftest import MORTISE


def completions_of(answers):
    return [answer["completions"] for answer in answers]


def test_scores_every_completion_of_every_line_in_order(jsonl):
    lines = [{"prompt": "Q: 2 + 3 = ? A:", "completions": [" 5", " 9", " 77"], "id": "sum"},
             {"prompt": [5, 6], "completions": [[7, 8, 9]]}]
    process, answers = jsonl("score", lines)
    assert process.returncode == 0, process.stderr
    assert [a["index"] for a in answers] == [0, 1]
    assert answers[0]["id"] == "sum" and answers[1]["id"] is None
    assert [len(a["completions"]) for a in answers] == [3, 1]
    for answer in answers:
        for completion in answer["completions"]:
            n = len(completion["token_ids"])
            assert n == len(completion["token_logprobs"]) == len(completion["ranks"]) > 0
            assert math.isclose(completion["logprob"], math.fsum(completion["token_logprobs"]), rel_tol=1e-12)
            assert completion["is_greedy"] == all(rank == 1 for rank in completion["ranks"])
    best = max(answers[0]["completions"], key=lambda c: c["logprob"])
    assert best is answers[0]["completions"][0]  # the model can add


def test_an_empty_completion_costs_nothing(jsonl):
    _, answers = jsonl("score", [{"prompt": "Hello", "completions": [""]}])
    assert answers[0]["completions"][0] == {"logprob": 0.0, "token_ids": [], "token_logprobs": [], "ranks": [],
                                            "is_greedy": True}


def test_bad_lines_get_an_error_line_with_their_number(jsonl):
    process, answers = jsonl("score", [{"prompt": "a", "completions": ["b"]}, "nonsense", {"prompt": "a"},
                                       {"prompt": [99999], "completions": ["b"]}, {"prompt": "a", "completions": ["b"]}])
    assert process.returncode == 1
    assert ["completions" in a for a in answers] == [True, False, False, False, True]
    assert answers[1]["error"]["line"] == 2
    assert "completions is missing" in answers[2]["error"]["message"]
    assert "99999" in answers[3]["error"]["message"]
    assert answers[0]["completions"] == answers[4]["completions"]


def test_a_mistake_names_the_prompt_or_the_completion(jsonl):
    _, answers = jsonl("score", [{"prompt": "a", "completions": ["ok", [5, 99999]]},
                                 {"prompt": "a", "completions": ["ok", "word " * 3000]},
                                 {"prompt": "a", "completions": ["ok", None]},
                                 {"prompt": [99999], "completions": []},
                                 {"prompt": "word " * 3000, "completions": []}])
    messages = [a["error"]["message"] for a in answers]
    assert messages[0].startswith("line 1: completions[1], with the prompt before it: the prompt has token id 99999")
    assert messages[1].startswith("line 2: completions[1], with the prompt before it: prompt of ")
    assert messages[2] == "line 3: completions[1]: expected text or a list of token ids, got null"
    assert messages[3].startswith("line 4: the prompt has token id 99999; ids are from 0 to ")
    assert messages[4].startswith("line 5: prompt of 3002 tokens exceeds the model's length of 2048; shorten it")


def test_texts_are_split_as_the_harness_splits_them(jsonl):
    """Spaces at the end of a prompt belong to the completion; after no prompt comes the first token."""
    _, answers = jsonl("score", [{"prompt": "The cat ", "completions": ["sat", "ran"]},
                                 {"prompt": "The cat", "completions": [" sat", " ran"]},
                                 {"prompt": "", "completions": ["The cat"]},
                                 {"prompt": [0], "completions": ["The cat"]},
                                 {"prompt": "<|bos|>The cat", "completions": [" sat"]},
                                 {"prompt": "The cat", "completions": [" sat"], "add_special_tokens": False}])
    scores = completions_of(answers)
    assert scores[0] == scores[1] and scores[2] == scores[3]
    assert scores[4][0] == scores[1][0] != scores[5][0]


def mixed_lines(seed):
    """Prompts of one token to more than a block, in and at the end of blocks, some of them shared by several lines."""
    rng = random.Random(seed)
    shared = [rng.choices(range(4, 4096), k=n) for n in (16, 33, 200)]
    lines = []
    for size in (1, 2, 15, 16, 17, 31, 32, 47, 100, 257):
        prompt = rng.choice(shared)[:size] + rng.choices(range(4, 4096), k=max(0, size - 200))
        count = rng.choice((1, 4, 16))
        lines.append({"prompt": prompt, "completions": [rng.choices(range(4, 4096), k=rng.randint(1, 40)) for _ in range(count)]})
    return lines


def test_scores_do_not_depend_on_what_else_runs(jsonl, pipeline):
    """Bit for bit: alone, beside others, in chunks, with and without a prefix cache, in a pool that is too small for all."""
    lines = mixed_lines(1)
    alone = []
    for line in lines:
        for completion in line["completions"]:
            alone.append({"prompt": line["prompt"], "completions": [completion]})
    _, answers = jsonl("score", alone, pipeline(scheduler="max_num_seqs = 1", kv=", prefix_cache = false"))
    expected = [answer["completions"][0] for answer in answers]
    for settings in ({}, {"scheduler": "max_batched_tokens = 7"}, {"scheduler": "max_num_seqs = 3, max_batched_tokens = 64"},
                     {"kv": ", prefix_cache = false"}, {"memory": "2MiB"}, {"attention": "block_size = 32"}):
        for order in (lines + lines, lines[::-1]):  # the second time, the prompts come from the cache
            process, answers = jsonl("score", order, pipeline(**settings), "--overwrite")
            assert process.returncode == 0, process.stderr
            scores = completions_of(answers)
            for got in (scores[:len(lines)], scores[len(lines):]) if order != lines[::-1] else (scores[::-1],):
                assert sum(got, []) == expected, settings


def test_echoed_log_probabilities_are_those_of_small_steps(jsonl, pipeline):
    """Many rows of a step are scored slice by slice of the vocabulary, few at once: the same bits, first tokens and all."""
    rng = random.Random(5)
    lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
              "body": {"prompt": rng.choices(range(4, 4096), k=700), "max_tokens": 3, "echo": True, "logprobs": top}}
             for i, top in enumerate((0, 1, 5))]
    answers = [jsonl("batch", lines, pipeline(scheduler=f"max_batched_tokens = {most}"), "--overwrite")[1] for most in (2048, 200)]
    for many, few in zip(*answers):
        assert many["response"]["body"]["choices"] == few["response"]["body"]["choices"]


def test_thousands_of_completions_of_a_long_prompt_are_one_body(jsonl):
    prompt = [5] * 1500
    completions = [[6 + i % 4000, 7 + i % 17] for i in range(3000)]
    process, answers = jsonl("score", [{"prompt": prompt, "completions": completions}])
    assert process.returncode == 0, process.stderr
    scores = answers[0]["completions"]
    assert len(scores) == 3000 and [s["token_ids"] for s in scores] == completions
    _, alone = jsonl("score", [{"prompt": prompt, "completions": [completions[2999]]}], "--overwrite")
    assert alone[0]["completions"][0] == scores[2999]


def peak_bytes(command, lines, folder, *args):
    source, target = folder / "memory.jsonl", folder / "memory.out"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    process = subprocess.Popen([MORTISE, command, *map(str, args), "-i", source, "-o", target, "--overwrite"],
                               stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def test_scoring_takes_little_memory_beyond_the_prefill(tmp_path, pipeline):
    """No rows x vocabulary matrix: of the 12,000 tokens here it would be 190 MiB."""
    rng = random.Random(2)
    prompts = [rng.choices(range(4, 4096), k=2000) for _ in range(6)]
    path = pipeline(scheduler="max_batched_tokens = 2000", memory="256MiB")
    prefill = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {"prompt": p, "max_tokens": 1}}
               for i, p in enumerate(prompts)]
    scored = [{"prompt": p[:1], "completions": [p[1:]]} for p in prompts]
    extra = peak_bytes("score", scored, tmp_path, path) - peak_bytes("batch", prefill, tmp_path, path)
    assert extra < 64 * 2**20
