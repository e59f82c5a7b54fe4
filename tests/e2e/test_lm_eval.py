"""Multiple choice as lm-evaluation-harness asks it, against transformers: tests/golden/scores/make_scores.py wrote what that said."""
import json

import pytest

from conftest import SOURCE

GOLDEN = json.loads((SOURCE / "tests/golden/scores/orvale.json").read_text())


def best(values):
    return max(range(len(values)), key=values.__getitem__)


@pytest.mark.parametrize("form", ["letters", "text"])
def test_scores_and_accuracy_are_those_of_transformers(jsonl, pipeline, form):
    questions = GOLDEN[form]["questions"]
    assert len(questions) == 30
    lines = [{"prompt": question["prompt"], "completions": question["choices"]} for question in questions]
    process, answers = jsonl("score", lines, pipeline(model=', dtype = "f32"'))
    assert process.returncode == 0, process.stderr
    hits = hits_norm = 0
    for question, answer in zip(questions, answers):
        scores = answer["completions"]
        for score, expected in zip(scores, question["scores"], strict=True):
            assert score["token_ids"] == expected["token_ids"]
            assert score["token_logprobs"] == pytest.approx(expected["token_logprobs"], rel=0, abs=2e-5)
            assert score["is_greedy"] == expected["is_greedy"]
        sums = [score["logprob"] for score in scores]
        hits += best(sums) == question["answer"]
        hits_norm += best([s / len(choice) for s, choice in zip(sums, question["choices"])]) == question["answer"]
    assert (hits / 30, hits_norm / 30) == (GOLDEN[form]["acc"], GOLDEN[form]["acc_norm"])
