"""mortise verify and mortise bisect: two pipelines over one file of requests, bit by bit, and where they begin to differ."""
# Covers: runtime/bisect/{bisection,traced_run} runtime/cli/{batch_line,bisect,verification,verify,verify_options}
import json
import re
import subprocess

import pytest
from conftest import BUILD, MORTISE, run_mortise
from test_models import checkpoint, vocab_size

FOLDERS = ":".join(str(BUILD / "tests" / folder) for folder in ("e2e/plugins/flip", "e2e/plugins", "property/remote"))
PIPELINE = """pipeline {{ device = {device}, model = llama {{ path = 'DEMO'{model} }}, attention = {attention},
  scheduler = {scheduler}, proposer = {proposer}, kv_cache = {{ memory = '64MiB'{kv} }}, speculation = {{ lengths = 'fixed' }} }}"""
STORY = "Once upon a time there was a little girl who had a dog"


@pytest.fixture(autouse=True)
def plugins(monkeypatch):
    monkeypatch.setenv("MORTISE_PLUGIN_PATH", FOLDERS)


def pipeline(device="cpu { threads = 1 }", model="", attention="paged {}", scheduler="fcfs {}", proposer="nil", kv=""):
    return PIPELINE.format(device=device, model=model, attention=attention, scheduler=scheduler, proposer=proposer, kv=kv)


@pytest.fixture
def scripts(script):
    """scripts(new parts, old={old parts}) -> (old.lua, new.lua)."""
    def write(old=None, **new):
        return (script("return " + pipeline(**(old or {})), "old.lua"), script("return " + pipeline(**new), "new.lua"))
    return write


def line(custom_id, url="/v1/completions", **body):
    return {"custom_id": custom_id, "url": url, "body": body}


REQUESTS = [line("short", prompt="The", max_tokens=3),
            line("refused", prompt="x", max_tokens=-4),
            line("sampled", prompt=STORY, max_tokens=16, n=2, temperature=1.1, logprobs=2, stop=["."]),
            "no json",
            line("score", url="/v1/score", prompt="Once", completions=[" upon", " a time", ""]),
            line("chat", url="/v1/chat/completions", messages=[{"role": "user", "content": "Hi"}], max_tokens=8, temperature=0),
            line("two", prompt=[STORY, "The dog and the dog and the dog and the"], max_tokens=20, echo=True, logprobs=1,
                 temperature=0)]


@pytest.fixture
def requests(tmp_path):
    """requests([lines]) -> path of a file."""
    def write(lines=REQUESTS):
        path = tmp_path / "requests.jsonl"
        path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines))
        return path
    return write


def compared(text):
    """(requests, with differences, tokens, log probabilities) of verify's summary."""
    found = re.search(r"requests +(\d+) compared, (\d+) with differences\ntokens +(\d+) compared\nlog probabilities +(\d+) compared\n", text)
    assert found, text
    return tuple(map(int, found.groups()))


EQUAL = {
    "schedule and speculation": dict(attention="cascade { block_size = 32 }", scheduler="prefix_group { max_batched_tokens = 32 }",
                                     proposer="ngram { max_tokens = 3 }"),
    "threads": dict(device="cpu { threads = 2 }"),
    "blocks": dict(attention="paged { block_size = 64 }", kv=", prefix_cache = false"),
    "one at a time": dict(scheduler="fcfs { max_num_seqs = 1, max_batched_tokens = 16 }"),
    "memory of a device": dict(device="remote {}"),
}


@pytest.mark.parametrize("parts", EQUAL.values(), ids=EQUAL)
def test_pipelines_of_one_numerics_id_are_equal(scripts, requests, parts):
    process = run_mortise("verify", *scripts(**parts), "-i", requests())
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.startswith("numerics id        the same: cpu-bf16/1;")
    num_requests, num_different, num_tokens, num_logprobs = compared(process.stdout)
    assert (num_requests, num_different) == (7, 0)
    assert num_tokens > 50 and num_logprobs > num_tokens
    assert "refused            2 requests by both, with the same text\n" in process.stdout


