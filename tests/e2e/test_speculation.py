"""Who drafts: first_of, the field `speculation` of a request, and what on_request says. The tokens are always the same."""
import json
import re

import pytest
from conftest import BUILD

LOOKBACK = BUILD / "tests/e2e/plugins/lookback.so"
PIPELINE = """return pipeline { device = cpu {}, model = llama { path = 'DEMO' }, attention = paged {}, scheduler = fcfs {},
  kv_cache = { memory = '64MiB' }, speculation = { lengths = 'fixed' }, proposer = PROPOSER }"""
BOTH = f"first_of {{ ngram {{}}, plugin('{LOOKBACK}') {{ max_tokens = 2 }} }}"
PROMPT = "one two three four one two three four one two"


def pipeline_with(proposer):
    return PIPELINE.replace("PROPOSER", proposer)


def line(number, url="/v1/completions", **body):
    return {"custom_id": str(number), "method": "POST", "url": url,
            "body": {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "return_token_ids": True, **body}}


def tokens_of(answer):
    assert answer["error"] is None, answer
    return answer["response"]["body"]["choices"][0]["token_ids"]


def test_a_request_chooses_who_drafts_and_gets_the_same_tokens(jsonl, script):
    choices = [{}, {"speculation": None}, {"speculation": {}}, {"speculation": {"proposer": "ngram"}},
               {"speculation": {"proposer": "lookback", "max_tokens": 1}}, {"speculation": {"proposer": "none"}},
               {"speculation": {"max_tokens": 0}}]
    process, answers = jsonl("batch", [line(i, **choice) for i, choice in enumerate(choices)],
                             script(pipeline_with(BOTH)))
    assert process.returncode == 0, process.stderr
    assert len({tuple(tokens_of(answer)) for answer in answers}) == 1


@pytest.mark.parametrize("speculation, text", [
    ({"proposer": "ngrm"}, "speculation.proposer is 'ngrm', which this pipeline does not have; did you mean 'ngram'? "
                           "it has: ngram, lookback, none"),
    ({"proposer": "draft_model"}, "speculation.proposer is 'draft_model', which this pipeline does not have; it has: "
                                  "ngram, lookback, none"),
    ({"max_tokens": -1}, "speculation.max_tokens is -1; it must be from 0 to 2147483647"),
    ({"tokens": 1}, "speculation: unknown field 'tokens'; it has proposer and max_tokens"),
    ("none", "speculation: expected a JSON object, got \"none\""),
])
def test_a_wrong_choice_is_told_and_the_rest_runs(jsonl, script, speculation, text):
    chat = {"url": "/v1/chat/completions", "messages": [{"role": "user", "content": "Hello"}]}
    score = {"url": "/v1/score", "completions": [" three"]}
    path = script("function chat_template(m) return m[1].content end " + pipeline_with(BOTH))
    process, answers = jsonl("batch", [line(0, speculation=speculation), line(1, speculation=speculation, **chat),
                                       line(2, speculation=speculation, **score), line(3)], path)
    assert process.returncode == 1
    for answer in answers[:3]:
        assert text in json.dumps(answer["response"]["body"], ensure_ascii=False).replace('\\"', '"'), answer
        assert answer["response"]["status_code"] == 400
    assert len(tokens_of(answers[3])) > 0


def test_on_request_chooses_unless_the_request_does(jsonl, script):
    path = script("function on_request(r) return { proposer = r.user, max_draft_tokens = 2 } end " + pipeline_with(BOTH))
    process, answers = jsonl("batch", [line(0, user="lookback"), line(1, user="nobody"), line(2),
                                       line(3, user="nobody", speculation={"proposer": "none"})], path)
    assert process.returncode == 1
    assert tokens_of(answers[0]) == tokens_of(answers[2]) == tokens_of(answers[3])
    assert "speculation.proposer is 'nobody', which this pipeline does not have; it has: ngram, lookback, none" in \
        json.dumps(answers[1])


def test_run_chooses_who_drafts(mortise, script):
    path = script(pipeline_with(BOTH))
    args = ("run", path, "-p", PROMPT, "--temperature", 0, "--max-tokens", 24)
    without = mortise(*args, "--proposer", "none")
    drafted = mortise(*args, "--proposer", "ngram", "--max-draft-tokens", 3)
    assert without.stdout == drafted.stdout and without.returncode == 0
    assert "drafts accepted" in drafted.stderr and "drafts accepted" not in without.stderr
    wrong = mortise(*args, "--proposer", "other")
    assert wrong.returncode == 1
    assert "speculation.proposer is 'other', which this pipeline does not have; it has: ngram, lookback, none" in wrong.stderr
    dialogue = mortise("run", path, "--proposer", "none")
    assert dialogue.returncode != 0
    assert "--proposer and --max-draft-tokens need one prompt: -p PROMPT; in a dialogue use /proposer" in dialogue.stderr


