"""The dialogue of `mortise run` without a prompt, through a pipe."""
# Covers: runtime/cli/repl/{answer,commands,parts,repl,state} runtime/cli/generation
import json
import re
import shutil
import signal
import subprocess

import pytest
from conftest import BUILD, MORTISE, SOURCE

LOOKBACK = {"MORTISE_PLUGIN_PATH": str(BUILD / "tests/e2e/plugins")}
GREEDY = "/set temperature 0\n/set max_tokens 12\n"


def completion(mortise, prompt, *args):
    """What `run -p` says, greedily and in 12 tokens."""
    process = mortise("run", "-p", prompt, "--temperature", 0, "--max-tokens", 12, *args)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.fixture
def talk(mortise, tmp_path):
    """talk(lines) -> process; fails unless the exit code is `code`."""
    def call(lines, *args, code=0, env=None):
        process = mortise("run", *args, stdin=lines, env={"XDG_STATE_HOME": str(tmp_path / "state"), **(env or {})})
        assert process.returncode == code, process.stderr
        return process
    return call


def test_standard_output_has_the_completions_alone(talk, mortise, tmp_path):
    process = talk(f"{GREEDY}/help\n/help score\nOnce upon a time\n/stats\n/plugins\n/chat\n/complete\n/proposer\n"
                   f"/score 1 + 1 =| 2\n/save {tmp_path}/a.json\nQ: 2 + 3 = ? A:\n/quit\nnot read\n")
    assert process.stdout == completion(mortise, "Once upon a time") + completion(mortise, "Q: 2 + 3 = ? A:")
    assert "\x1b" not in process.stdout + process.stderr
    assert "> " not in process.stderr  # prompts are for people
    assert not (tmp_path / "state").exists()  # and so is the history


def test_an_error_is_told_with_its_line_and_the_rest_runs(talk, mortise):
    process = talk(f"{GREEDY}/nope\nOnce upon a time\n/set temperature hot\n", code=1)
    assert process.stdout == completion(mortise, "Once upon a time")
    errors = [line for line in process.stderr.splitlines() if line.startswith("mortise: ")]
    assert errors == ["mortise: line 3: unknown command /nope; /help lists all commands, and // sends text that begins with /",
                      "mortise: line 5: temperature: expected a number, got \"hot\""]


@pytest.mark.parametrize("line, text", [
    ("/sett top_p 1", "unknown command /sett; did you mean '/set'? /help lists all commands, and // sends text that begins with /"),
    ("/set temprature 1", "unknown field 'temprature'; did you mean 'temperature'? there are temperature, top_p,"),
    ("/set top_p 7", "top_p is 7; it must be above 0 and at most 1"),
    ("/seed many", "seed: expected an integer of 64 bits, got \"many\""),
    ("/chat off", "/chat can be followed by 'clear' or nothing, got 'off'; /complete ends the chat"),
    ("/complete now", "/complete has no arguments, got 'now'"),
    ("/clear all", "/clear has no arguments, got 'all'"),
    ("/stats all", "/stats has no arguments, got 'all'"),
    ("/quit now", "/quit has no arguments, got 'now'"),
    ("/score a b", "/score needs two texts with a bar between them, as in: /score The sky is | blue"),
    ("/score a |", "/score: there is nothing to score after the bar"),
    ("/help nothing", "unknown command /nothing; /help lists all commands"),
    ("/plugins pagd", "unknown plugin 'pagd'; did you mean 'paged'?"),
    ("/proposer fcfs", "proposer must be a proposer, but 'fcfs' is a scheduler"),
    ("/proposer nothing", "unknown plugin 'nothing'; in "),
    ("/proposer ngram max 4", "'max' is not an option; options are written name=value"),
    ("/save", "/save needs the name of a file, as in: /save story.json"),
    ("/save! ", "/save! needs the name of a file, as in: /save! story.json"),
    ("/save /nowhere/a.json", "/nowhere/a.json: cannot be written: No such file or directory"),
    ("/load", "/load needs the name of a file that /save wrote"),
    ("/load /nowhere.json", "/nowhere.json: no such file"),
    ("/load /dev/zero", "/dev/zero: is not a file"),
])
def test_a_mistake_is_named(talk, line, text):
    process = talk(line + "\n", code=1)
    assert f"mortise: line 1: {text}" in process.stderr
    assert process.stdout == ""