FLIP = "flip_attention { layer = 3, position = 9, element = 70 }"


def test_verify_names_the_first_difference_with_its_bits_and_text(scripts, requests):
    old, new = scripts(attention=FLIP)
    file = requests()
    process = run_mortise("verify", old, new, "-i", file)
    assert process.returncode == 1
    found = re.search(r'first difference   line 3 \("sampled"\), choice (\d), position (\d+), generated token (\d+) \((\d+)\): log '
                      r"probability (-[\d.]+) \(0x([0-9a-f]{8})\) old, (-[\d.]+) \(0x([0-9a-f]{8})\) new\n", process.stdout)
    assert found, process.stdout
    assert found[6] != found[8]
    assert 'text before it     "' in process.stdout and 'text old           "' in process.stdout
    assert compared(process.stdout)[:2] == (7, 3)
    assert f"this breaks their contract. To name the operation: mortise bisect {old} {new} -i {file}\n" in process.stdout

    process = run_mortise("verify", old, new, "-i", file, "--json")
    assert process.returncode == 1
    result = json.loads(process.stdout)
    assert (result["equal"], result["requests"], result["different"], result["failed"]) == (False, 7, 3, 2)
    assert (result["first"]["line"], result["first"]["position"]) == (3, int(found[2]))
    assert result["first"]["what"] in found[0]
    assert result["numerics_ids"][0]["old"] == result["numerics_ids"][0]["new"]


def test_other_numerics_are_said_first_and_are_no_breach(scripts, requests):
    process = run_mortise("verify", *scripts(model=", dtype = 'f32'"), "-i", requests())
    assert process.returncode == 1
    assert process.stdout.startswith("numerics id        differs, so results may: 'cpu-bf16/1' is now 'cpu-f32/1'")
    assert "Their numerics ids differ, so no contract is broken.\n" in process.stdout
    assert "bisect" not in process.stdout


def test_a_log_of_requests_is_compared_like_a_file_of_them(scripts, requests, tmp_path):
    old, new = scripts(attention=FLIP)
    log = tmp_path / "requests.log"
    run_mortise("batch", old, "-i", requests(), "-o", tmp_path / "out.jsonl", "--record", log)
    assert run_mortise("verify", old, old, "-i", log).returncode == 0
    process = run_mortise("verify", old, new, "-i", log)
    assert process.returncode == 1
    num_requests, num_different, *_ = compared(process.stdout)
    assert num_requests == len(log.read_text().splitlines()) - 1  # its header is none
    assert num_different == 4  # two of them are of one line of the batch
    process = run_mortise("bisect", old, new, "-i", log)
    assert "position 9, layer 3, operation `attention run`" in process.stdout
    log.write_text(log.read_text() + '{"request": 7, "choices": 5}\n{"request": 8, "cut')
    process = run_mortise("verify", old, old, "-i", log)
    assert process.returncode == 0
    assert "refused            2 requests by both, with the same text\n" in process.stdout


def test_each_line_is_compared_in_the_pipeline_that_it_names(script, requests):
    good, bad = pipeline(), pipeline(attention=FLIP)
    old = script("return { default = %s, other = %s }" % (good, good), "old.lua")
    new = script("return { default = %s, other = %s }" % (good, bad), "new.lua")
    lines = [line("a", prompt=STORY, max_tokens=4), line("b", prompt=STORY, max_tokens=4, model="other", temperature=0),
             line("c", prompt=STORY, max_tokens=4, model="missing")]
    process = run_mortise("verify", old, new, "-i", requests(lines))
    assert process.returncode == 1
    assert process.stdout.count("numerics id        the same") == 2
    assert 'first difference   line 2 ("b"), choice 0' in process.stdout
    assert compared(process.stdout)[:2] == (3, 1)
    process = run_mortise("bisect", old, new, "-i", requests(lines))
    assert "request line 2, choice 0, position 9, layer 3, operation `attention run`" in process.stdout


