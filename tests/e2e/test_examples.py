"""The projects in examples/ as a third party builds them: outside of the tree, against the installed package. Their own tests pass, the
program takes the plugins, and no token changes."""
import json
import shutil
import subprocess
import threading

import pytest
from conftest import BUILD, MORTISE, SOURCE
from live_server import LiveServer

EXAMPLES = sorted(path.parent.name for path in (SOURCE / "examples").glob("*/CMakeLists.txt"))
PIPELINE = """return pipeline {{ device = cpu {{}}, model = llama {{ path = 'DEMO' }}, attention = paged {{ block_size = 16 }},
  scheduler = {scheduler}, kv_cache = {{ memory = '{memory}' }}, speculation = {{ lengths = 'fixed' }}, proposer = {proposer} }}"""
LIMITS = "max_num_seqs = 6, max_batched_tokens = 48"


def run(*args, cwd=None):
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True, timeout=240, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """built(name) -> the folder of a copy of the example that was built with its preset."""
    work = tmp_path_factory.mktemp("examples")
    folders = {}

    def build(name):
        if name not in folders:
            if not folders:
                run("cmake", "--install", BUILD, "--component", "plugin_api", "--prefix", work / "prefix")
            folders[name] = work / name
            shutil.copytree(SOURCE / "examples" / name, work / name, ignore=shutil.ignore_patterns("build"))
            run("cmake", "--preset", "release", f"-DCMAKE_PREFIX_PATH={work / 'prefix'}", cwd=work / name)
            run("cmake", "--build", "--preset", "release", cwd=work / name)
        return folders[name]
    return build


@pytest.fixture
def plugin(built):
    """plugin(name) -> the constructor of the example in a script."""
    return lambda name: f"plugin('{built(name)}/build/release/{name}.so')"


def line(number, prompt, **body):
    return {"custom_id": str(number), "method": "POST", "url": "/v1/completions",
            "body": {"prompt": prompt, "max_tokens": 24, "return_token_ids": True, **body}}


def mixed_lines():
    """Long and short prompts and answers, priorities, shared prefixes, several choices, sampling."""
    long = "Once upon a time there was a clever otter named Miro. " * 12
    for i in range(24):
        prompt = long + str(i % 3) if i % 4 == 0 else f"Once upon a time there was a fox. Number {i} " * (1 + i % 3)
        yield line(i, prompt, max_tokens=(90, 8, 40)[i % 3], temperature=0.7 * (i % 2), seed=i, priority=i % 5 // 4, n=1 + i % 7 // 6,
                   ignore_eos=i % 2 == 0, logprobs=1)


def choices(answers):
    for answer in answers:
        assert answer["error"] is None and answer["response"]["status_code"] == 200, answer
    return [answer["response"]["body"]["choices"] for answer in answers]


@pytest.fixture
def answered(jsonl, script, tmp_path):
    """answered(lines, scheduler=..., proposer=...) -> (choices of all lines, log)."""
    def call(lines, scheduler=f"fcfs {{ {LIMITS} }}", proposer="nil", memory="4MiB"):
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        process, answers = jsonl("batch", lines, script(PIPELINE.format(scheduler=scheduler, proposer=proposer, memory=memory)))
        assert process.returncode == 0, process.stderr
        return choices(answers), process.stderr
    return call


