"""`cpu { packed_cache = true }`: a file of packed weights beside the checkpoint changes the time of a start and nothing else.
tests/plugins/devices/cpu/weight_cache_test.cpp has what can be wrong with the file in detail."""
import concurrent.futures
import json
import os
import shutil
import threading
import time

import pytest

from conftest import SOURCE
from test_quantized import write_models

CACHE = "packed_cache = true"


def settle():
    """A checkpoint that was written less than a tenth of a second ago cannot be told from one that is written right now."""
    time.sleep(0.15)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(SOURCE / "models/demo", folder)
    settle()
    return folder


def files(folder):
    return sorted(path.name for path in folder.iterdir() if "packed" in path.name)


def tokens(process):
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    return answer["tokens"], answer["system_fingerprint"]


@pytest.fixture
def answer(mortise, pipeline):
    """answer(model, device=..., model=...) -> (tokens with log probabilities, what was said on standard error)."""
    def run(path, device="", model="", script=None):
        process = mortise("run", script or pipeline(path=path, device=device, model=model), "-p", "Once upon a time", "--max-tokens", 20,
                          "--temperature", 0.8, "--seed", 3, "--json", "--logprobs", 2, "--ignore-eos")
        return tokens(process), process.stderr
    return run


@pytest.mark.parametrize("options", ["", ', weights = "int8"', ', weights = "int4"', ', weights = "int4-block32"', ', dtype = "f32"'])
def test_tokens_are_the_same_without_it_when_it_is_made_and_with_it(options, model, answer):
    without, _ = answer(model, model=options)
    assert files(model) == []
    for device in (CACHE, CACHE, CACHE + ", threads = 1", CACHE + ', isa = "portable"'):
        with_file, said = answer(model, device, options)
        assert with_file == without
        assert "packed" not in said
    assert len(files(model)) == 1


@pytest.mark.parametrize("layout", ["gptq4_act_order", "awq", "int8"])
def test_a_checkpoint_that_comes_quantized_has_one_too(layout, tmp_path, answer):
    write_models(tmp_path, layout)
    folder = tmp_path / "quantized"
    settle()
    without, _ = answer(folder)
    made, _ = answer(folder, CACHE)
    before = [os.stat(folder / name).st_ino for name in files(folder)]
    assert len(before) == 1
    taken, said = answer(folder, CACHE)
    assert without == made == taken and "packed" not in said
    assert [os.stat(folder / name).st_ino for name in files(folder)] == before  # else: it was made anew


def test_each_format_has_a_file_of_its_own(model, answer):
    for options in ("", ', weights = "int8"', ', weights = "int4", group_size = 32', ', weights = "int8-block32"'):
        answer(model, CACHE, options)
    assert files(model) == ["mortise-cpu-bf16-int4-32.packed", "mortise-cpu-bf16-int8-0.packed",
                            "mortise-cpu-bf16-int8-block32-32.packed", "mortise-cpu-bf16.packed"]


def test_damage_is_told_and_mended(model, answer):
    without, _ = answer(model)
    answer(model, CACHE)
    file = model / files(model)[0]
    good = file.read_bytes()
    for at in (0, 20, 60, 300, 4096, len(good) // 2, len(good) - 1):
        file.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:])
        found, said = answer(model, CACHE)
        assert found == without
        assert str(file) in said and "it is not used; a new one will be written" in said, at
        assert file.read_bytes() == good
    file.write_bytes(good[:len(good) // 3])
    found, said = answer(model, CACHE)
    assert found == without and "is damaged" in said
    _, said = answer(model, CACHE)
    assert "packed" not in said


def test_a_weight_that_changed_is_served_although_the_file_looks_the_same(model, answer):
    """Other bytes, but the old size and the old time of modification."""
    old, _ = answer(model, CACHE)
    weights = model / "model.safetensors"
    times = os.stat(weights)
    with open(weights, "r+b") as stream:
        for i in range(1, 400):  # the high bytes of bf16 numbers, all over the file
            stream.seek((times.st_size * i // 400) | 1)
            byte = stream.read(1)[0]
            stream.seek(-1, 1)
            stream.write(bytes([byte ^ 0x80]))
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    settle()
    changed, said = answer(model, CACHE)
    assert "was made from other weights, or by another version" in said
    assert changed == answer(model)[0]
    assert changed[0] != old[0]


def test_where_it_cannot_be_written_the_model_is_served_all_the_same(model, answer):
    without, _ = answer(model)
    (model / "mortise-cpu-bf16.packed").mkdir()
    found, said = answer(model, CACHE)
    assert found == without
    assert "cannot be opened as a file" in said and "cannot be written" in said
    assert files(model) == ["mortise-cpu-bf16.packed"]  # no temporary file either


def test_starts_at_one_time_do_not_disturb_each_other(model, answer, pipeline):
    without, _ = answer(model)
    script = pipeline(path=model, device=CACHE)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: answer(model, script=script), range(6)))
    assert all(found == without and "damaged" not in said for found, said in answers)
    assert len(files(model)) == 1


@pytest.mark.parametrize("mode, umask, expected", [(0o600, 0o077, 0o600), (0o600, 0o022, 0o600), (0o644, 0o022, 0o644), (0o644, 0o077, 0o600)])
def test_it_is_no_more_readable_than_the_checkpoint(mode, umask, expected, model, answer):
    (model / "model.safetensors").chmod(mode)
    settle()
    before = os.umask(umask)
    try:
        answer(model, CACHE)
    finally:
        os.umask(before)
    assert os.stat(model / "mortise-cpu-bf16.packed").st_mode & 0o777 == expected


def test_what_a_killed_start_left_is_removed(model, answer):
    left = model / "mortise-cpu-bf16.packed.tmp-a1B2c3"
    left.write_bytes(b"part")
    _, said = answer(model, CACHE)
    assert files(model) == ["mortise-cpu-bf16.packed"] and "packed" not in said


KEEPS_NONE = "keeps no packed weights of it at this start: its weights are not in files, or a file was changed less than a tenth of a second ago"


def test_a_checkpoint_that_is_being_changed_is_told_and_keeps_none(model, answer, pipeline):
    without, _ = answer(model)
    script = pipeline(path=model, device=CACHE)
    done = threading.Event()

    def change():
        while not done.wait(0.005):
            os.utime(model / "model.safetensors")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        found, said = answer(model, script=script)
    finally:
        done.set()
        thread.join()
    assert found == without and files(model) == []
    assert said.count(KEEPS_NONE) == 1 and str(model) in said and "cpu" in said


def test_weights_that_are_in_no_file_are_told_too(mortise, tmp_path):
    process = mortise("bench", "decode", "--shape", "tiny", "--set", "kv_cache.memory=64MiB", "--set", "device.packed_cache=true",
                      "--batch", 1, "--prompt", 8, "--output", 4, "--repeats", 1)
    assert process.returncode == 0, process.stderr
    assert process.stderr.count(KEEPS_NONE) == 1


def test_a_wrong_value_says_what_is_expected(mortise, pipeline):
    process = mortise("check", pipeline(device='packed_cache = "yes"'))
    assert process.returncode != 0 and "packed_cache" in process.stderr and "boolean" in process.stderr