def test_a_line_that_one_pipeline_refuses_is_a_difference(script, requests):
    old = script("return " + pipeline(), "old.lua")
    new = script("return { default = %s, other = %s }" % (pipeline(), pipeline()), "new.lua")
    lines = [line("a", prompt=STORY, max_tokens=4, model="any")]
    process = run_mortise("verify", old, new, "-i", requests(lines))
    assert process.returncode == 1
    assert 'first difference   line 1 ("a"), 1 requests ran old, 0 new; the answers differ: /error is null old' in process.stdout
    process = run_mortise("bisect", old, new, "-i", requests(lines))
    assert process.returncode == 1
    assert "line 1: is refused by a pipeline before it runs, so there is no operation to name" in process.stderr


def test_answers_are_compared_where_tokens_are_equal(script, requests, tmp_path):
    """Stop strings are cut from texts after the tokens are there; here the chat templates differ, and so do the prompts."""
    chat = "function chat_template(messages) return '%s' end\nreturn " + pipeline()
    old, new = script(chat % "Once", "old.lua"), script(chat % "Twice upon", "new.lua")
    lines = [line("chat", url="/v1/chat/completions", messages=[{"role": "user", "content": "Hi"}], max_tokens=2)]
    process = run_mortise("verify", old, new, "-i", requests(lines))
    assert process.returncode == 1
    assert re.search(r'line 1 \("chat"\), the prompts differ: \d+ tokens old, \d+ new; the tokenizers or chat templates differ', process.stdout)


@pytest.mark.parametrize("command", ["verify", "bisect"])
def test_bad_input_is_named(scripts, script, requests, tmp_path, command):
    old, new = scripts()

    def refused(*args, code=1, env=None):
        process = run_mortise(command, *args, env=env)
        assert process.returncode == code, process.stdout + process.stderr
        return process.stderr

    assert "missing.lua" in refused(old, tmp_path / "missing.lua", "-i", requests())
    broken = script("return pipeline {", "broken.lua")
    assert "broken.lua:1:" in refused(broken, new, "-i", requests())
    stderr = refused(old, broken, "-i", requests())
    assert "broken.lua:1:" in stderr and "old:" not in stderr  # before the old pipeline runs for hours
    assert "missing.jsonl" in refused(old, new, "-i", tmp_path / "missing.jsonl")
    assert "standard input can be read only once; give -i a file" in refused(old, new, "-i", "-")
    assert "a file for results cannot be made there" in refused(old, new, "-i", requests(), env={"TMPDIR": str(tmp_path / "none")})
    assert "--input" in refused(old, new, code=2)
    assert "new is required" in refused(old, code=2)
    empty = requests([])
    assert run_mortise(command, old, new, "-i", empty).returncode == (1 if command == "verify" else 0)


@pytest.mark.parametrize("which", ["old", "new"])
def test_a_pipeline_that_fails_ends_the_comparison(scripts, requests, which):
    rogue = dict(attention="rogue_attention { ['in'] = 'plan', does = 'internal', after = 3 }")
    old, new = scripts(old=rogue) if which == "old" else scripts(**rogue)
    process = run_mortise("verify", old, new, "-i", requests())
    assert process.returncode == 3
    assert "what a rogue says" in process.stderr


def bisected(*args):
    process = run_mortise("bisect", *args)
    assert process.returncode == 1, process.stdout + process.stderr
    found = re.search(r"first difference   step (\d+) \(old\) / step (\d+) \(new\), request line (\d+)(?: \(request \d of \d\))?, choice "
                      r"(\d+), position (\d+), (.*)\nvalues             (.*)\nbefore it          (\d+) outputs of operations were equal\n",
                      process.stdout)
    assert found, process.stdout + process.stderr
    return process.stdout, {"line": int(found[3]), "choice": int(found[4]), "position": int(found[5]), "where": found[6],
                            "values": found[7], "equal": int(found[8])}