@pytest.mark.parametrize("options, text", [
    ("min_match = 5, max_match = 3", "min_match is 5 and max_match is 3; min_match must not be above max_match"),
    ("min_match = 0", "option 'min_match' of proposer 'ngram' is 0 (a whole number); expected an integer from 1 to 16"),
    ("max_tokens = 0", "option 'max_tokens' of proposer 'ngram' is 0 (a whole number); expected an integer from 1 to 64"),
    ("max_match = 'all'", "option 'max_match' of proposer 'ngram' is \"all\" (a string); expected an integer from 1 to 16"),
    ("match = 3", "unknown option 'match' of proposer 'ngram'"),
])
def test_wrong_options_of_ngram_are_found_by_check(mortise, script, options, text):
    process = mortise("check", script(pipeline_with(f"ngram {{ {options} }}")))
    assert process.returncode == 1
    assert text in process.stderr


def test_plugin_commands_know_ngram(mortise):
    assert "ngram" in mortise("plugin", "list").stdout
    info = mortise("plugin", "info", "ngram")
    assert info.returncode == 0
    for option in ("min_match", "max_match", "max_tokens"):
        assert option in info.stdout


def test_a_log_is_replayed_where_its_proposers_are_not(jsonl, mortise, script, tmp_path):
    log = tmp_path / "requests.log"
    choices = [{}, {"speculation": {"proposer": "ngram", "max_tokens": 2}}, {"speculation": {"proposer": "none"}}]
    process, _ = jsonl("batch", [line(i, **choice) for i, choice in enumerate(choices)], script(pipeline_with(BOTH)),
                       "--record", log)
    assert process.returncode == 0, process.stderr
    recorded = [entry.get("speculation") for entry in sorted(map(json.loads, log.read_text().splitlines()[1:]), key=lambda e: e["request"])]
    assert recorded == [None, {"proposer": "ngram", "max_tokens": 2}, {"proposer": "none"}]
    for proposer in (BOTH, f"plugin('{LOOKBACK}') {{}}", "nil"):
        replayed = mortise("replay", log, script(pipeline_with(proposer)))
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        assert "3 compared, 0 with differences" in replayed.stdout


HOSTILE = BUILD / "tests/e2e/plugins/hostile.so"


@pytest.mark.parametrize("breach, warning", [
    ("garbage", None),  # no breach at all: just never right
    ("too_many", r"propose: \d+ drafts, but at most 4 were asked for \(OK\)"),
    ("negative", r"propose: -1 drafts, but at most 4 were asked for \(OK\)"),
    ("out_of_range", r"propose: token id (\d+) is not in the vocabulary of \1 tokens \(OK\)"),
    ("below_zero", r"propose: token id -1 is not in the vocabulary of \d+ tokens \(OK\)"),
    ("fails_half", r"propose: one of the bad days \(UNAVAILABLE\)"),
    ("observe_fails", r"observe: it would rather not know \(UNAVAILABLE\)"),
])
def test_a_hostile_proposer_changes_no_token_and_is_named(jsonl, mortise, script, tmp_path, breach, warning):
    lines = [line(i, prompt=[5 + i, 17, 29, 5 + i, 17], max_tokens=40, n=2, temperature=0.8, seed=i, logprobs=2,
                  ignore_eos=True) for i in range(6)]
    _, expected = jsonl("batch", lines, script(pipeline_with("nil")))
    (tmp_path / "out.jsonl").unlink()  # or the next batch finds every line done
    path = script(pipeline_with(f"plugin('{HOSTILE}') {{ breach = '{breach}' }}"))
    process, answers = jsonl("batch", lines, path)
    assert process.returncode == 0, process.stderr
    for answer, other in zip(answers, expected, strict=True):
        assert answer["response"]["body"]["choices"] == other["response"]["body"]["choices"]
    if warning is None:
        assert "hostile" not in process.stderr
    else:
        assert re.search(rf"proposer 'hostile': {warning}; the step continues without its drafts\n",
                         process.stderr), process.stderr
    # The count, where a person sees it; and after it another proposer drafts.
    path = script(pipeline_with(f"first_of {{ plugin('{HOSTILE}') {{ breach = '{breach}' }}, ngram {{}} }}"))
    talk = mortise("run", path, stdin=f"/set temperature 0\n/set max_tokens 40\n{PROMPT}\n/stats\n")
    assert talk.returncode == 0, talk.stderr
    assert ("proposer     failed" in talk.stderr) == (warning is not None)
    if breach in ("too_many", "negative", "out_of_range", "below_zero"):
        assert int(re.search(r"drafts       (\d+) of \d+ accepted", talk.stderr).group(1)) > 0
