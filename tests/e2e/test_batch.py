# Covers: runtime/cli/{batch,batch_line}
import json

PROMPT = "Once upon a time"


def body(**fields):
    return {"model": "any", "prompt": PROMPT, "max_tokens": 6, "temperature": 0, **fields}


def line(custom_id, url="/v1/completions", **fields):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body(**fields)}


def test_answers_come_in_the_order_of_the_input(jsonl):
    lines = [line(f"r{i}", max_tokens=1 + 37 * i % 50) for i in range(40)]
    process, answers = jsonl("batch", lines)
    assert process.returncode == 0, process.stderr
    assert [a["custom_id"] for a in answers] == [f"r{i}" for i in range(40)]
    for i, answer in enumerate(answers):
        assert answer["error"] is None and answer["response"]["status_code"] == 200
        completion = answer["response"]["body"]
        assert completion["object"] == "text_completion"
        assert completion["usage"]["completion_tokens"] <= 1 + 37 * i % 50


def test_a_request_in_a_batch_gets_what_it_gets_alone(jsonl, mortise):
    fields = dict(temperature=0.8, seed=5, max_tokens=20)
    _, answers = jsonl("batch", [line(f"r{i}", **{**fields, "seed": i}) for i in range(12)])
    alone = mortise("run", "-p", PROMPT, "--max-tokens", 20, "--temperature", 0.8, "--seed", 5).stdout
    assert answers[5]["response"]["body"]["choices"][0]["text"] == alone.rstrip("\n")


def test_bad_lines_get_an_error_line_and_the_rest_runs(jsonl):
    lines = [line("good"), "{not json", json.dumps({"custom_id": "no-body", "url": "/v1/completions"}),
             line("bad-url", url="/v1/images"), line("bad-field", temperature="hot"), line("good-too")]
    process, answers = jsonl("batch", lines)
    assert process.returncode == 1
    assert "4 lines failed" in process.stderr
    assert [a["response"] is not None and a["response"]["status_code"] == 200 for a in answers] == [
        True, False, False, False, False, True]
    assert answers[1]["error"]["line"] == 2
    assert "body is missing" in answers[2]["error"]["message"]
    assert answers[3]["response"]["status_code"] == 404
    assert "temperature: expected a number" in answers[4]["response"]["body"]["error"]["message"]


def test_prompts_may_be_text_ids_or_lists_of_them(jsonl):
    _, answers = jsonl("batch", [line("a", prompt=[PROMPT, PROMPT], n=2), line("b", prompt=[5, 6, 7]),
                                 line("c", prompt=[[5, 6, 7], [8]])])
    counts = [len(a["response"]["body"]["choices"]) for a in answers]
    assert counts == [4, 1, 2]
    assert [c["index"] for c in answers[0]["response"]["body"]["choices"]] == [0, 1, 2, 3]


def test_echo_with_logprobs_covers_prompt_and_generated_tokens(jsonl):
    # What lm-eval sends for a log likelihood, and reads.
    fields = dict(prompt=[[5, 6, 7, 8]], max_tokens=1, logprobs=1, echo=True, return_token_ids=True)
    _, answers = jsonl("batch", [line("a", **fields)])
    choice = answers[0]["response"]["body"]["choices"][0]
    logprobs = choice["logprobs"]
    assert len(logprobs["token_logprobs"]) == len(logprobs["top_logprobs"]) == len(logprobs["tokens"]) == 5
    assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
    for value, top in zip(logprobs["token_logprobs"][1:], logprobs["top_logprobs"][1:]):
        assert value in top.values() and value <= max(top.values())
    assert len(choice["token_ids"]) == 1  # generated tokens only


def test_scores_equal_the_echoed_log_probabilities(jsonl):
    _, answers = jsonl("batch", [line("echo", prompt=[[5, 6, 7, 8]], max_tokens=1, logprobs=0, echo=True),
                                 {"custom_id": "score", "method": "POST", "url": "/v1/score",
                                  "body": {"prompt": [5, 6], "completions": [[7, 8]]}}])
    echoed = answers[0]["response"]["body"]["choices"][0]["logprobs"]["token_logprobs"][2:4]
    assert answers[1]["response"]["body"]["completions"][0]["token_logprobs"] == echoed


def test_chat_uses_the_scripts_template(jsonl, script, pipeline):
    path = pipeline()
    path.write_text('function chat_template(messages) return "Once " .. messages[1].content end\n' + path.read_text())
    chat = {"custom_id": "c", "method": "POST", "url": "/v1/chat/completions",
            "body": {"messages": [{"role": "user", "content": "upon a time"}], "temperature": 0, "max_tokens": 6,
                     "logprobs": True, "top_logprobs": 2}}
    process, answers = jsonl("batch", [chat, line("plain")], path)
    assert process.returncode == 0, process.stderr
    choice = answers[0]["response"]["body"]["choices"][0]
    assert choice["message"]["content"] == answers[1]["response"]["body"]["choices"][0]["text"]
    assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 2


def test_named_pipelines_are_chosen_by_model(jsonl, script):
    part = ("pipeline { device = cpu {}, model = llama { path = 'DEMO', max_model_len = %d }, attention = paged {}, "
            "scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }")
    path = script(f"return {{ short = {part % 8}, long = {part % 512} }}")
    process, answers = jsonl("batch", [line("a", model="short", prompt="word " * 20),
                                       line("b", model="long", prompt="word " * 20), line("c", model="none"),
                                       line("d", model=None, prompt="word " * 20)], path)
    assert process.returncode == 1
    assert "max_model_len 8" in json.dumps(answers[0])
    assert answers[1]["response"]["status_code"] == 200
    assert "max_model_len 8" in json.dumps(answers[3])  # null is no name: the first one
    assert "long" in answers[2]["error"]["message"] and "short" in answers[2]["error"]["message"]