def test_bisect_names_the_attention_and_its_wrong_element(scripts, requests):
    text, found = bisected(*scripts(attention=FLIP), "-i", requests())
    assert (found["line"], found["position"]) == (3, 9)
    assert found["where"] == "layer 3, operation `attention run` (out [1, 4, 64])"
    values = re.fullmatch(r"element 70 \(head 1, 6\): old \S+ \(0x([0-9a-f]{4})\), new \S+ \(0x([0-9a-f]{4})\); 1 of 256 elements differs",
                          found["values"])
    assert int(values[1], 16) ^ int(values[2], 16) == 1
    assert found["equal"] > 100
    assert "run                alone, without drafts, in both with the scheduler of OLD\n" in text
    assert "exchanging only `attention` causes the difference: no other part differs\n" in text


def test_of_several_parts_the_one_to_blame_is_found(scripts, requests):
    text, found = bisected(*scripts(device="cpu { threads = 2 }", attention=FLIP, scheduler="prefix_group { max_batched_tokens = 32 }",
                                    proposer="ngram { max_tokens = 3 }", kv=", prefix_cache = false"), "-i", requests())
    assert found["where"].startswith("layer 3, operation `attention run`")
    for part, outcome in (("device", "equal"), ("attention", "differs"), ("kv_cache", "equal")):
        assert f"OLD with NEW's     {part}: {outcome}\n" in text
    assert "scheduler:" not in text  # both ran with one
    assert "exchanging only `attention` causes the difference\n" in text


# The linear products of a layer are q k v, o, gate and up, down.
@pytest.mark.parametrize("flip, number, where", [
    ("linear", 0, "layer 0, operation `linear` (out [1, 512]), output 3 of 3 before the attention of layer 0"),
    ("linear", 9, "layer 2, operation `linear` (out [1, 256]), output 1 of 8 between the attention of layer 2 and that of layer 3"),
    ("linear", 11, "layer 2, operation `linear` (out [1, 256]), output 5 of 8 between the attention of layer 2 and that of layer 3"),
    ("linear", 12, "layer 3, operation `linear` (out [1, 512]), output 8 of 8 between the attention of layer 2 and that of layer 3"),
    ("rms_norm", 16, "layer 7, operation `rms_norm` (out [1, 256]), output 7 of 7 after the attention of layer 7"),
])
def test_bisect_names_the_operation_of_a_device(scripts, requests, flip, number, where):
    device = f"cpu {{ flip = '{flip}', number = {number}, token = 264, element = 37 }}"
    lines = [line("a", prompt=[11, 500, 17, 264, 23, 264, 9], max_tokens=4, temperature=0, echo=True, logprobs=0)]
    text, found = bisected(*scripts(device=device), "-i", requests(lines), "--line", "1")
    assert found["where"] == where
    assert found["values"].startswith("element 37: old ")
    assert found["position"] == 3
    assert "exchanging only `device` causes the difference: no other part differs\n" in text


def test_a_wrong_logit_is_of_the_head(scripts, requests):
    lines = [line("a", prompt=STORY, max_tokens=4, temperature=0)]
    text, found = bisected(*scripts(device="cpu { flip = 'head', element = 5 }"), "-i", requests(lines), "--line", "1")
    assert found["where"] == "after the layers, operation `head` (logits [1, 4096])"
    assert found["values"].startswith("element 5: ") and "1 of 4096 elements differs" in found["values"]


def test_what_only_drafts_show_is_found_with_drafts(scripts, requests):
    old, new = scripts(old=dict(proposer="ngram { max_tokens = 3 }"), proposer="ngram { max_tokens = 3 }",
                       attention="flip_attention { layer = 5, position = 12, element = 3, only = 'drafts' }")
    lines = [line("a", prompt="The dog and the dog and the dog and the dog and the", max_tokens=40, temperature=0)]
    text, found = bisected(old, new, "-i", requests(lines), "--line", "1")
    assert "run                alone, with scheduler and drafts as each script has them\n" in text
    assert found["where"].startswith("layer 5, operation `attention run`")
    assert "exchanging only `attention` causes the difference: no other part differs\n" in text


