"""mortise serve, asked by the openai package and by hand."""
# Covers: runtime/cli/{serve,served_models}
# Covers: runtime/server/{answer_routes,api_keys,cors,exchange,model_routes,models,peer_watch,routes,status_routes,token_routes}
import http.client
import json
import shutil
import signal
import threading
import time

import openai
import pytest

from conftest import SOURCE
from live_server import LiveServer, events, live_server, wait_until_idle

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def server():
    with live_server() as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_a_completion_is_what_run_prints(server, client, mortise):
    answer = client.completions.create(model="demo", prompt=PROMPT, max_tokens=24, seed=7, temperature=0.9)
    printed = mortise("run", "-p", PROMPT, "--json", "--max-tokens", "24", "--seed", "7", "--temperature", "0.9")
    assert answer.choices[0].text == json.loads(printed.stdout)["text"]
    assert answer.usage.completion_tokens == 24
    assert answer.system_fingerprint == server.get("/v1/models")["data"][0]["system_fingerprint"]


def test_streamed_chunks_join_to_the_whole_answer(client):
    body = dict(model="demo", prompt=[PROMPT, "The dog"], max_tokens=20, seed=3, n=2, logprobs=2)
    whole = client.completions.create(**body)
    texts, usage, logprobs = {}, None, {}
    for chunk in client.completions.create(**body, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            logprobs.setdefault(choice.index, []).extend(choice.logprobs.token_logprobs)
    assert [texts[i] for i in range(4)] == [choice.text for choice in whole.choices]
    assert [logprobs[i] for i in range(4)] == [choice.logprobs.token_logprobs for choice in whole.choices]
    assert usage.total_tokens == whole.usage.total_tokens


def test_chat_streams_and_stops(client):
    body = dict(model="demo", messages=[{"role": "user", "content": "Tell me a story."}], max_completion_tokens=30,
                seed=5)
    whole = client.chat.completions.create(**body, logprobs=True, top_logprobs=3)
    text = whole.choices[0].message.content
    assert len(whole.choices[0].logprobs.content) == whole.usage.completion_tokens
    deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(**body, stream=True)]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == text
    stop = text[len(text) // 2:len(text) // 2 + 3]
    stopped = client.chat.completions.create(**body, stop=stop)
    assert stopped.choices[0].message.content == text[:text.index(stop)]


def test_errors_are_the_clients_exceptions(client):
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.completions.create(model="demo", prompt="x", temperature=-1)
    with pytest.raises(openai.BadRequestError, match="tools"):
        client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "x"}],
                                       tools=[{"type": "function", "function": {"name": "f"}}])
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.models.retrieve("other")
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.001).completions.create(model="demo", prompt="x", max_tokens=500)


def test_a_stream_that_is_cancelled_frees_its_slot(server, client):
    before = server.get("/status")["models"][0]["generated_tokens"]
    stream = client.completions.create(model="demo", prompt=PROMPT, max_tokens=1900, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    wait_until_idle(server)
    assert server.get("/status")["models"][0]["generated_tokens"] - before < 1900 / 2  # 1900: it runs on for nobody


def test_a_broken_stream_goes_on_at_every_event(server):
    body = {"prompt": PROMPT, "max_tokens": 32, "stream": True, "stream_options": {"include_usage": True}}
    for _ in range(50):  # on a busy machine, a reader that comes late gets several tokens in one event
        _, _, text = server.ask("POST", "/v1/completions", body)
        whole = events(text)
        if len(whole) > 6:
            break
    assert len(whole) > 4
    for index, (event_id, _) in enumerate(whole):
        if event_id is None:  # usage, [DONE]
            continue
        status, _, text = server.ask("POST", "/v1/completions", body, {"Last-Event-ID": event_id})
        assert status == 200
        assert joined(whole[:index + 1] + events(text)) == joined(whole)


def joined(chunks):
    """What a client makes of the chunks: how many tokens lie in each is a matter of time."""
    choices = [chunk["choices"][0] for _, chunk in chunks if chunk != "[DONE]" and chunk["choices"]]
    usage = [chunk["usage"]["completion_tokens"] for _, chunk in chunks if chunk != "[DONE]" and chunk["usage"]]
    return ("".join(choice["text"] for choice in choices), [choice["finish_reason"] for choice in choices][-1], usage,
            chunks[-1][1], {chunk["id"] for _, chunk in chunks if chunk != "[DONE]"})


def test_vllms_benchmark_gets_events_that_it_can_read(server):
    body = {"prompt": PROMPT, "max_tokens": 8, "stream": True, "stream_options": {"include_usage": True}}
    _, _, text = server.ask("POST", "/v1/completions", body, {"X-Request-Id": "bench-1f-0",
                                                             "User-Agent": "Python/3.11 aiohttp/3.14.5"})
    assert all(block.startswith("data: ") for block in text.strip().split("\n\n"))
    _, _, text = server.ask("POST", "/v1/completions", body, {"X-Request-Id": "bench-1f-0"})
    assert text.startswith("id: ")


def test_a_prediction_is_counted(client):
    body = dict(model="demo", messages=[{"role": "user", "content": "Tell me a story."}], max_completion_tokens=40,
                seed=5)
    text = client.chat.completions.create(**body).choices[0].message.content
    told = client.chat.completions.create(**body, prediction={"type": "content", "content": text})
    assert told.choices[0].message.content == text
    assert told.usage.completion_tokens_details.accepted_prediction_tokens > 0


def test_tokens(server):
    tokens = server.post("/tokenize", {"prompt": PROMPT, "return_token_strs": True})
    assert tokens["count"] == len(tokens["tokens"]) == len(tokens["token_strs"])
    plain = server.post("/tokenize", {"prompt": PROMPT, "add_special_tokens": False})["tokens"]
    assert server.post("/detokenize", {"tokens": plain}) == {"prompt": PROMPT}
    rendered = server.post("/v1/completions/render", {"prompt": [PROMPT, "x"]})
    assert rendered[0]["token_ids"] == tokens["tokens"] and len(rendered) == 2
    chat = {"messages": [{"role": "user", "content": "Hi"}]}
    assert server.post("/v1/chat/completions/render", chat)["token_ids"] == server.post("/tokenize", chat)["tokens"]
    assert server.get("/tokenizer_info")["eos_token"]


def test_metrics(server):
    def value(name):
        _, headers, text = server.ask("GET", "/metrics")
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = [line for line in text.splitlines() if line.split("{")[0] == name and 'model_name="demo"' in line]
        return sum(float(line.split()[-1]) for line in lines)

    names = {"vllm:generation_tokens_total": 20, "vllm:prompt_tokens_total": 5, "vllm:request_success_total": 1,
             "vllm:time_to_first_token_seconds_count": 1, "vllm:e2e_request_latency_seconds_count": 1}
    before = {name: value(name) for name in names}
    server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 20, "ignore_eos": True})
    wait_until_idle(server)
    assert {name: value(name) - before[name] for name in names} == names
    assert value("vllm:spec_decode_num_draft_tokens_total") >= value("vllm:spec_decode_num_accepted_tokens_total") > 0
    assert value("mortise_part_info") >= 4 and value("vllm:cache_config_info") == 1
    assert value("vllm:num_requests_running") == value("vllm:num_requests_waiting") == 0
    assert 0 <= value("vllm:kv_cache_usage_perc") <= 1


