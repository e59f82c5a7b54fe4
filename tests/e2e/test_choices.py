"""Guided choices through the program."""
# Covers: runtime/openai/choice_logprobs
import json

CHOICES = ["yes", "no", " maybe", "maybe not", "yes, but", "12", "1234", "Zürich 你好 🦀"]


def line(custom_id="a", url="/v1/completions", **fields):
    body = {"prompt": "Once upon a time", "temperature": 1, "seed": 3, **fields}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def choices_of(answer):
    assert answer["response"]["status_code"] == 200, answer
    return answer["response"]["body"]["choices"]


def message_of(answer):
    assert answer["response"]["status_code"] == 400, answer
    return answer["response"]["body"]["error"]["message"]


def test_the_text_is_one_of_the_choices_under_every_name_and_seed(jsonl):
    names = [dict(choices=CHOICES), dict(guided_choice=CHOICES), dict(structured_outputs={"choice": CHOICES})]
    process, answers = jsonl("batch", [line(str(seed), **names[seed % 3], seed=seed, n=4, temperature=seed % 4)
                                       for seed in range(30)])
    assert process.returncode == 0, process.stderr
    seen = set()
    for answer in answers:
        for choice in choices_of(answer):
            assert choice["text"] in CHOICES
            assert choice["finish_reason"] == "stop"
            seen.add(choice["text"])
    assert len(seen) >= 4  # fewer: the mask leaves less than the choices


def test_the_three_names_give_the_same(jsonl):
    _, answers = jsonl("batch", [line("a", choices=CHOICES), line("b", guided_choice=CHOICES),
                                 line("c", structured_outputs={"choice": CHOICES + CHOICES})])
    assert len({choices_of(answer)[0]["text"] for answer in answers}) == 1


def test_greedy_takes_the_token_with_the_highest_raw_log_probability(jsonl):
    letters = ["A", "B", "C", "D"]  # one token each
    lines = [line("guided", choices=letters, temperature=0, logprobs=0, prompt="Q: which one? A:")]
    lines += [line(letter, prompt="Q: which one? A:" + letter, echo=True, max_tokens=0, logprobs=0) for letter in letters]
    _, answers = jsonl("batch", lines)
    guided = choices_of(answers[0])[0]
    scores = {letter: choices_of(answer)[0]["logprobs"]["token_logprobs"][-1]
              for letter, answer in zip(letters, answers[1:])}
    assert guided["text"] == max(scores, key=scores.get)
    assert guided["logprobs"]["token_logprobs"] == [scores[guided["text"]]]  # raw: the mask has no say in it


def test_chat_takes_choices_too(jsonl, pipeline):
    path = pipeline()
    path.write_text('function chat_template(messages) return messages[1].content .. ":" end\n' + path.read_text())
    chat = {"messages": [{"role": "user", "content": "yes or no"}], "choices": ["yes", "no"], "n": 3, "logprobs": True}
    process, answers = jsonl("batch", [{"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": chat}],
                             path)
    assert process.returncode == 0, process.stderr
    for choice in choices_of(answers[0]):
        assert choice["message"]["content"] in ("yes", "no") and choice["finish_reason"] == "stop"


def test_ten_thousand_choices(jsonl):
    names = [f"item {i}" for i in range(10000)]
    process, answers = jsonl("batch", [line(str(seed), choices=names, seed=seed) for seed in range(5)])
    assert process.returncode == 0, process.stderr
    texts = {choices_of(answer)[0]["text"] for answer in answers}
    assert texts <= set(names) and len(texts) >= 2


def test_mistakes_are_named(jsonl):
    cases = [(dict(choices=[]), "choices is an empty list"), (dict(choices="yes"), "choices: expected a list of texts and lists of token ids"),
             (dict(choices=["a", ""]), "choices[1] is empty; leave it out"),
             (dict(choices=["yes", "a much longer answer"], max_tokens=2),
              'choices[1]: "a much longer answer" needs '),
             (dict(choices=["a"], min_tokens=2), 'choices[0]: "a" has 1 token, fewer than min_tokens (2)'),
             (dict(choices=["a."], stop="."), 'choices[0]: "a." contains the stop string "."'),
             (dict(choices=["a<|eos|>"]), 'choices[0]: "a<|eos|>" cannot be generated: after this prompt'),
             (dict(choices=["a"], guided_choice=["a"]), "choices and guided_choice mean the same; give only one"),
             (dict(structured_outputs={"json": {}}), "structured_outputs: 'json' is not supported")]
    process, answers = jsonl("batch", [line(**fields) for fields, _ in cases])
    assert process.returncode == 1
    for answer, (_, text) in zip(answers, cases):
        assert text in message_of(answer)


def test_run_takes_choices_from_the_command_line(mortise):
    process = mortise("run", "-p", "Once upon a time", "--choice", "there was", "--choice", "there were", "--json")
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    assert answer["text"] in ("there was", "there were") and answer["finish_reason"] == "stop"


def test_token_ids_are_choices_too(jsonl, mortise):
    ids = [[71, 72, 73], [71, 72], [2000]]
    lines = [line(str(seed), choices=[*ids, "yes"], seed=seed, return_token_ids=True, ignore_eos=True) for seed in range(12)]
    process, answers = jsonl("batch", lines)
    assert process.returncode == 0, process.stderr
    ends = [1, 3]
    for answer in answers:
        choice = choices_of(answer)[0]
        tokens = choice["token_ids"]
        assert choice["text"] == "yes" or tokens in ids or (tokens[:-1] == ids[1] and tokens[-1] in ends)


def test_the_log_probabilities_of_all_choices_are_scores(jsonl):
    prompt, choices = "Q: which one? A:", [" A", " B", " C", [300, 301], " A or B"]
    _, answers = jsonl("batch", [line("p", prompt=prompt, choices=choices, choice_logprobs=True, n=2, logprobs=0)])
    answer = choices_of(answers[0])
    assert len(answer) == 2 and answer[0]["choice_logprobs"] == answer[1]["choice_logprobs"]
    entries = answer[0]["choice_logprobs"]
    assert [entry["choice"] for entry in entries] == choices
    _, scores = jsonl("score", [{"prompt": prompt, "completions": choices}], "--overwrite")
    assert [{k: v for k, v in entry.items() if k != "choice"} for entry in entries] == scores[0]["completions"]
    taken = next(entry for entry in entries if entry["choice"] == answer[0]["text"])
    assert answer[0]["logprobs"]["token_logprobs"][:len(taken["token_ids"])] == taken["token_logprobs"]


def test_choice_logprobs_without_choices_are_a_mistake(jsonl):
    _, answers = jsonl("batch", [line(choice_logprobs=True)])
    assert message_of(answers[0]).startswith("choice_logprobs is true, but there are no choices")
