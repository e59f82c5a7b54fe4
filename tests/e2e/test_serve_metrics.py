"""/metrics of mortise serve, read as Prometheus reads it, and whether the dashboard and the alerts in docs/ ask for what it has."""
# Covers: runtime/openai/observer runtime/server/{engine_metrics,metrics,metrics_route}
import contextlib
import http.client
import json
import re
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from conftest import SOURCE
from live_server import live_server

PROMPT = "Once upon a time"
# What routers, dashboards and benchmark clients read, as vLLM calls it.
VLLM = """num_requests_waiting num_requests_running kv_cache_usage_perc cache_config_info prefix_cache_queries_total
prefix_cache_hits_total num_preemptions_total prompt_tokens_total generation_tokens_total spec_decode_num_drafts_total
spec_decode_num_draft_tokens_total spec_decode_num_accepted_tokens_total spec_decode_num_accepted_tokens_per_pos_total
request_success_total time_to_first_token_seconds_count inter_token_latency_seconds_count e2e_request_latency_seconds_count
request_queue_time_seconds_count request_prefill_time_seconds_count request_decode_time_seconds_count
request_prompt_tokens_count request_generation_tokens_count""".split()
TIMES = ["queue", "prefill", "decode"]


@pytest.fixture(scope="module")
def server(always_drafting):
    with live_server(always_drafting) as running:
        yield running


class Scrape:
    def __init__(self, server):
        status, headers, text = server.ask("GET", "/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
        self.families = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    def value(self, name, **labels):
        """The sum of all samples with these labels."""
        found = [sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()]
        assert found, f"no {name} {labels}"
        return sum(found)

    def by(self, name, label):
        return {sample.labels[label]: sample.value for sample in self.samples if sample.name == name}

    def names(self):
        return {sample.name for sample in self.samples}


def idle(server):
    """A scrape when nothing runs: the engine's figures are those of all requests."""
    end = time.monotonic() + 30
    while (scrape := Scrape(server)).value("vllm:num_requests_running") > 0:
        assert time.monotonic() < end
        time.sleep(0.02)
    return scrape


def stream(server, body):
    """(seconds until the first event, seconds until the end)"""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", body=json.dumps({**body, "stream": True}))
        response = connection.getresponse()
        assert response.status == 200
        response.readline()
        first = time.monotonic() - begin
        response.read()
        return first, time.monotonic() - begin


def test_every_family_has_its_type_help_and_model(server):
    scrape = Scrape(server)
    for family in scrape.families:
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert family.documentation, family.name
        for sample in family.samples:
            assert sample.labels.get("model_name") == "demo" or family.name == "mortise_http_answers", family.name
    assert len({family.name for family in scrape.families}) == len(scrape.families)


def test_what_routers_and_dashboards_read_is_there(server):
    server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 20, "ignore_eos": True, "temperature": 0})
    assert {"vllm:" + name for name in VLLM} <= idle(server).names()
    config = next(sample for sample in Scrape(server).samples if sample.name == "vllm:cache_config_info")
    assert config.labels["block_size"] == "16" and int(config.labels["num_gpu_blocks"]) > 0


def test_tokens_and_rows_are_those_of_the_requests(server):
    before = idle(server)
    prompt = [100 + i for i in range(40)]
    for _ in range(2):  # the second finds two whole blocks of the first
        server.post("/v1/completions", {"prompt": prompt, "max_tokens": 10, "ignore_eos": True, "temperature": 0})
    after = idle(server)

    def more(name, **labels):
        return after.value(name, **labels) - before.value(name, **labels)

    assert more("vllm:generation_tokens_total") == 20
    assert more("vllm:prompt_tokens_total") == more("vllm:prefix_cache_queries_total") == 80
    hits = more("vllm:prefix_cache_hits_total")
    assert 32 <= hits < 40
    assert more("mortise_step_rows_total", kind="prompt") == 80 - hits
    # Each token is decoded once, by a row of its own or by that of an accepted draft; the last of a request is not run.
    accepted = more("vllm:spec_decode_num_accepted_tokens_total")
    assert more("mortise_step_rows_total", kind="decode") + accepted >= 18
    assert more("mortise_step_rows_total", kind="draft") == more("vllm:spec_decode_num_draft_tokens_total") > 0
    assert more("mortise_rows_total") == more("mortise_step_rows_total")
    assert after.value("mortise_last_step_sequences") == 1
    assert more("vllm:request_prompt_tokens_sum") == 80 and more("vllm:request_generation_tokens_sum") == 20
    assert more("vllm:request_success_total", finished_reason="length") == 2


def test_a_stream_whose_client_went_away_is_counted(server):
    before = idle(server)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        body = {"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True, "stream": True, "n": 2}
        connection.request("POST", "/v1/completions", body=json.dumps(body))
        response = connection.getresponse()
        response.readline()
        response.close()

    def aborted(scrape):
        return scrape.by("vllm:request_success_total", "finished_reason").get("abort", 0)

    end = time.monotonic() + 30
    while aborted(after := idle(server)) < aborted(before) + 2:
        assert time.monotonic() < end
        time.sleep(0.02)
    name = "vllm:request_generation_tokens_sum"
    assert 0 < after.value(name) - before.value(name) < 800


def test_acceptance_by_position_adds_up(server):
    server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 40, "ignore_eos": True})
    scrape = idle(server)
    assert scrape.value("mortise_accepted_tokens_per_position_total") == scrape.value("mortise_accepted_tokens_total")
    assert scrape.value("mortise_draft_tokens_per_position_total") == scrape.value("mortise_draft_tokens_total")
    accepted = scrape.by("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position")
    assert sum(accepted.values()) == scrape.value("vllm:spec_decode_num_accepted_tokens_total")
    counts = [accepted[str(i)] for i in range(len(accepted))]
    assert counts == sorted(counts, reverse=True)  # nothing is accepted after a rejected draft