def test_two_slashes_send_text_that_begins_with_one(talk, mortise):
    assert talk(f"{GREEDY}//help me\n").stdout == completion(mortise, "/help me")


def test_entries_of_several_lines(talk, mortise):
    expected = completion(mortise, "One day\nTom went")
    assert talk(f"{GREEDY}One day\\\nTom went\n").stdout == expected
    assert talk(f'{GREEDY}"""\nOne day\nTom went\n"""\n').stdout == expected
    assert talk(f'{GREEDY}"""\r\nOne day\r\nTom went\r\n"""\r\n').stdout == expected
    assert talk(f'{GREEDY}"""\n/quit\n"""\n').stdout == completion(mortise, "/quit")


@pytest.mark.parametrize("lines, text", [
    ('"""\nhalf', 'in a block: its closing line of """ is missing'),
    ("half \\", "a line is missing after a backslash"),
])
def test_half_an_entry_is_not_sent(talk, lines, text):
    process = talk(lines, code=1)
    assert f"the input ended {text}; nothing of it was sent" in process.stderr
    assert process.stdout == ""


def test_broken_utf_8_is_replaced_and_said(mortise):
    process = subprocess.run([MORTISE, "run"], input=GREEDY.encode() + b"caf\xe9 au\xff\n", capture_output=True, timeout=120)
    assert process.returncode == 0
    assert b"mortise: line 3: not UTF-8; 2 parts were replaced by U+FFFD\n" in process.stderr
    assert process.stdout.decode() == completion(mortise, "caf\ufffd au\ufffd")


def test_set_shows_sets_and_unsets(talk):
    text = talk("/set\n/set temperature 0.25\n/set temperature\n/set\n/set temperature default\n/set stop The end.\n",
                "--top-k", 40).stderr
    assert "* top_k               40 " in text  # from the program's flags
    assert "  temperature         " in text and "* temperature         0.25 " in text
    assert text.count("temperature is 0.25\n") == 2
    assert re.search(r"temperature is \S+ \(the default\)", text)
    assert 'stop is ["The end."]' in text


def test_choices_bind_the_answer(talk):
    assert talk('/set choices ["red", "green"]\nThe colour is\n/set choices default\n/set max_tokens 1\nOnce\n').stdout \
        .splitlines()[0] in ("red", "green")
    assert talk("The colour is\n", "--choice", "blue").stdout == "blue\n"


def test_a_seed_gives_the_same_answer_again(talk):
    process = talk("/set max_tokens 30\n/set temperature 1\n/seed 7\nOnce\n/seed\nOnce\n/seed none\nOnce\n/seed\n")
    assert "seed is 7\n" in process.stderr and "no seed: each answer draws one and shows it" in process.stderr
    seeds = re.findall(r"; seed (\d+)$", process.stderr, re.MULTILINE)
    assert seeds[:2] == ["7", "7"] and seeds[2] != "7"
    again = talk("/set max_tokens 30\n/set temperature 1\n/seed 7\nOnce\n").stdout
    assert process.stdout.startswith(again + again)


def test_a_chat_keeps_its_dialogue_until_it_is_cleared(talk, tmp_path):
    file = tmp_path / "chat.json"
    process = talk(f"/set temperature 0\n/chat\nWhat is 12 + 30?\n/complete\nOnce\n/chat\n/save {file}\n/chat clear\n/chat\n"
                   f"What is 12 + 30?\n")
    assert "chat is on: no messages yet" in process.stderr and "chat is on: 2 messages" in process.stderr
    messages = json.loads(file.read_text())["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[0]["content"] == "What is 12 + 30?" and "42" in messages[1]["content"]
    assert process.stdout.startswith(messages[1]["content"] + "\n")
    assert process.stdout.endswith(messages[1]["content"] + "\n")  # after clear the same question has the same answer


def test_chat_needs_a_template(talk, mortise, tmp_path):
    model, script = tmp_path / "model", tmp_path / "plain.lua"
    shutil.copytree(SOURCE / "models/demo", model)
    config = json.loads((model / "tokenizer_config.json").read_text())
    del config["chat_template"]
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    script.write_text(mortise("run", "--print-script", model).stdout)
    process = talk(f"/chat\n{GREEDY}Once\n", script, code=1)
    assert "mortise: line 1: the checkpoint has no chat template; define a function chat_template" in process.stderr
    assert process.stdout.strip()  # not a chat: the line is a prompt


def test_score_agrees_with_the_command(talk, jsonl):
    _, rows = jsonl("score", [{"prompt": "Once upon a", "completions": [" time there"]}])
    expected = rows[0]["completions"][0]
    lines = talk("/set temperature 2\n/chat\n/score Once upon a | time there\n").stderr.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["logprob"])
    table = [line.split() for line in lines[start + 1:]]
    assert [float(row[0]) for row in table[:-1]] == pytest.approx(expected["token_logprobs"], abs=1e-6)
    assert [int(row[1]) for row in table[:-1]] == expected["ranks"]
    assert [int(row[2]) for row in table[:-1]] == expected["token_ids"]
    assert float(table[-1][0]) == pytest.approx(expected["logprob"], abs=1e-5)
    assert table[-1][-1] == str(expected["is_greedy"]).lower()


