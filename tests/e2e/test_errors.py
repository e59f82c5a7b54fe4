"""Mistakes of a user end in one message that says what, where and what to do."""
import json
import shutil

import pytest
from conftest import BUILD, SOURCE


def refused(process):
    assert process.returncode == 1, process.stdout + process.stderr
    assert process.stdout == ""
    assert len(process.stderr.strip().splitlines()) <= 3, process.stderr
    return process.stderr


def test_a_broken_script(mortise, script):
    text = refused(mortise("run", script("return pipeline {\n  device = = cpu {},\n}"), "-p", "x"))
    assert "test.lua:2" in text


def test_an_unknown_plugin(mortise, script):
    text = refused(mortise("check", script("return pipeline { device = cpu {}, model = lama { path = 'x' } }")))
    assert "lama" in text and "llama" in text and "test.lua:1" in text


def test_an_unknown_option(mortise, pipeline):
    text = refused(mortise("run", pipeline(attention="blok_size = 16"), "-p", "x"))
    assert "blok_size" in text and "block_size" in text and "test.lua:4" in text


def test_an_option_of_the_wrong_type(mortise, pipeline):
    text = refused(mortise("check", pipeline(attention="block_size = 'big'")))
    assert "block_size" in text and "big" in text and "test.lua:4" in text


def test_a_missing_checkpoint(mortise, pipeline):
    text = refused(mortise("run", pipeline(path="/nowhere/model"), "-p", "x"))
    assert "/nowhere/model" in text


@pytest.fixture
def demo_copy(tmp_path):
    return shutil.copytree(SOURCE / "models/demo", tmp_path / "demo")


def test_a_truncated_checkpoint(mortise, pipeline, demo_copy):
    weights = demo_copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    text = refused(mortise("run", pipeline(path=demo_copy), "-p", "x"))
    assert "model.safetensors" in text and "truncated" in text


def test_a_checkpoint_without_a_config(mortise, pipeline, demo_copy):
    (demo_copy / "config.json").unlink()
    assert "config.json" in refused(mortise("run", pipeline(path=demo_copy), "-p", "x"))


def test_a_checkpoint_of_another_architecture(mortise, pipeline, demo_copy):
    config = demo_copy / "config.json"
    config.write_text(config.read_text().replace('"llama"', '"mamba"').replace("LlamaForCausalLM", "MambaForCausalLM"))
    assert "mamba" in refused(mortise("run", pipeline(path=demo_copy), "-p", "x")).lower()


def test_a_foreign_shared_object(mortise, script, tmp_path):
    shutil.copy(next(BUILD.glob("*.so")).resolve(), tmp_path / "other.so")
    (tmp_path / "text.so").write_text("not a plugin")
    text = refused(mortise("check", script("return pipeline { scheduler = plugin('./text.so') {} }")))
    assert "text.so" in text
    libc = next(p for p in map(tmp_path.__class__, ("/lib/x86_64-linux-gnu/libutil.so.1", "/lib/x86_64-linux-gnu/libc.so.6",
                                                    "/lib/aarch64-linux-gnu/libc.so.6")) if p.exists())
    text = refused(mortise("plugin", "info", "--run", libc))
    assert libc.name in text and "mortise_plugin_entry_v0" in text
    text = refused(mortise("plugin", "info", libc))
    assert libc.name in text and "no description that can be read without running its code" in text


def test_an_unknown_instruction_set(mortise):
    process = mortise("run", "-p", "x", env={"MORTISE_ISA": "sse9"})
    assert process.returncode == 1
    assert "sse9" in process.stderr and "portable" in process.stderr


@pytest.mark.parametrize("device, attention, message", [
    ("typeless {}", "blockless {}", "model 'llama': computes in bf16, which device 'typeless' does not support"),
    ("cpu {}", "inexact {}", "attention 'inexact': is not exact (a row's result may depend on its batch), so it cannot be part of a pipeline"),
    ("cpu {}", "blockless {}", "attention 'blockless': says that a KV block has 0 bytes"),
])
def test_parts_that_no_pipeline_can_be_made_of(mortise, script, device, attention, message):
    path = script(f"return pipeline {{ device = {device}, model = llama {{ path = 'DEMO' }}, attention = {attention},"
                  " scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }")
    folders = f"{BUILD / 'tests/e2e/plugins'}:{BUILD}"
    assert message in refused(mortise("run", path, "-p", "x", env={"MORTISE_PLUGIN_PATH": folders}))


