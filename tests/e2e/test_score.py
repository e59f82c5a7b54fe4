import math


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
