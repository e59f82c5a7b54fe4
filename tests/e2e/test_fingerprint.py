"""Checkpoints that may answer differently have different fingerprints; a start does not get slower for it.
tests/unit/checkpoint/fingerprint_test.cpp has the sidecar file in detail."""
import concurrent.futures
import json
import os
import random
import re
import shutil
import time

import pytest

from conftest import SOURCE

DEMO = SOURCE / "models/demo"


def settle():
    """A checkpoint that was written less than a tenth of a second ago cannot be told from one that is written right now."""
    time.sleep(0.15)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(DEMO, folder)
    settle()
    return folder


@pytest.fixture
def header(mortise, pipeline, tmp_path):
    """header(model) -> the header of a request log: system_fingerprint and the parts of numerics_id by name."""
    def run(path, env=None):
        log = tmp_path / "requests.log"
        log.unlink(missing_ok=True)
        process = mortise("run", pipeline(path=path), "-p", "Once", "--max-tokens", 1, "--record", log, env=env)
        assert process.returncode == 0, process.stderr
        line = json.loads(log.read_text().splitlines()[0])
        parts = dict(part.split(" ", 1) for part in line["numerics_id"].split("; ")[1:])  # the first is the device's
        return line["system_fingerprint"], parts
    return run


def flip(path, at):
    with open(path, "r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 1]))


def edit_json(path, change):
    document = json.loads(path.read_text()) if path.exists() else {}
    change(document)
    path.write_text(json.dumps(document, ensure_ascii=False))


def swap_two_merges(tokenizer):
    merges = tokenizer["model"]["merges"]
    merges[-1], merges[-2] = merges[-2], merges[-1]


def test_one_byte_of_any_weight_changes_the_fingerprint(model, header):
    before, parts = header(model)
    weights = model / "model.safetensors"
    size = weights.stat().st_size
    data = 8 + int.from_bytes(weights.read_bytes()[:8], "little")
    random.seed(5)
    for at in [data, size - 1, *(random.randrange(data, size) for _ in range(6))]:
        flip(weights, at)
        settle()
        fingerprint, changed = header(model)
        assert fingerprint != before, at
        assert {name for name in parts if parts[name] != changed[name]} == {"weights"}, at
        flip(weights, at)
    settle()
    assert header(model) == (before, parts)


@pytest.mark.parametrize("file, change, part", [
    ("tokenizer.json", swap_two_merges, "tokenizer"),
    ("tokenizer.json", lambda t: t["added_tokens"][-1].update(lstrip=True), "tokenizer"),
    ("tokenizer_config.json", lambda t: t.update(eos_token=t["bos_token"]), "tokenizer"),
    ("tokenizer_config.json", lambda t: t.update(chat_template=t.get("chat_template", "") + " "), "template"),
    ("generation_config.json", lambda g: g.update(temperature=0.123), "defaults"),
    ("generation_config.json", lambda g: g.update(eos_token_id=[5]), "defaults"),
    ("config.json", lambda c: c.update(rms_norm_eps=0.125), "config"),
])
def test_each_file_that_decides_answers_has_its_part(file, change, part, model, header):
    if file == "tokenizer_config.json" and part == "template":
        (model / "chat_template.jinja").unlink(missing_ok=True)
        settle()
    before, parts = header(model)
    edit_json(model / file, change)
    fingerprint, changed = header(model)
    assert fingerprint != before
    assert {name for name in parts if parts[name] != changed[name]} == {part}


def test_the_template_file_counts_too(model, header):
    (model / "chat_template.jinja").write_text("one")
    before, _ = header(model)
    (model / "chat_template.jinja").write_text("two")
    assert header(model)[0] != before


def test_equal_copies_have_equal_fingerprints(model, header, tmp_path):
    shutil.copytree(model, tmp_path / "other" / "name")
    assert header(model) == header(tmp_path / "other" / "name") == header(DEMO)


def test_later_starts_read_the_hash_from_the_cache(model, header, tmp_path, mortise, pipeline):
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = header(model, env)
    [sidecar] = (tmp_path / "cache/mortise").iterdir()
    kept = sidecar.read_bytes()
    assert str(model) in kept.decode() and first[1]["weights"] in kept.decode()
    inode = sidecar.stat().st_ino
    assert header(model, env) == first and sidecar.stat().st_ino == inode
    process = mortise("run", pipeline(path=model), "-p", "Once", "--max-tokens", 1, env={**env, "MORTISE_LOG": "debug"})
    assert f"{sidecar}: has the hash of the weights, so they are not read again" in process.stderr
    for damaged in (b"", kept[:40], kept.replace(first[1]["weights"].encode(), b"0" * 32)):
        sidecar.write_bytes(damaged)
        assert header(model, env) == first
        assert sidecar.read_bytes() == kept


def test_weights_that_changed_are_told_although_size_and_time_are_the_old_ones(model, header):
    before, _ = header(model)
    weights = model / "model.safetensors"
    times = weights.stat()
    flip(weights, times.st_size // 2)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert header(model)[0] != before  # at once, and
    settle()
    assert header(model)[0] != before  # when the file could have been taken for settled


@pytest.mark.parametrize("home", ["/proc/none", "relative/folder"])
def test_without_a_cache_folder_the_model_is_served_all_the_same(home, model, header):
    expected = header(model)
    assert header(model, {"XDG_CACHE_HOME": home, "HOME": home}) == expected


def test_starts_at_one_time_agree(model, tmp_path, mortise, pipeline):
    script, env = pipeline(path=model), {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def start(_):
        process = mortise("run", script, "-p", "Once", "--max-tokens", 1, "--json", env=env)
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)["system_fingerprint"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(start, range(6)))) == 1
    assert len(list((tmp_path / "cache/mortise").iterdir())) == 1


@pytest.mark.parametrize("file, change", [
    ("tokenizer.json", swap_two_merges),
    ("generation_config.json", lambda g: g.update(temperature=0.5)),
])
def test_batch_does_not_go_on_with_another_tokenizer_or_other_defaults(file, change, model, pipeline, tmp_path, mortise):
    lines = [{"custom_id": str(i), "url": "/v1/completions", "body": {"prompt": "Once", "max_tokens": 3}} for i in range(4)]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ("batch", pipeline(path=model), "-i", source, "-o", target)
    assert mortise(*command).returncode == 0
    whole = target.read_bytes()
    half = b"".join(whole.splitlines(keepends=True)[:2])
    target.write_bytes(half)
    edit_json(model / file, change)
    process = mortise(*command)
    assert process.returncode == 1 and "has results of system_fingerprint mortise-" in process.stderr
    assert target.read_bytes() == half


def test_a_log_of_an_earlier_version_replays_and_says_what_changed(model, pipeline, tmp_path, mortise):
    log, script = tmp_path / "requests.log", pipeline(path=model)
    assert mortise("run", script, "-p", "Once", "--max-tokens", 4, "--record", log).returncode == 0
    lines = log.read_text().splitlines()
    header = json.loads(lines[0])
    numerics = re.sub(r"weights \w+; .*; kv", "weights 0123456789abcdef; kv", header["numerics_id"]) + "; world 1"
    assert numerics.count(";") == 5
    header.update(system_fingerprint="mortise-0123456789abcdef", numerics_id=numerics)
    log.write_text("\n".join([json.dumps(header), *lines[1:]]) + "\n")
    process = mortise("replay", log, script)
    assert process.returncode == 0, process.stderr
    assert re.search(r"'weights 0123456789abcdef' is now 'weights \w{32}', 'world 1' is gone, 'config \w{32}' is new, 'defaults \w{32}' is new, "
                     r"'tokenizer \w{32}' is new, 'template \w{32}' is new\n", process.stderr), process.stderr