def test_a_kv_cache_smaller_than_a_block(mortise, pipeline):
    text = refused(mortise("run", pipeline(memory="1KiB"), "-p", "x"))
    assert "kv_cache.memory of 1024 bytes holds no block of 16 tokens, which takes " in text and "bytes; raise it" in text


def test_a_cuda_pipeline_without_a_gpu(mortise, script):
    process = mortise("run", script("return pipeline { device = cuda {}, model = llama { path = 'DEMO' } }"), "-p", "x")
    assert process.returncode > 0
    assert 1 <= len(process.stderr.strip().splitlines()) <= 3


DRAFTING = """return pipeline {{ device = cpu {{}}, model = llama {{ path = 'DEMO' }}, attention = paged {{}}, scheduler = fcfs {{}},
  proposer = {proposer}, kv_cache = {{ memory = '64MiB' }} }}"""


@pytest.mark.parametrize("proposer", ["draft_model", "mlp_speculator"])
def test_check_finds_that_a_proposers_checkpoint_is_not_there(mortise, script, proposer):
    process = mortise("check", script(DRAFTING.format(proposer=f"{proposer} {{ path = '/nowhere/draft' }}")))
    assert process.returncode == 1
    assert f"proposer '{proposer}'" in process.stderr and "/nowhere/draft: no such folder" in process.stderr


def test_check_finds_a_damaged_draft_model(mortise, script, tmp_path):
    draft = shutil.copytree(SOURCE / "models/demo-draft", tmp_path / "draft")
    weights = draft / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    process = mortise("check", script(DRAFTING.format(proposer=f"draft_model {{ path = '{draft}' }}")))
    assert process.returncode == 1
    assert "proposer 'draft_model'" in process.stderr and "truncated" in process.stderr


def test_check_takes_a_draft_model_that_is_right(mortise, script):
    process = mortise("check", script(DRAFTING.format(proposer="draft_model { path = 'DEMO-draft' }")))
    assert process.returncode == 0, process.stderr


GPU = "return pipeline {{ device = cuda {{}}, model = llama {{ path = 'DEMO', {options} }}, attention = paged {{}}, scheduler = fcfs {{}} }}"
needs_cuda = pytest.mark.skipif(not (BUILD / "cuda.so").exists(), reason="built without CUDA")


@needs_cuda
def test_check_finds_a_type_that_the_device_does_not_compute_in(mortise, script):
    process = mortise("check", script(GPU.format(options="dtype = 'f32'")))
    assert process.returncode == 1
    assert ("model 'llama': computes in f32, which device 'cuda' does not support; with its option dtype = \"bf16\" it rounds its weights "
            "and computes in bf16") in process.stderr


@needs_cuda
def test_check_does_not_size_a_gpus_cache_as_the_cpus(mortise, script):
    process = mortise("check", script(GPU.format(options="")))
    assert process.returncode == 0, process.stderr
    assert "fills the device's memory that weights and buffers leave free: blocks of 16 tokens in 0.06 MiB" in process.stdout
    assert "512 MiB" not in process.stdout


@needs_cuda
def test_check_finds_a_draft_model_that_the_device_does_not_compute(mortise, script, tmp_path):
    draft = shutil.copytree(SOURCE / "models/demo-draft", tmp_path / "draft")
    config = json.loads((draft / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))
    drafting = GPU.replace("}} }}", "}}, proposer = draft_model {{ path = 'DRAFT'{options_of_draft} }} }}").replace("DRAFT", str(draft))
    process = mortise("check", script(drafting.format(options="", options_of_draft="")))
    assert process.returncode == 1
    assert "proposer 'draft_model'" in process.stderr and "the draft model: computes in f32, which device 'cuda' does not support; " in process.stderr
    process = mortise("check", script(drafting.format(options="", options_of_draft=", dtype = 'bf16'")))
    assert process.returncode == 0, process.stderr
    (draft / "config.json").write_text(json.dumps(config | {"head_dim": 48}))
    process = mortise("check", script(drafting.format(options="", options_of_draft="")))
    assert process.returncode == 1
    assert "proposer 'draft_model'" in process.stderr and "head_dim 48 is not supported on cuda" in process.stderr