def test_the_record_has_the_requests_id_and_replays(tmp_path, mortise):
    log = tmp_path / "requests.log"
    with live_server("--record", log) as running:
        running.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 6}, {"X-Request-Id": "mine-1"})
        running.post("/v1/score", {"prompt": PROMPT, "completions": [" a"]}, {"X-Request-Id": "mine-2"})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("request_id") for line in lines] == [None, "mine-1", "mine-2"]
    assert mortise("replay", log).returncode == 0


def test_unknown_fields_are_named_and_ids_come_back(server):
    _, headers, _ = server.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, "tempreature": 2},
                               {"X-Request-Id": "mine-1"})
    assert "tempreature (did you mean 'temperature'?)" in headers["Warning"]
    assert headers["X-Request-Id"] == "mine-1"


def test_unknown_fields_within_objects_are_named(server):
    body = {"prompt": "x", "max_tokens": 1, "stream": True, "stream_options": {"include_usge": True}}
    _, headers, _ = server.ask("POST", "/v1/completions", body)
    assert "stream_options.include_usge (did you mean 'stream_options.include_usage'?)" in headers["Warning"]
    _, headers, _ = server.ask("POST", "/v1/completions/render", {"prompt": "x", "temprature": 2})
    assert "temprature (did you mean 'temperature'?)" in headers["Warning"]


@pytest.mark.parametrize("fields, param", [
    ({"temperature": "hot"}, "temperature"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"messages": [{"role": "user", "contnt": "hi"}]}, "messages"),
])
def test_an_error_names_its_field(server, fields, param):
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, **fields}
    status, _, text = server.ask("POST", "/v1/chat/completions", body)
    error = json.loads(text)["error"]
    assert (status, error["param"]) == (400, param), error