def test_what_needs_company_is_found_among_the_requests_around_it(scripts, requests):
    lines = [line("long", prompt="Once", max_tokens=200, temperature=0, ignore_eos=True),
             line("also", prompt="Once", max_tokens=200, temperature=0, ignore_eos=True),
             line("a", prompt="The", max_tokens=40, temperature=0, ignore_eos=True)]
    text, found = bisected(*scripts(attention="flip_attention { layer = 2, position = 25, element = 70, only = 'crowd' }"), "-i",
                           requests(lines), "--line", "3")
    assert "run                among the requests around it, with scheduler and drafts as each script has them\n" in text
    assert (found["line"], found["position"]) == (3, 25)
    assert found["where"].startswith("layer 2, operation `attention run`")


def test_rows_are_traced_in_memory_that_the_host_may_not_touch(scripts, requests):
    """As on a GPU: rows come through the device's copy. The attention of one device cannot serve the other, so exchanges go back."""
    text, found = bisected(*scripts(old=dict(device="remote {}"), attention=FLIP), "-i", requests())
    assert (found["position"], found["where"]) == (9, "layer 3, operation `attention run` (out [1, 4, 64])")
    assert "OLD with NEW's     device: equal\n" in text
    assert "OLD with NEW's     attention: cannot run, " in text
    assert "NEW with OLD's     attention: equal\nOLD's `attention` in NEW removes the difference\n" in text


@pytest.mark.parametrize("name", ["opt", "gpt2"])
def test_layers_of_other_models_are_named_too(script, requests, tmp_path, name):
    folder = checkpoint(tmp_path, name, vocab_size(name))

    def parts(attention, where):
        return script(f"return pipeline {{ device = cpu {{}}, model = {name} {{ path = '{folder}' }}, attention = {attention}, "
                      "scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }", where)
    old, new = parts("paged {}", "old.lua"), parts("flip_attention { layer = 1, position = 2, element = 1 }", "new.lua")
    lines = [line("a", prompt=[5, 6, 7, 8], max_tokens=8, temperature=0)]
    text, found = bisected(old, new, "-i", requests(lines), "--line", "1")
    assert (found["position"], found["where"].split(" (")[0]) == (2, "layer 1, operation `attention run`")
    assert found["equal"] > 4 * 10


@pytest.mark.parametrize("lines, why", [("", "it has no request"),
                                        ("no JSON\n{}\n", "both pipelines refuse all of its 2 lines")])
def test_requests_that_nobody_runs_show_nothing(scripts, tmp_path, lines, why):
    file = tmp_path / "requests.jsonl"
    file.write_text(lines)
    process = run_mortise("verify", *scripts(), "-i", file)
    assert process.returncode == 1 and f"nothing was compared: {why}; give it requests" in process.stderr


def test_equal_pipelines_have_nothing_to_bisect(scripts, requests):
    old, new = scripts(**EQUAL["schedule and speculation"])
    process = run_mortise("bisect", old, new, "-i", requests())
    assert process.returncode == 0
    assert "all results are equal: there is no difference to examine" in process.stdout
    process = run_mortise("bisect", old, new, "-i", requests(), "--line", "3")
    assert process.returncode == 0
    found = re.search(r"no difference: line 3, run among the requests around it, .*, gave equal results, and (\d+) outputs of operations of "
                      r"(\d+) tokens were equal\n", process.stdout)
    assert found and int(found[1]) > 80 * int(found[2])  # 8 layers of 10 outputs, and the outputs outside of the layers
    process = run_mortise("bisect", old, new, "-i", requests(), "--line", "99")
    assert process.returncode == 1
    assert "line 99 has no request" in process.stderr
    process = run_mortise("bisect", old, new, "-i", requests(), "--line", "0")
    assert process.returncode == 2


def test_an_interrupted_comparison_says_so(scripts, requests):
    lines = [line(str(i), prompt=STORY, max_tokens=400, ignore_eos=True) for i in range(200)]
    process = subprocess.Popen([MORTISE, "verify", *scripts(), "-i", requests(lines)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        process.wait(1.5)
        pytest.fail(f"it has ended before it could be interrupted: {process.communicate()}")
    except subprocess.TimeoutExpired:
        process.terminate()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + 15
    assert "stopped before the end of the file" in error
