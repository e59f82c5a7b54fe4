"""draft_model in a script: the same text with it as without, and what is said when its model does not fit."""
import json
import os
import re
import shutil

import pytest
from conftest import SOURCE

PIPELINE = """return pipeline {{
  device = cpu {{}}, model = llama {{ path = "DEMO" }}, attention = paged {{}}, scheduler = fcfs {{}},
  proposer = {proposer},
  kv_cache = {{ memory = "64MiB" }}, speculation = {{ lengths = "fixed" }},
}}
"""


@pytest.fixture
def drafting(script):
    """drafting("max_tokens = 3") -> path of a script whose draft model is models/demo-draft, or `path`."""
    def write(options="", path="DEMO-draft"):
        return script(PIPELINE.format(proposer=f'draft_model {{ path = "{path}", {options} }}'))
    return write


@pytest.fixture
def draft_copy(tmp_path):
    return shutil.copytree(SOURCE / "models/demo-draft", tmp_path / "draft")


@pytest.mark.parametrize("sampling", [("--temperature", 0), ("--temperature", 0.7, "--top-p", 0.9, "--seed", 5)])
@pytest.mark.parametrize("options", ["max_tokens = 1", "max_tokens = 8", "max_tokens = 3, branches = 4", "attention = { block_size = 32 }"])
def test_tokens_and_log_probabilities_are_those_without_it(mortise, script, drafting, sampling, options):
    request = ("-p", "Once upon a time there was a clever otter named Miro.", "--max-tokens", 120, "--json", "--logprobs", 1, *sampling)
    without = mortise("run", script(PIPELINE.format(proposer="nil"), "plain.lua"), *request)
    with_it = mortise("run", drafting(options), *request)
    assert without.returncode == with_it.returncode == 0, without.stderr + with_it.stderr
    a, b = json.loads(without.stdout), json.loads(with_it.stdout)
    for key in ("text", "tokens", "finish_reason", "system_fingerprint"):
        assert a[key] == b[key], key


def test_most_drafts_are_accepted(mortise, drafting):
    process = mortise("run", drafting("max_tokens = 3"), "-p", "Once upon a time", "--max-tokens", 150, "--temperature", 0)
    accepted, drafts = map(int, re.search(r"(\d+) of (\d+) drafts accepted", process.stderr).groups())
    assert drafts >= 100 and accepted > 0.6 * drafts, process.stderr


def test_branches_make_more_tokens_a_step(mortise, drafting):
    """Hot, so that the first draft is often wrong."""
    texts, lengths = set(), []
    for branches in (1, 2, 4):
        process = mortise("run", drafting(f"max_tokens = 4, branches = {branches}"), "-p", "The captain of the", "--max-tokens", 300, "--ignore-eos",
                          "--temperature", 1.3, "--seed", 5, env={"MORTISE_LOG": "info"})
        texts.add(process.stdout)
        lengths.append(float(re.search(r"mean acceptance length ([0-9.]+)", process.stderr)[1]))
    assert len(texts) == 1 and lengths[0] < lengths[1] < lengths[2], lengths


REJECTION = """return pipeline {{
  device = cpu {{}}, model = llama {{ path = "DEMO" }}, attention = paged {{}}, scheduler = fcfs {{ max_num_seqs = {max_num_seqs} }},
  proposer = draft_model {{ path = "DEMO-draft", max_tokens = 4{options} }},
  kv_cache = {{ memory = "2MiB" }}, speculation = {{ verify = "rejection" }},
}}
"""


def test_under_rejection_a_seed_has_its_tokens_also_where_the_targets_cache_is_full(jsonl, script):
    """Its 512 tokens are fewer than the requests want. A draft model's cache of as many tokens would sometimes lack room for a
    newcomer, which then had no drafts in that step, and other tokens."""
    lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
              "body": {"prompt": f"Once upon a time there was a {i}", "max_tokens": 100, "temperature": 1, "seed": i, "ignore_eos": True}}
             for i in range(40)]
    texts = []
    for max_num_seqs in (8, 1):
        process, answers = jsonl("batch", lines, script(REJECTION.format(max_num_seqs=max_num_seqs, options="")), "--overwrite")
        assert process.returncode == 0 and "is full" not in process.stderr, process.stderr
        texts.append([answer["response"]["body"]["choices"][0]["text"] for answer in answers])
    assert texts[0] == texts[1]