def test_score_needs_something_before_the_bar(talk, pipeline, tmp_path):
    model = shutil.copytree(SOURCE / "models/demo", tmp_path / "model")
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["post_processor"] = None  # which puts a first token before every text
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    process = talk("/score | a\n", pipeline(path=model), code=1)
    assert "mortise: line 1: /score: there is no text before the bar; the first token needs a token before it" in process.stderr
    assert "sum of " in talk("/score | a\n").stderr


def test_score_of_a_bar(talk):
    assert '"|' in talk(r"/score a \| b | \|" + "\n").stderr.replace('" |', '"|')


def test_stats_before_and_after_an_answer(talk):
    text = talk(f"/stats\n{GREEDY}Once\nOnce upon\n/stats\n").stderr
    assert "no answers yet\n" in text
    assert re.search(r"last answer  \d+ tokens?, [\d.]+ tokens/s, first token after [\d.]+ ms\n2 answers    \d+ tokens", text)
    used, free, total = map(int, re.findall(r"KV blocks    (\d+) used, (?:\d+ cached, )?(\d+) free, of (\d+)", text)[0])
    assert used + free <= total and used == 0
    assert "preemptions  0\n" in text
    assert re.search(r"drafts       \d+ of \d+ accepted", text)  # the demo has a draft model


def test_plugins_marks_what_is_in_use(talk):
    text = talk("/plugins\n/plugins paged\n/plugins lookback\n", env=LOOKBACK).stderr
    for name in ("cpu", "llama", "paged", "fcfs"):
        assert re.search(rf"^\* {name} ", text, re.MULTILINE), name
    assert re.search(r"^  lookback ", text, re.MULTILINE)
    assert "attention paged, in use: " in text and "block_size" in text
    assert "proposer lookback: " in text and 'one of "first", "latest"' in text


def test_a_proposer_changes_the_speed_and_nothing_else(talk, mortise):
    prompt = "one two three one two three one two"
    process = talk(f"{GREEDY}/proposer\n{prompt}\n/proposer lookback max_tokens=3\n{prompt}\n/set\n/proposer\n/stats\n"
                   f"/proposer none\n{prompt}\n/stats\n/proposer none\n", env=LOOKBACK)
    assert process.stdout == completion(mortise, prompt) * 3
    text = process.stderr
    shown = 'proposer: lookback eager=true max_tokens=3 notes="" occurrence="latest"'
    assert re.search(re.escape(shown) + r"; swapped in [\d.]+ s\n", text)
    assert shown + "\n" in text and text.startswith("temperature is 0\n")
    assert "* max_tokens          12 " in text  # the settings have stayed
    assert text.count("swapped in") == 1
    drafts = re.findall(r"drafts       (\d+) of (\d+) accepted", text)
    assert len(drafts) == 2 and drafts[0] == drafts[1] and int(drafts[0][1]) > 0
    assert text.rstrip().endswith("proposer: none; the pipeline has lookback")