@pytest.mark.parametrize("streamed", [True, False])
def test_the_times_of_a_request_make_up_its_latency(server, streamed):
    before = idle(server)
    body = {"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True}
    begin = time.monotonic()
    if streamed:
        first, whole = stream(server, body)
    else:
        server.post("/v1/completions", body)
        first = whole = time.monotonic() - begin
    after = idle(server)

    def more(name):
        return after.value(name) - before.value(name)

    for name in ["time_to_first_token", "e2e_request_latency", *(f"request_{time_of}_time" for time_of in TIMES)]:
        assert more(f"vllm:{name}_seconds_count") == 1, name
    queue, prefill, decode = (more(f"vllm:request_{time_of}_time_seconds_sum") for time_of in TIMES)
    latency = more("vllm:e2e_request_latency_seconds_sum")
    assert queue >= 0 and prefill > 0 and decode > 0
    assert queue + prefill == pytest.approx(more("vllm:time_to_first_token_seconds_sum"), abs=1e-6)
    assert queue + prefill + decode == pytest.approx(latency, abs=1e-6)
    assert queue + prefill <= first and latency <= whole
    assert decode > latency / 4  # of 400 tokens the first takes the least part
    if streamed:
        assert more("vllm:inter_token_latency_seconds_sum") == pytest.approx(decode, abs=1e-6)


def test_the_time_of_steps_has_phases(server):
    server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 600, "ignore_eos": True})
    server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1})
    scrape = idle(server)
    phases = scrape.by("mortise_step_phase_seconds_total", "phase")
    assert set(phases) == {"inbox", "plan", "propose", "build", "forward", "sample", "wait", "commit", "text", "stream"}
    assert phases["forward"] > 0 and phases["propose"] > 0 and phases["wait"] == 0  # a CPU computes at once
    assert 0 < scrape.value("mortise_timed_steps_total") <= scrape.value("mortise_steps_total") / 13 + 1
    assert min(phases.values()) >= 0


def test_parts_health_and_answers(server):
    before = Scrape(server)
    assert server.ask("POST", "/v1/completions", {"prompt": PROMPT, "temperature": -1})[0] == 400
    assert server.ask("GET", "/nothing")[0] == 404
    scrape = Scrape(server)
    assert scrape.value("mortise_ready") == 1 and scrape.value("mortise_part_failed") == 0
    assert scrape.value("mortise_max_waiting_requests") == 1024
    parts = {(sample.labels["role"], sample.labels["name"]): sample.labels["version"] for sample in scrape.samples
             if sample.name == "mortise_part_info"}
    assert {("device", "cpu"), ("model", "llama"), ("attention", "paged"), ("scheduler", "fcfs"),
            ("proposer", "draft_model")} == set(parts) and all(parts.values())
    answers = "mortise_http_answers_total"
    assert scrape.value(answers, status="400") == before.value(answers, status="400") + 1
    assert scrape.value(answers, status="404") == 1


# --- docs/

FUNCTIONS = {"sum", "min", "max", "by", "rate", "increase", "histogram_quantile", "ignoring", "group_left", "and", "le",
             "model_name", "instance", "proposer", "position", "phase", "kind", "status", "finished_reason"}
SCRAPER = {"up"}  # Prometheus makes it itself


def metrics_of(expression):
    """The names of metrics in a PromQL expression: words that are no function, label or duration."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"", "", expression)
    return set(re.findall(r"[a-zA-Z_][a-zA-Z0-9_:]*", bare)) - FUNCTIONS


def expressions_of_dashboard():
    dashboard = json.loads((SOURCE / "docs/grafana.json").read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    for panel in dashboard["panels"]:
        position = panel["gridPos"]
        assert 0 <= position["x"] and position["x"] + position["w"] <= 24
        assert panel["type"] == "row" or panel["targets"], panel["title"]
        yield from (target["expr"] for target in panel.get("targets", []))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield re.fullmatch(r"label_values\((\w+), model_name\)", variable["definition"])[1]


def expressions_of_alerts():
    """The file's own form of YAML: `expr:` on one line, or a block after `|`."""
    text = (SOURCE / "docs/alerts.yml").read_text()
    for one_line, block in re.findall(r"^ +expr: (?:\|\n((?:^ {10,}.*\n)+)|(.*)\n)", text, re.MULTILINE):
        yield (one_line or block).strip()
    assert text.count("- alert: ") == text.count("expr: ")


@pytest.mark.parametrize("expressions", [expressions_of_dashboard, expressions_of_alerts])
def test_the_dashboard_and_the_alerts_ask_for_metrics_that_are_served(server, expressions):
    server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 20})
    served = idle(server).names()
    asked = set().union(*(metrics_of(expression) for expression in expressions()))
    assert len(asked) > 10
    assert asked - served - SCRAPER == set()


def test_the_dashboard_shows_every_metric(server):
    shown = set().union(*(metrics_of(expression) for expression in expressions_of_dashboard()))
    families = {name for name in Scrape(server).names() if not name.endswith(("_sum", "_count"))}
    assert families - shown <= {"vllm:spec_decode_num_draft_tokens_total"}
