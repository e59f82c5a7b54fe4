"""/v1/decisions: probabilities of the values that an answer may have, by the openai package."""
# Covers: runtime/openai/decisions
import math

import openai
import pytest

from live_server import live_server

INPUT = "Hugo has an orange whistle. He plays it each day."
COLOURS = ["orange", "green", "blue"]


@pytest.fixture(scope="module")
def server():
    with live_server() as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def question(**fields):
    return {"type": "choice", "instructions": "What colour is the whistle?",
            "choices": [{"value": colour} for colour in COLOURS], **fields}


def test_answers_have_the_clients_shapes(client):
    decision = client.decisions.create(model="demo", input=INPUT, questions=[
        {"type": "predicate", "name": "own", "instructions": "Hugo has a whistle."},
        question(name="colour"),
        {"type": "score", "instructions": "How happy is Hugo?",
         "levels": [{"label": "sad"}, {"label": "calm", "description": "neither"}, {"label": "glad"}]}])
    predicate, choice, score = decision.answers
    assert predicate.name == "own" and 0 < predicate.probability < 1
    assert [entry.value for entry in choice.probabilities] == COLOURS
    assert choice.choice == max(choice.probabilities, key=lambda entry: entry.probability).value
    assert choice.confidence == max(entry.probability for entry in choice.probabilities)
    for answer in (choice, score):
        assert math.isclose(sum(entry.probability for entry in answer.probabilities), 1)
    assert [(entry.value, entry.label) for entry in score.probabilities] == [(0, "sad"), (1, "calm"), (2, "glad")]
    assert math.isclose(score.score, sum(entry.value * entry.probability for entry in score.probabilities))
    usage = decision.usage
    assert usage.total_tokens == usage.input_tokens > 0 == usage.output_tokens
    details = usage.input_tokens_details
    assert details.cached_tokens + details.cache_write_tokens == usage.input_tokens


def test_probabilities_are_those_of_scores(server, client):
    answer = client.decisions.create(model="demo", input=INPUT, questions=[question()]).answers[0]
    text = INPUT + "\n\nWhat colour is the whistle?\n\nChoices:\n- orange\n- green\n- blue\n\n" \
                   "Answer with one of the choices only."
    prompt = server.post("/tokenize", {"messages": [{"role": "user", "content": text}]})["tokens"]
    guided = server.post("/v1/completions", {"prompt": prompt, "choices": COLOURS, "choice_logprobs": True})
    logprobs = [entry["logprob"] for entry in guided["choices"][0]["choice_logprobs"]]
    total = sum(math.exp(logprob) for logprob in logprobs)
    for entry, logprob in zip(answer.probabilities, logprobs):
        assert math.isclose(entry.probability, math.exp(logprob) / total, rel_tol=1e-12)


def test_the_same_bits_alone_and_beside_others(client):
    alone = client.decisions.create(model="demo", input=INPUT, questions=[question()]).answers[0]
    many = client.decisions.create(model="demo", input=INPUT, questions=[question(name=str(i)) for i in range(20)])
    for i, answer in enumerate(many.answers):
        assert answer.name == str(i) and answer.probabilities == alone.probabilities


def test_a_value_that_begins_another_has_its_own_probability(client):
    values = ["orange", "orange and green"]
    answer = client.decisions.create(model="demo", input=INPUT, questions=[
        question(choices=[{"value": value} for value in values])]).answers[0]
    assert math.isclose(sum(entry.probability for entry in answer.probabilities), 1)
    plain = client.decisions.create(model="demo", input=INPUT, questions=[question()])
    assert plain.answers[0].choice == "orange" or answer.probabilities[0].probability < 1


def test_what_is_wrong_is_named(client):
    with pytest.raises(openai.BadRequestError, match="questions\\[1\\]: type 'x' is not one of"):
        client.decisions.create(model="demo", input=INPUT, questions=[question(), question(type="x")])
    with pytest.raises(openai.BadRequestError, match="the prompts of the first|exceeds"):
        client.decisions.create(model="demo", input=INPUT * 400, questions=[question()])