def test_the_proposers_of_a_pipeline_are_chosen_without_opening_it_again(talk, mortise, tmp_path):
    script = tmp_path / "both.lua"
    script.write_text(f"""return pipeline {{ device = cpu {{}}, model = llama {{ path = '{SOURCE}/models/demo' }}, attention = paged {{}},
      scheduler = fcfs {{}}, kv_cache = {{ memory = '64MiB' }}, proposer = first_of {{ lookback {{}}, ngram {{}} }} }}""")
    prompt = "one two three one two three one two"
    process = talk(f"{GREEDY}/proposer\n/proposer ngram\n{prompt}\n/proposer none\n{prompt}\n/proposer first_of\n{prompt}\n"
                   "/plugins\n", script, env=LOOKBACK)
    assert process.stdout == completion(mortise, prompt) * 3
    both = ('proposer: first_of lookback eager=true max_tokens=4 notes="" occurrence="latest", '
            "ngram max_match=4 max_tokens=8 min_match=2\n")
    text = process.stderr
    assert text.count(both) == 2
    assert "proposer: ngram max_match=4 max_tokens=8 min_match=2; the pipeline has lookback, ngram\n" in text
    assert "proposer: none; the pipeline has lookback, ngram\n" in text
    assert "is open again" not in text
    drafted = ["drafts accepted" in line for line in text.splitlines() if "tokens/s; first after" in line]
    assert drafted == [True, False, True]
    assert len(re.findall(r"^\* (?:lookback|ngram) ", text, re.MULTILINE)) == 2


def test_parts_are_swapped_and_the_tokens_stay(talk, mortise):
    prompt = "Once upon a time"
    process = talk(f"{GREEDY}{prompt}\n/swap attention paged {{block_size = 16 * 2}}\n{prompt}\n/swap scheduler prefix_group\n"
                   f"/swap kv_cache {{memory = '32MiB'}}\n{prompt}\n/swap proposer none\n/swap\n{prompt}\n")
    text = process.stderr
    assert re.search(r"attention: paged; swapped in [\d.]+ s\n", text) and "\nattention: paged block_size=32\n" in text
    assert "kv_cache; swapped in" in text and "proposer: none" in text
    answers = process.stdout.split(prompt)
    printed = mortise("run", "-p", prompt, "--temperature", "0", "--max-tokens", "12").stdout
    assert process.stdout.count(printed.strip()) == 4, (answers, printed)


def test_several_proposers_are_swapped_in(talk, mortise):
    prompt = "one two three one two three one two"
    process = talk(f"{GREEDY}/swap proposer first_of {{lookback {{}}, ngram {{max_tokens = 2 + 1}}}}\n{prompt}\n/proposer ngram\n"
                   f"{prompt}\n", env=LOOKBACK)
    assert process.stdout == completion(mortise, prompt) * 2
    assert ('proposer: first_of lookback eager=true max_tokens=4 notes="" occurrence="latest", '
            "ngram max_match=4 max_tokens=3 min_match=2; swapped in ") in process.stderr
    assert "the pipeline has lookback, ngram\n" in process.stderr


LEGEND = "[accepted drafts] <bonus token after them> {token in place of a rejected draft} no draft\n"


def test_drafts_stand_between_brackets_where_there_are_no_colours(talk, mortise, always_drafting):
    process = talk(f"{GREEDY}Once upon a time\n/show drafts\nOnce upon a time\n/show\n/show drafts off\nOnce upon a time\n/show\n",
                   always_drafting)
    plain = completion(mortise, "Once upon a time")
    assert process.stdout.startswith(plain) and process.stdout.endswith(plain)
    marked = process.stdout[len(plain):-len(plain)]
    assert re.sub(r"[][<>{}]", "", marked) == plain
    accepted = re.findall(r"\[([^]]*)\]", marked)
    assert accepted and all(accepted)
    assert process.stderr.count("drafts are shown; /show drafts off ends it\n" + LEGEND) == 2
    assert process.stderr.count("drafts are not shown; /show drafts marks them\n") == 2


def test_marks_need_drafts(talk, mortise):
    process = talk(f"{GREEDY}/show drafts\n/proposer none\nOnce upon a time\n")
    assert process.stdout == completion(mortise, "Once upon a time")


def test_stats_draw_acceptance_by_position(talk, always_drafting):
    text = talk(f"{GREEDY}Once upon a time\n/stats\n", always_drafting).stderr
    bars = re.findall(r"^  position  (\d)  (█*░*)  +([\d.]+) %  (\d+) of (\d+)$", text, re.MULTILINE)
    assert [int(bar[0]) for bar in bars] == [1, 2, 3, 4, 5]
    for _, bar, share, accepted, drafted in bars:
        assert len(bar) == 30 and float(share) == pytest.approx(100 * int(accepted) / int(drafted), abs=0.06)
        assert bar.count("█") == pytest.approx(30 * int(accepted) / int(drafted), abs=0.51)