def test_under_rejection_the_fingerprint_knows_the_draft_models_weights(mortise, script, tmp_path):
    """They decide which tokens a seed gives. Without rejection they do not, and the fingerprint is the target's alone."""
    def fingerprint(folder, verify):
        text = REJECTION.format(max_num_seqs=1, options="").replace('"rejection"', f'"{verify}"').replace("DEMO-draft", str(folder))
        process = mortise("run", script(text), "-p", "Once", "--max-tokens", 1, "--json")
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)["system_fingerprint"]
    draft, copy = SOURCE / "models/demo-draft", tmp_path / "copy"
    shutil.copytree(draft, copy)
    assert fingerprint(copy, "rejection") == fingerprint(draft, "rejection") != fingerprint(draft, "coupled")
    with open(copy / "model.safetensors", "r+b") as weights:
        weights.seek(-1, os.SEEK_END)
        last = weights.read(1)[0]
        weights.seek(-1, os.SEEK_END)
        weights.write(bytes([last ^ 1]))
    assert fingerprint(copy, "rejection") != fingerprint(draft, "rejection")
    assert fingerprint(copy, "coupled") == fingerprint(draft, "coupled")


def test_under_rejection_too_little_memory_is_refused(mortise, script):
    text = refused(mortise("run", script(REJECTION.format(max_num_seqs=8, options=", kv_memory = '128KiB'")), "-p", "x"))
    assert "kv_memory of 131072 bytes holds 128 tokens of the draft model in " in text
    assert "beside the target's KV cache of 512 tokens it must hold 768" in text and "raise kv_memory to 786432 bytes" in text


def test_the_demo_drafts_with_its_own_model(mortise):
    text = mortise("plugin", "info", "draft_model").stdout
    assert "max_tokens" in text and "kv_memory" in text
    process = mortise("run", "-p", "Once upon a time", "--max-tokens", 60, "--temperature", 0)
    assert process.returncode == 0 and process.stdout.strip(), process.stderr


def refused(process):
    assert process.returncode == 1 and process.stdout == "", process.stdout + process.stderr
    assert len(process.stderr.strip().splitlines()) <= 3, process.stderr
    return process.stderr


def test_a_tokenizer_of_another_size_is_refused_with_both_sizes(mortise, drafting, draft_copy):
    file = draft_copy / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": 4096, "content": "<|new|>"})
    file.write_text(json.dumps(tokenizer))
    text = refused(mortise("run", drafting(path=draft_copy), "-p", "x"))
    assert f"the tokenizer of the draft model in {draft_copy} has 4097 tokens" in text
    assert "models/demo has 4096" in text and "use a draft model that was made with the target's tokenizer" in text


def test_a_tokenizer_of_other_tokens_is_refused_with_the_first_of_them(mortise, drafting, draft_copy):
    file = draft_copy / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocab = tokenizer["model"]["vocab"]
    by_id = {token: text for text, token in vocab.items()}
    first = by_id[100]
    vocab[by_id[100]], vocab[by_id[101]] = 101, 100
    file.write_text(json.dumps(tokenizer))
    text = refused(mortise("run", drafting(path=draft_copy), "-p", "x"))
    assert "token 100 is " in text and json.dumps(first, ensure_ascii=False) in text and "of 4096 tokens each" in text


@pytest.mark.parametrize("options, path, text", [
    ("", "/nowhere/draft", "/nowhere/draft"),
    ("", "", "option 'path' of proposer 'draft_model' is \"\""),
    ("max_tokens = 0", "DEMO-draft", "option 'max_tokens' of proposer 'draft_model' is 0"),
    ("kv_memory = 'much'", "DEMO-draft", "option 'kv_memory' is \"much\""),
    ("kv_memory = 10", "DEMO-draft", "kv_memory of 10 bytes holds no block of 16 tokens"),
    ("attention = { block_sise = 32 }", "DEMO-draft", "did you mean 'block_size'?"),
])
def test_mistakes_are_told(mortise, drafting, options, path, text):
    assert text in refused(mortise("run", drafting(options, path), "-p", "x"))


def test_a_draft_of_an_architecture_that_no_plugin_takes(mortise, drafting, draft_copy):
    config = draft_copy / "config.json"
    config.write_text(config.read_text().replace('"llama"', '"mamba"').replace("LlamaForCausalLM", "MambaForCausalLM"))
    assert "mamba" in refused(mortise("run", drafting(path=draft_copy), "-p", "x")).lower()


def test_a_path_is_needed(mortise, script):
    text = refused(mortise("run", script(PIPELINE.format(proposer="draft_model {}")), "-p", "x"))
    assert "proposer 'draft_model' needs the option 'path'" in text