def test_a_message_without_content_is_refused_but_for_an_assistants(server):
    status, _, text = server.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "contnt": "hi"}]})
    assert status == 400 and "a message of the role 'user' has no content" in text
    server.post("/v1/chat/completions", {"max_tokens": 1, "messages": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": []}, {"role": "user", "content": None}]})


def test_going_on_without_a_stream_is_refused(server):
    status, _, text = server.ask("POST", "/v1/completions", {"prompt": "x"}, {"Last-Event-ID": "1"})
    assert status == 400 and "Last-Event-ID continues a stream" in text


def test_api_keys(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# of the team\nfirst\nsecond\n")
    with live_server("--api-key-file", keys, env={"MORTISE_API_KEY": "third"}) as running:
        for header, expected in [(None, 401), ("Bearer wrong", 401), ("Basic first", 401), ("Bearer first", 200),
                                 ("bearer  second", 200), ("Bearer third", 200)]:
            status, _, _ = running.ask("GET", "/v1/models", headers={"Authorization": header} if header else {})
            assert status == expected, header
        assert running.ask("GET", "/health")[0] == 200


def test_cors():
    with live_server("--cors", "https://page.example") as running:
        _, headers, _ = running.ask("GET", "/health", headers={"Origin": "https://page.example"})
        assert headers["Access-Control-Allow-Origin"] == "https://page.example"
        _, headers, _ = running.ask("GET", "/health", headers={"Origin": "https://other.example"})
        assert "Access-Control-Allow-Origin" not in headers
        status, headers, _ = running.ask("OPTIONS", "/v1/completions", headers={
            "Origin": "https://page.example", "Access-Control-Request-Headers": "authorization"})
        assert status == 204 and headers["Access-Control-Allow-Headers"] == "authorization"


def test_a_request_has_its_deadline():
    with live_server("--request-timeout", 1) as running:
        body = {"prompt": [PROMPT] * 64, "max_tokens": 1900, "ignore_eos": True}
        status, _, text = running.ask("POST", "/v1/completions", body)
        assert status == 504 and json.loads(text)["error"]["code"] == "deadline_exceeded"
        status, _, text = running.ask("POST", "/v1/completions", {**body, "stream": True})
        errors = [data["error"]["code"] for _, data in events(text) if "error" in data]
        assert status == 200 and errors == ["deadline_exceeded"]


def test_several_models_under_their_names(tmp_path):
    demo = SOURCE / "models/demo"
    shutil.copytree(demo, tmp_path / "other")
    with live_server(demo, tmp_path / "other") as running:
        names = [model["id"] for model in running.get("/v1/models")["data"]]
        assert len(set(names)) == 2
        for name in names:
            answer = running.post("/v1/completions", {"model": name, "prompt": PROMPT, "max_tokens": 4, "seed": 1})
            assert answer["choices"][0]["text"]
            assert running.get("/v1/models/" + name)["system_fingerprint"] == answer["system_fingerprint"]
        status, _, text = running.ask("POST", "/v1/completions", {"model": "third", "prompt": "x"})
        assert status == 404 and all(name in text for name in names)


def test_overload_is_429_and_nothing_is_lost():
    with live_server("--max-waiting", 4) as running:
        statuses = []

        def ask():
            body = {"prompt": PROMPT, "max_tokens": 60, "ignore_eos": True}
            status, headers, _ = running.ask("POST", "/v1/completions", body)
            assert status == 200 or int(headers["Retry-After"]) >= 1
            statuses.append(status)

        threads = [threading.Thread(target=ask) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(statuses) == 200 and set(statuses) <= {200, 429} and 200 in statuses


def test_a_drain_finishes_what_runs():
    running = LiveServer("--drain-seconds", 600)
    answers = []
    body = {"prompt": PROMPT, "max_tokens": 1500, "ignore_eos": True, "stream": True}
    thread = threading.Thread(target=lambda: answers.append(running.ask("POST", "/v1/completions", body)))
    thread.start()
    while running.get("/status")["models"][0]["running"] == 0:
        time.sleep(0.01)
    assert running.ask("GET", "/ready")[0] == 200
    running.process.send_signal(signal.SIGTERM)
    while running.ask("GET", "/ready")[0] == 200:
        time.sleep(0.001)
    assert running.ask("POST", "/v1/completions", {"prompt": "x"})[0] == 503
    assert running.process.wait(60) == 0
    thread.join()
    assert answers[0][0] == 200 and answers[0][2].endswith("data: [DONE]\n\n")
    running.process.communicate()


def test_a_stream_that_the_end_of_a_drain_cuts_goes_on_elsewhere(server):
    body = {"prompt": PROMPT, "max_tokens": 1200, "ignore_eos": True, "stream": True, "seed": 4, "temperature": 1}
    running = LiveServer("--drain-seconds", 0)
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body))
    response = connection.getresponse()
    running.process.send_signal(signal.SIGTERM)
    with pytest.raises(http.client.IncompleteRead) as broken:  # no last chunk, no [DONE]: nobody takes it for the whole
        response.read()
    assert running.process.wait(60) == 0
    running.process.communicate()
    found = events(broken.value.partial.decode())
    assert all("error" not in data for _, data in found)
    _, _, rest = server.ask("POST", "/v1/completions", body, {"Last-Event-ID": found[-1][0]} if found else {})
    _, _, whole = server.ask("POST", "/v1/completions", body)
    text = ["".join(data["choices"][0]["text"] for _, data in chunks if data != "[DONE]")
            for chunks in (found + events(rest), events(whole))]
    assert text[0] == text[1]


def test_a_second_signal_ends_at_once():
    running = LiveServer("--drain-seconds", 1000)
    body = {"prompt": PROMPT, "max_tokens": 1900, "ignore_eos": True}
    thread = threading.Thread(target=lambda: pytest.raises(Exception, running.ask, "POST", "/v1/completions", body))
    thread.start()
    while running.get("/status")["models"][0]["running"] == 0:
        time.sleep(0.01)
    running.process.send_signal(signal.SIGTERM)
    while running.ask("GET", "/ready")[0] == 200:
        time.sleep(0.001)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(10) == -signal.SIGTERM
    thread.join()
    running.process.communicate()