def test_a_trace_is_begun_and_ended(talk, tmp_path):
    file, taken = tmp_path / "trace.json", tmp_path / "taken.json"
    taken.write_text("mine")
    process = talk(f"{GREEDY}Once\n/trace {file}\nOnce upon a time\n/swap attention cascade\nOne day\n/trace\nOnce\n/trace\n"
                   f"/trace {file}\n/trace {tmp_path}/other.json\n/trace\n/trace {taken}\n/trace /nowhere/a.json\n", code=1)
    errors = [line for line in process.stderr.splitlines() if line.startswith("mortise: ")]
    assert errors == [
        "mortise: line 10: no trace is being written; /trace FILE begins one",
        f"mortise: line 12: a trace is already being written to {file}; end it first",
        f"mortise: line 14: {taken}: exists already; give a trace the name of a new file",
        "mortise: line 15: /nowhere/a.json: the trace cannot be written: No such file or directory; name a file in an "
        "existing folder"]
    assert process.stderr.count(f"the trace is in {file}; open it in ") == 2
    assert taken.read_text() == "mine"
    events = json.loads(file.read_text())  # the second trace, during which nothing ran
    assert [event["ph"] for event in events][:2] == ["M", "M"] and not [event for event in events if event["name"] == "step"]


def test_a_trace_has_what_ran_between(talk, tmp_path):
    file = tmp_path / "trace.json"
    talk(f"{GREEDY}/proposer none\nOnce\n/trace {file}\nOnce upon a time\n/swap attention cascade\nOne day\n/trace\nOnce\n")
    events = json.loads(file.read_text())
    assert sum(event["args"]["generated_tokens"] for event in events if event["name"] == "step") == 24
    assert sorted(event["ph"] for event in events if event["ph"] in "be") == ["b", "b", "e", "e"]


def test_a_diff_of_equal_parts(talk, script):
    other = script("return pipeline { device = cpu {}, model = llama { path = 'DEMO' }, attention = cascade { block_size = 32 }, "
                   "scheduler = prefix_group {}, kv_cache = { memory = '64MiB' } }")
    process = talk(f"/set max_tokens 40\n/set temperature 1\nOnce upon a time\n/diff \"attention cascade {{block_size = 32}}\"\n"
                   f"/diff 'scheduler fcfs {{max_num_seqs = 1}}; proposer none' now\n/diff now {other}\n"
                   "/diff attention paged {block_size = 64}\n/swap\nOnce upon a time\n/diff now now\n")
    text = process.stderr
    assert text.count("equal: 40 tokens with the same log probabilities, bit by bit\n") == 5, text
    assert "A scheduler fcfs {max_num_seqs = 1}; proposer none: 40 tokens" in text and "B now: 40 tokens" in text
    seed = re.search(r"^40 tokens.*; seed (\d+)$", text, re.MULTILINE)[1]
    assert len(re.findall(rf"^[AB] .*; seed {seed}$", text, re.MULTILINE)) == 8
    assert "\nattention: paged block_size=16\nscheduler: fcfs max_batched_tokens=2048 max_num_seqs=64\nproposer: draft_model" in text
    assert "(0 cached)" not in text and not re.search(r"^[AB] .*cached", text, re.MULTILINE)


def test_a_diff_runs_the_chat_and_its_settings_of_then(talk):
    process = talk(f"{GREEDY}/chat\nHello\n/set temperature 2\n/set max_tokens 3\n/diff scheduler prefix_group\n")
    tokens = re.search(r"^(\d+ tokens?), .*; seed", process.stderr, re.MULTILINE)[1]
    assert f"equal: {tokens} with the same log probabilities" in process.stderr