def test_both_examples_are_found():
    assert EXAMPLES == ["shortest_job", "suffix"]
    listed = (SOURCE / "examples/README.md").read_text()
    assert all(f"`{name}`" in listed for name in EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_its_own_tests(built, name):
    run("ctest", "--preset", "release", cwd=built(name))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_the_conformance_suite(built, name):
    run(MORTISE, "plugin", "check", built(name) / f"build/release/{name}.so")


@pytest.mark.parametrize("name, texts", [("shortest_job", ["scheduler shortest_job", "integer  default 8; by how much more"]),
                                         ("suffix", ["proposer suffix", "integer  default 262144; generated tokens"])])
def test_the_program_shows_them(mortise, built, name, texts):
    info = mortise("plugin", "info", built(name) / f"build/release/{name}.so")
    assert info.returncode == 0, info.stderr
    for text in texts:
        assert text in info.stdout


@pytest.mark.parametrize("memory", ["64MiB", "3MiB"])  # the second one preempts
def test_the_scheduler_changes_no_token(answered, plugin, memory):
    lines = list(mixed_lines())
    expected, _ = answered(lines)
    for ageing in (1, 8, 1000):
        found, log = answered(lines, scheduler=f"{plugin('shortest_job')} {{ {LIMITS}, ageing = {ageing} }}", proposer="ngram {}", memory=memory)
        assert found == expected
        assert "shortest_job" not in log  # no plan of its was replaced


def test_the_proposer_changes_no_token(answered, plugin):
    lines = list(mixed_lines())
    expected, _ = answered(lines)
    for options in ("", "min_confidence = 0, max_tokens = 40", "past_tokens = 100", "past_tokens = 0"):
        found, log = answered(lines, proposer=f"{plugin('suffix')} {{ {options} }}")
        assert found == expected
        assert "suffix" not in log  # no draft broke a bound


def test_both_keep_the_rules_of_every_call(answered, plugin, monkeypatch):
    lines = list(mixed_lines())
    expected, _ = answered(lines)
    monkeypatch.setenv("MORTISE_ABI_CHECK", "1")
    found, log = answered(lines, scheduler=f"{plugin('shortest_job')} {{ {LIMITS} }}", proposer=f"{plugin('suffix')} {{}}", memory="3MiB")
    assert found == expected
    assert "breaks" not in log


def test_the_proposer_drafts_what_another_request_was_answered(mortise, script, plugin, jsonl, monkeypatch):
    monkeypatch.setenv("MORTISE_LOG", "info")
    lines = [line(i, "Once upon a time", max_tokens=100, temperature=0, ignore_eos=True) for i in range(3)]
    process, answers = jsonl("batch", lines, script(PIPELINE.format(scheduler="fcfs { max_num_seqs = 1 }", memory="16MiB",
                                                                    proposer=f"{plugin('suffix')} {{}}")))
    assert process.returncode == 0, process.stderr
    assert len({tuple(one[0]["token_ids"]) for one in choices(answers)}) == 1
    accepted = int(process.stderr.split("speculation: suffix: ")[1].split(" of ")[0])
    assert accepted > 150  # of the second and the third answer


def test_both_serve(script, plugin, answered, tmp_path):
    body = {"max_tokens": 60, "temperature": 0, "return_token_ids": True, "ignore_eos": True}
    prompts = [f"Once upon a time there was a {animal}" for animal in ("fox", "bear", "otter", "mouse", "owl", "goose")]
    expected, _ = answered([line(i, prompt, **body) for i, prompt in enumerate(prompts)])
    path = script(PIPELINE.format(scheduler=f"{plugin('shortest_job')} {{ {LIMITS} }}", proposer=f"{plugin('suffix')} {{}}", memory="16MiB"),
                  name="serve.lua")
    found = [None] * len(prompts)
    with open(tmp_path / "log", "w+") as log:
        server = LiveServer(path, log=log)

        def ask(i):
            found[i] = server.post("/v1/completions", {"prompt": prompts[i], **body})["choices"]
        try:
            for _ in range(2):
                threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert [[c["token_ids"] for c in one] for one in found] == [[c["token_ids"] for c in one] for one in expected]
            code, _ = server.end()
        finally:
            server.process.kill()
        log.seek(0)
        said = log.read()
        assert code == 0 and "warning" not in said, said  # no plan was replaced, and no draft broke a bound


@pytest.mark.parametrize("name, options, text", [
    ("shortest_job", "ageing = 0", "option 'ageing' of scheduler 'shortest_job' is 0 (a whole number); expected an integer from 1 to 1024"),
    ("shortest_job", "agein = 2", "unknown option 'agein' of scheduler 'shortest_job'"),
    ("suffix", "min_confidence = 2", "option 'min_confidence' of proposer 'suffix' is 2"),
    ("suffix", "max_tokens = 65", "option 'max_tokens' of proposer 'suffix' is 65 (a whole number); expected an integer from 1 to 64"),
])
def test_wrong_options_are_told(mortise, script, plugin, name, options, text):
    parts = {"scheduler": "fcfs {}", "proposer": "nil", "memory": "16MiB"}
    parts["scheduler" if name == "shortest_job" else "proposer"] = f"{plugin(name)} {{ {options} }}"
    process = mortise("check", script(PIPELINE.format(**parts)))
    assert process.returncode == 1 and text in process.stderr, process.stderr


def test_texts_and_acceptance(built, mortise, tmp_path):
    """The tools beside the proposer: texts of each kind, and what would be accepted on them."""
    folder = built("suffix")
    inside = subprocess.run(["git", "rev-parse", "HEAD~5"], cwd=SOURCE, capture_output=True)
    if inside.returncode != 0:
        pytest.skip("the sources are no clone with a history")
    tokenize = f"{BUILD / 'mortise'} tokenize {SOURCE / 'models/demo'}"
    for kind in ("quotes", "edits", "agent"):
        texts = subprocess.run([folder / "texts.py", kind, "--tokenize", tokenize, "--count", "8"], cwd=SOURCE, capture_output=True, text=True)
        assert texts.returncode == 0 and len(texts.stdout.splitlines()) == 8, texts.stderr
        figures = subprocess.run([folder / "build/release/acceptance", folder / "build/release/suffix.so", "{}", "16", "2"], input=texts.stdout,
                                 capture_output=True, text=True)
        assert figures.returncode == 0, figures.stderr
        assert json.loads(figures.stdout)["tokens_per_step"] > 1.5
