"""Writes orvale.json: multiple-choice questions about the demo model's land, and what transformers makes of them in f32.

python3 make_scores.py   (needs torch and transformers 5; a few minutes on a core)

tests/e2e/test_lm_eval.py scores the same with Mortise, within 2e-5. Left out are questions on which transformers itself is not that
sure: where its f32 is more than 1e-5 from its f64. Sums differ in the last bits from machine to machine.
"""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "scripts/lm_eval"))
from orvale_task import documents  # noqa: E402

COUNT = 30  # questions of each form
MOST_NOISE = 1e-5


@torch.inference_mode()
def logprobs(model, context, continuation):
    logits = model(torch.tensor([context + continuation[:-1]])).logits[0, -len(continuation):]
    rows = logits.double().log_softmax(-1)
    chosen = rows.gather(1, torch.tensor(continuation)[:, None])[:, 0]
    return chosen.tolist(), (logits.argmax(-1) == torch.tensor(continuation)).all().item()


def scored(models, tokenizer, document):
    """The scores of all choices, or None where f32 is not sure of them."""
    context = tokenizer.encode(document["prompt"])  # ends without white space: nothing moves to the choices
    assert document["prompt"] == document["prompt"].rstrip()
    scores = []
    for choice in document["choices"]:
        continuation = tokenizer.encode(document["prompt"] + choice)[len(context):]
        (values, is_greedy), (exact, _) = (logprobs(model, context, continuation) for model in models)
        if max(abs(a - b) for a, b in zip(values, exact)) > MOST_NOISE:
            return None
        scores.append({"token_ids": continuation, "token_logprobs": values, "is_greedy": is_greedy})
    return scores


def questions_of(models, tokenizer, form):
    questions = []
    for document in documents(form, 2 * COUNT):
        scores = scored(models, tokenizer, document)
        if scores is not None:
            questions.append(document | {"scores": scores})
        if len(questions) == COUNT:
            return questions
    raise SystemExit(f"{form}: f32 is sure of too few questions")


def accuracies(questions):
    """acc and acc_norm as the harness has them: the likeliest choice, by its sum and by its sum for each byte."""
    hits, hits_norm = 0, 0
    for question in questions:
        sums = [sum(score["token_logprobs"]) for score in question["scores"]]
        sizes = [len(choice) for choice in question["choices"]]
        norms = [s / n for s, n in zip(sums, sizes)]
        hits += sums.index(max(sums)) == question["answer"]
        hits_norm += norms.index(max(norms)) == question["answer"]
    return {"acc": hits / len(questions), "acc_norm": hits_norm / len(questions)}


if __name__ == "__main__":
    folder = ROOT / "models/demo"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    models = [AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval() for dtype in (torch.float32, torch.float64)]
    golden = {}
    for form in ("letters", "text"):
        questions = questions_of(models, tokenizer, form)
        golden[form] = accuracies(questions) | {"questions": questions}
        print(form, accuracies(questions))
    lines = ",\n".join(
        f'"{form}": {{"acc": {of["acc"]}, "acc_norm": {of["acc_norm"]}, "questions": [\n' +
        ",\n".join(json.dumps(question) for question in of["questions"]) + "]}" for form, of in golden.items())
    (HERE / "orvale.json").write_text("{" + lines + "}\n")