def test_a_diff_shows_the_first_token_that_differs(talk, mortise):
    process = talk(f"{GREEDY}/proposer none\nOnce upon a time\n/diff \"attention forgetful\"\nOnce upon a time\n/swap\n", env=LOOKBACK, code=1)
    found = re.search(r'mortise: line 5: not equal: token (\d+): A has (\d+) (".*") \(log probability (\S+)\), '
                      r'B has (\d+) (".*") \(log probability (\S+)\)\n', process.stderr)
    assert found and "not equal: token " in process.stderr, process.stderr
    whole = json.loads(mortise("run", "-p", "Once upon a time", "--temperature", 0, "--max-tokens", 12, "--json", "--logprobs", 0).stdout)
    token = whole["tokens"][int(found[1]) - 1]
    assert (int(found[2]), json.loads(found[3])) == (token["id"], token["token"])
    assert float(found[4]) == pytest.approx(token["logprob"], abs=1e-6)  # as few digits as tell one float from the next
    assert found[2] != found[5]
    assert process.stdout == completion(mortise, "Once upon a time") * 2  # the parts are those of before
    assert "\nattention: paged block_size=16\n" in process.stderr


@pytest.mark.parametrize("line, why", [
    ("/diff", "0 sets of parts are given, but /diff compares two; write /diff A B"),
    ("/diff now now now", "3 sets of parts are given"),
    ('/diff "attention pagd"', "did you mean 'paged'?"),
    ("/diff \"kv_cache {dtype = 'int8'}\"", "B: these parts would give different tokens"),
    ("/diff /nowhere.lua", "/nowhere.lua"),
    ("/diff 'attention paged", "a ' is not closed"),
    ("/show tokens", "/show must be followed by 'drafts on' or 'drafts off', got 'tokens'"),
    ("/swap proposer first_of {lookback {}, lookback {}}", "first_of has 'lookback' twice"),
])
def test_a_diff_that_cannot_be_made_changes_nothing(talk, mortise, line, why):
    process = talk(f"{GREEDY}Once upon a time\n{line}\n/swap\nOnce upon a time\n", env=LOOKBACK, code=1)
    assert "mortise: line 4: " in process.stderr and why in process.stderr
    assert "\nattention: paged block_size=16\n" in process.stderr
    assert process.stdout == completion(mortise, "Once upon a time") * 2


def test_a_diff_needs_a_prompt(talk):
    assert "there is no prompt to run again yet; write one, then /diff" in talk("/diff now\n", code=1).stderr


@pytest.mark.parametrize("line, why", [("/swap", ""), ("/swap scheduler fcsf", "did you mean 'fcfs'?"),
                                       ("/swap attention cascade {block_size = 17}", "block_size"),
                                       ("/swap attention cascade {block_size", "options of attention"),
                                       ("/swap kv_cache {dtype = 'int8'}", "these parts would give different tokens")])
def test_a_swap_that_is_refused_changes_nothing(talk, line, why):
    code = 1 if why else 0
    process = talk(f"{GREEDY}{line}\n/swap\n", code=code)
    assert why in process.stderr and "\nattention: paged block_size=" in process.stderr


def test_another_model_goes_on_with_the_dialogue(talk, mortise, tmp_path):
    prompt, models = "Once upon a time", SOURCE / "models"
    file = tmp_path / "saved.json"
    process = talk(f"{GREEDY}{prompt}\n/swap model llama {{path = '{models}/demo-draft'}}\n{prompt}\n/save {file}\n"
                   f"/swap model llama {{path = '{models}/demo'}}\n{prompt}\n/swap proposer none\n{prompt}\n")
    assert process.stderr.count("model: llama; swapped in") == 2
    printed = {name: mortise("run", models / name, "-p", prompt, "--temperature", "0", "--max-tokens", "12").stdout.strip()
               for name in ("demo", "demo-draft")}
    assert printed["demo"] != printed["demo-draft"]
    assert [process.stdout.count(text) for text in printed.values()] == [3, 1]
    assert json.loads(file.read_text())["model"] == "demo-draft"


def test_a_trace_ends_behind_a_model_that_leaves(talk, tmp_path):
    trace, models = tmp_path / "trace.json", SOURCE / "models"
    process = talk(f"{GREEDY}/trace {trace}\nOnce\n/swap model llama {{path = '{models}/demo-draft'}}\n/trace\nOnce\n")
    assert process.stderr.count("swapped in") == 1
    assert len({event["pid"] for event in json.loads(trace.read_text())}) == 2  # one of each model


def test_a_chat_survives_a_change_of_proposer(talk, tmp_path):
    file = tmp_path / "chat.json"
    talk(f"{GREEDY}/chat\nHello\n/proposer lookback\nHello again\n/save {file}\n", env=LOOKBACK)
    assert len(json.loads(file.read_text())["messages"]) == 4


def test_a_recorded_dialogue_is_replayed_to_the_bit(talk, mortise, tmp_path):
    log, trace = tmp_path / "log", tmp_path / "trace.json"
    talk("/set max_tokens 12\n/set temperature 1\nOnce\n/proposer lookback\nOnce\n/chat\nHello\n/score a | b\n/proposer none\nOnce\n",
         "--record", log, "--trace", trace, env=LOOKBACK)
    process = mortise("replay", log)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "5 compared, 0 with differences" in process.stdout  # four answers and a score
    assert len({event["pid"] for event in json.loads(trace.read_text())}) == 1  # one pipeline, whose proposer was swapped


@pytest.mark.parametrize("proposer, text", [
    ("lookback max_tokens=99", "option 'max_tokens' of proposer 'lookback' is 99 (a whole number); expected an integer from 1 to 16"),
    ("lookback max_token=9", "unknown option 'max_token' of proposer 'lookback'; did you mean 'max_tokens'?"),
    ("lookback notes=/nowhere/x", "proposer 'lookback'"),
    ("lookbak", "did you mean 'lookback'?"),
    ("./nothing.so", "nothing.so"),
])
def test_a_proposer_that_cannot_be_opened_leaves_the_old_one(talk, mortise, proposer, text):
    process = talk(f"{GREEDY}/proposer lookback\n/proposer {proposer}\nOnce upon a time\n/proposer\n", env=LOOKBACK, code=1)
    assert "mortise: line 4: " in process.stderr and text in process.stderr
    assert process.stdout == completion(mortise, "Once upon a time")
    assert process.stderr.rstrip().endswith('proposer: lookback eager=true max_tokens=4 notes="" occurrence="latest"')


def test_a_proposer_that_fails_to_open_says_that_the_pipeline_goes_on(talk):
    process = talk("/proposer lookback notes=/nowhere/x\n", env=LOOKBACK, code=1)
    assert "/nowhere/x: no such file" in process.stderr
    assert "the pipeline continues as it was (proposer: draft_model " in process.stderr


def test_a_dialogue_is_saved_and_loaded(talk, tmp_path):
    file = tmp_path / "my story.json"
    first = talk(f"{GREEDY}/seed 5\nOnce upon a time\n/chat\nHello\n/save {file}\n")
    assert f"saved to {file}: 2 messages, 1 completion\n" in first.stderr
    saved = json.loads(file.read_text())
    assert saved["format"] == "mortise dialogue 1" and saved["mode"] == "chat" and saved["model"] == "demo"
    assert saved["settings"] == {"max_tokens": 12, "seed": 5, "temperature": 0}
    assert saved["completions"][0]["prompt"] == "Once upon a time" and saved["completions"][0]["seed"] == 5
    assert first.stdout == saved["completions"][0]["text"] + "\n" + saved["messages"][1]["content"] + "\n"
    second = talk(f'/load "{file}"\nAnd you?\n/save\n/set\n')
    assert f"loaded {file}: 2 messages, 1 completion, settings " in second.stderr
    assert "* seed                5 " in second.stderr
    again = json.loads(file.read_text())
    assert again["messages"][:3] == saved["messages"] + [{"role": "user", "content": "And you?"}]
    assert again["completions"] == saved["completions"]
    # The dialogue went on as it would have without the file.
    whole = talk(f"{GREEDY}/chat\nHello\nAnd you?\n")
    assert whole.stdout.splitlines()[-1] == second.stdout.splitlines()[-1]


def test_a_file_is_written_over_only_when_told(talk, tmp_path):
    file = tmp_path / "a.json"
    file.write_text("mine")
    process = talk(f"/save {file}\n", code=1)
    assert f"{file}: exists already; /save! {file} overwrites it" in process.stderr
    assert file.read_text() == "mine"
    talk(f"/save! {file}\n/save {file}\n/save\n")  # its own file now
    assert json.loads(file.read_text())["messages"] == []


def test_a_file_that_is_refused_changes_nothing(talk, mortise, tmp_path):
    good = json.dumps({"format": "mortise dialogue 1", "model": "x", "system_fingerprint": "y", "mode": "chat",
                       "settings": {"temperature": 0, "max_tokens": 12}, "messages": [], "completions": []})
    refusals = {
        "text": ("hello", "is it a file that /save wrote?"),
        "deep": ("[" * 100000, "JSON is nested deeper than 100 levels"),
        "role": (good.replace('"messages": []', '"messages": [{"role": "root", "content": ""}]'), "messages[0]: role is 'root'"),
        "field": (good.replace("max_tokens", "max_tokns"), "settings: unknown field 'max_tokns'; did you mean 'max_tokens'?"),
        "range": (good.replace("12", "-1"), f"{tmp_path / 'range'}: settings: max_tokens is -1; it must be from 0"),
    }
    lines = GREEDY
    for name, (text, _) in refusals.items():
        (tmp_path / name).write_text(text)
        lines += f"/load {tmp_path / name}\n"
    process = talk(lines + "Once upon a time\n", code=1)
    for name, (_, error) in refusals.items():
        assert f"{tmp_path / name}: " in process.stderr and error in process.stderr
    assert process.stdout == completion(mortise, "Once upon a time")
    (tmp_path / "good").write_text(good)
    assert "it was made by x (y); this is demo (mortise-" in talk(f"/load {tmp_path / 'good'}\n").stderr


def test_a_prompt_over_the_limit_is_refused_and_the_dialogue_stays(talk, pipeline, script, tmp_path):
    template = 'function chat_template(m) local t = "" for i, x in ipairs(m) do t = t .. x.content .. "\\n" end return t end\n'
    small = tmp_path / "small.lua"
    small.write_text(template + pipeline(model=", max_model_len = 64").read_text())
    file = tmp_path / "a.json"
    words = "one two three " * 40
    process = talk(f"{GREEDY}{words}\n/chat\n{words}\nHello\n{words}\n/save {file}\nHi\n", small, code=1)
    errors = [line for line in process.stderr.splitlines() if line.startswith("mortise: ")]
    assert len(errors) == 3, process.stderr
    for error in errors[:2]:
        assert "exceeds max_model_len 64; shorten it or raise max_model_len" in error
    assert re.search(r"line 7: with this message the dialogue has \d+ tokens, but max_model_len is 64; the message was not "
                     r"sent. /chat clear begins a new dialogue", errors[2])
    assert [m["content"] for m in json.loads(file.read_text())["messages"]][:1] == ["Hello"]
    assert len(json.loads(file.read_text())["messages"]) == 2


def test_ctrl_c_without_a_terminal_ends_the_program(tmp_path):
    command = [MORTISE, "run"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"/set ignore_eos true\n/set max_tokens 100000\nOnce upon a time\n/set\nnever\n")
        process.stdin.flush()
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        text = process.stderr.read().decode()
    assert "abort" in text and text.count("tokens/s") == 1
    # Waiting for a line, too.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"/set temperature 0\n")
        process.stdin.flush()
        assert process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def test_a_closed_standard_input_is_an_empty_one():
    process = subprocess.run([f"{MORTISE} run <&-"], shell=True, capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_a_full_disk_is_an_error(tmp_path):
    with open("/dev/full", "w") as full:
        process = subprocess.run([MORTISE, "run"], input="Once\n", stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert process.returncode == 1
    assert process.stderr.endswith("mortise: standard output cannot be written\n")


def test_flags_for_one_prompt_are_refused_without_one(mortise):
    for flags in (["--json"], ["--logprobs", 2], ["--chat"], ["-n", 2]):
        process = mortise("run", *flags, stdin="Once\n")
        assert process.returncode == 2
        assert "--json, --logprobs, --chat and -n need one prompt: -p PROMPT" in process.stderr


def test_a_wrong_flag_is_an_error_before_the_dialogue(mortise):
    process = mortise("run", "--top-p", 7, stdin="Once\n")
    assert process.returncode == 1
    assert process.stderr == "mortise: top_p is 7; it must be above 0 and at most 1\n"


@pytest.mark.parametrize("line", ["/set stop ", "/set temperature ", "/proposer fcfs max_num_seqs="])
def test_a_million_brackets_are_text(talk, line):
    process = talk(line + "[" * 1_000_000 + "\n", code=1)
    assert process.stderr.startswith("mortise: line 1: ") and len(process.stderr) < 5000
