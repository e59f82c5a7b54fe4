"""mortise bench: every scenario on a small shape, what it writes, and its errors. No test asserts a time: a machine may be slow."""
# Covers: runtime/bench_command/{attention_scenario,bench,generation_scenarios,limits_scenario,memory_scenario,pipeline_files,prediction_scenario}
# Covers: runtime/bench_command/{prefill_case,prefix_attention,random_model,scenarios,score_scenario,serve_scenario,speculation_work,startup_scenario}
# Covers: runtime/bench_command/subject runtime/cli/bench runtime/pipeline/demo_script
import json
import re

import pytest

from conftest import BUILD, run_mortise
from live_server import live_server

SMALL = ("--shape", "tiny", "--set", "kv_cache.memory=64MiB", "--set", "device.threads=2")
SCENARIOS = {
    "decode": (("--batch", "1,2", "--prompt", 8, "--output", 4), ["decode, batch 1", "decode, batch 2"]),
    "prefill": (("--batch", 2, "--prompt", 32), ["prefill, 2 x 32"]),
    "batch": (("--batch", 4, "--prompt", 24, "--output", 10), ["batch, 4 mixed"]),
    "groups": (("--groups", 2, "--batch", 2, "--shared", 32, "--own", 8, "--output", 4), ["groups, 2 x 2, 32 + 8 + 4"]),
    "score": (("--batch", 2, "--prompt", 32, "--groups", 2, "--shared", 33, "--own", 3),
              ["prefill, 2 x 32", "head's product, 62 rows of 64", "score, 2 x 32", "prefill, 2 x 81",
               "head's product, 96 rows of 162", "score, 2 x 16 choices of 3 over 33", "score over prefill",
               "score over prefill and head", "choices over prefill", "choices over prefill and head"]),
    "startup": ((), ["start to first token"]),
}


def bench(tmp_path, *args, env=None):
    """(what it printed, the JSON that it wrote)"""
    process = run_mortise("bench", *args, "--json", tmp_path / "out.json", env=env)
    assert process.returncode == 0, process.stderr
    return process.stdout, json.loads((tmp_path / "out.json").read_text())


def refusal(*args, env=None):
    process = run_mortise("bench", *args, env=env)
    assert process.returncode in (1, 2) and process.stdout == ""
    assert process.stderr.startswith("mortise: ") and process.stderr.count("\n") == 1
    return process.stderr[len("mortise: "):-1]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_has_its_figures_and_their_floors(tmp_path, scenario):
    sizes, names = SCENARIOS[scenario]
    table, report = bench(tmp_path, scenario, *SMALL, *sizes, "--repeats", 2)
    assert [f["name"] for f in report["figures"]] == names
    for figure in report["figures"]:
        assert len(figure["samples"]) == 2 and min(figure["samples"]) > 0 and figure["value"] > 0
        assert figure["floor"] > 0 and figure["ratio"] > 0
        assert figure["name"] in table
    assert report["format"] == 1 and report["scenario"] == scenario and report["repeats"] == 2
    assert report["subject"] == "tiny (random weights), kv_cache.memory=64MiB, device.threads=2"
    assert report["limits"]["read_bytes_per_s"] > 0 and report["limits"]["movement"] == "read"
    assert "limits of this run: read " in table


RANKS = (*SMALL, "--set", "device.shards=2")


@pytest.mark.parametrize("scenario", ["decode", "prefill", "batch", "groups", "score"])
def test_floors_of_ranks_include_their_links(tmp_path, scenario):
    sizes, names = SCENARIOS[scenario]
    table, report = bench(tmp_path, scenario, *RANKS, *sizes, "--repeats", 2, env={"MORTISE_ABI_CHECK": "1"})
    assert [f["name"] for f in report["figures"]] == names
    for figure in report["figures"]:
        assert min(figure["samples"]) > 0 and figure["floor"] > 0 and figure["ratio"] > 0
        if figure["unit"] == "times":  # a quotient of floors
            assert figure["links"] is None
        else:
            assert 0 < figure["links"] < 1
    limits = report["limits"]
    assert limits["ranks"] == 2 and limits["links"]["latency_s"] > 0 and limits["links"]["bytes_per_s"] > 0
    assert "limits of this run, each of 2 ranks: read " in table
    assert re.search(r"^links of the ranks: [0-9.]+ us for an exchange of one row, [0-9.]+ GB/s for many$", table, re.M)
    assert " (links " in table


def test_one_rank_has_no_links(tmp_path):
    sizes, _ = SCENARIOS["decode"]
    table, report = bench(tmp_path, "decode", *SMALL, *sizes, "--repeats", 1)
    assert report["limits"]["ranks"] == 1 and report["limits"]["links"] is None and "links" not in table
    assert all(figure["links"] is None for figure in report["figures"])


@pytest.mark.parametrize("scenario, sizes", [
    ("memory", ("--batch", 2, "--prompt", 40)),
    ("startup", ()),
    ("prediction", ("--prompt", 16, "--output", 24)),
    ("serve", ("--batch", 2, "--prompt", 8, "--output", 6)),
    ("speculation", ("--rates", "1", "--batch", 2, "--prompt", 6, "--output", 8, "--draft-tokens", 3))])
def test_scenarios_without_links_run_on_ranks_too(tmp_path, scenario, sizes):
    _, report = bench(tmp_path, scenario, *RANKS, *sizes, "--repeats", 1)
    assert "device.shards=2" in report["subject"]
    if scenario == "speculation":
        assert report["speculation"][0]["fixed"]["acceptance_rate"] == 1
    else:
        assert all(figure["value"] > 0 for figure in report["figures"])


def test_limits_of_ranks_on_a_processor_are_those_of_the_machine(tmp_path, pipeline):
    _, report = bench(tmp_path, "limits", pipeline(device="shards = 2"), "--repeats", 1)
    assert report["subject"] == "this machine"


def test_a_setting_may_be_a_list(script):
    path = script("""return pipeline { device = cpu { shards = 2 }, model = llama { path = 'DEMO' }, attention = paged {}, scheduler = fcfs {},
        proposer = draft_model { path = 'DEMO-draft' } }""")
    text = refusal("decode", path, "--set", "proposer.devices=[2]")
    assert "option 'devices' names rank 2, but the pipeline has 2, counted from 0" in text


def test_choices_share_their_context(tmp_path):
    _, report = bench(tmp_path, "score", *SMALL, "--batch", 1, "--prompt", 8, "--groups", 2, "--shared", 33, "--own", 3,
                      "--repeats", 1)
    figure = next(f for f in report["figures"] if f["name"].startswith("score, 2 x 16"))
    assert figure["note"].startswith(f"{2 * 15 * 32} tokens cached, ")  # but for the last one, whose row each needs


def test_memory_is_that_of_processes(tmp_path):
    _, report = bench(tmp_path, "memory", *SMALL, "--batch", 2, "--prompt", 40, "--repeats", 1)
    assert [f["name"] for f in report["figures"]] == ["prefill, 2 x 40", "score, 2 x 40", "score over prefill"]
    assert all(f["value"] > 10 for f in report["figures"][:2])  # MiB; less: nothing ran


def test_predictions_beside_the_prefill(tmp_path):
    _, report = bench(tmp_path, "prediction", *SMALL, "--prompt", 16, "--output", 24, "--repeats", 1)
    assert [f["name"] for f in report["figures"]] == [
        "prefill, 1 x 40", "right prediction, 24 after 16", "resumed, 24 after 16", "no prediction, 24 after 16",
        "wrong prediction, 24 after 16", "right prediction over prefill", "resumed over prefill",
        "wrong prediction over none"]
    assert all(f["value"] > 0 for f in report["figures"])


def test_a_server_beside_its_engine_and_another_server(tmp_path):
    with live_server() as other:
        _, report = bench(tmp_path, "serve", *SMALL, "--batch", 3, "--prompt", 8, "--output", 6, "--repeats", 1, "--url",
                          other.url)
    assert [f["name"] for f in report["figures"]] == [
        *(f"{who}, {what}" for who in ("engine", "mortise serve", other.url) for what in ("3 streams", "first token")),
        *(f"{who} over engine, {what}" for who in ("mortise serve", other.url) for what in ("streams", "first token"))]
    assert all(f["value"] > 0 for f in report["figures"])


def test_servers_that_cannot_be_measured_are_named():
    sizes = (*SMALL, "--batch", 1, "--prompt", 4, "--output", 2, "--repeats", 1)
    assert refusal("serve", *sizes, "--url", "ftp://x") == "--url ftp://x: expected http://HOST:PORT"
    assert "cannot be reached: Connection refused; is the server running?" in refusal(
        "serve", *sizes, "--url", "http://127.0.0.1:1")
    assert "is not an address; give a url such as http://127.0.0.1:8000" in refusal("serve", *sizes, "--url", "http://no.host.:1")
    assert refusal("decode", "--url", "http://x:1") == "--url: is for the scenario serve"
    with live_server("--max-connections", 1) as other, other.connect():
        assert "the server refused a request: HTTP/1.1 503" in refusal("serve", *sizes, "--url", other.url)


def test_groups_share_their_prefix(tmp_path):
    sizes, _ = SCENARIOS["groups"]
    _, report = bench(tmp_path, "groups", *SMALL, *sizes, "--repeats", 1)
    # One of each two computes the 32 tokens, the other finds them.
    assert report["figures"][0]["note"] == "64 tokens cached, 96 computed (1.00 times the distinct tokens)"


def test_prompts_of_repeats_find_nothing_in_the_prefix_cache(tmp_path):
    _, report = bench(tmp_path, "groups", *SMALL, "--groups", 2, "--batch", 1, "--shared", 32, "--own", 8, "--output", 2,
                      "--repeats", 3)
    assert report["figures"][0]["note"] == "0 tokens cached, 80 computed (1.00 times the distinct tokens)"


def test_preemptions_are_told(tmp_path):
    # 40 blocks of 6 KiB * 16 tokens: two of the sequences of 21 blocks do not fit.
    _, report = bench(tmp_path, "decode", "--shape", "tiny", "--set", "kv_cache.memory=4MiB", "--batch", 2, "--prompt", 16,
                      "--output", 400, "--repeats", 1)
    assert "preemptions" in report["figures"][0]["note"]


def test_limits_need_no_model(tmp_path):
    table, report = bench(tmp_path, "limits", "--repeats", 1)
    names = [f["name"] for f in report["figures"]]
    assert "read memory, 1 thread" in names
    assert all(f["floor"] is None and f["value"] > 0 for f in report["figures"])
    assert "read memory, 1 thread" in table


def test_limits_of_a_script_are_those_of_its_device(tmp_path, pipeline):
    _, alone = bench(tmp_path, "limits", "--repeats", 1)
    _, report = bench(tmp_path, "limits", pipeline(), "--repeats", 1)  # a processor's: the machine's
    assert report["subject"] == "this machine"
    assert [f["name"] for f in report["figures"]] == [f["name"] for f in alone["figures"]]


def test_the_demo_and_a_script_are_measured_too(tmp_path, pipeline):
    sizes, names = SCENARIOS["decode"]
    _, report = bench(tmp_path, "decode", *sizes, "--repeats", 1)
    assert report["subject"] == "demo" and [f["name"] for f in report["figures"]] == names
    path = pipeline(device="threads = 1")
    table, report = bench(tmp_path, path, "decode", *sizes, "--repeats", 1)  # script and scenario in either order
    assert report["subject"] == str(path) and "1 thread" in table
    _, report = bench(tmp_path, "decode", path, "--shape", "tiny", *sizes, "--repeats", 1)
    assert report["subject"] == f"tiny (random weights) in {path}"


def test_pairs_of_settings_and_of_scripts(tmp_path, pipeline):
    sizes = ("--batch", 1, "--prompt", 8, "--output", 4)
    table, report = bench(tmp_path, "decode", *SMALL, *sizes, "--against", "device.threads=1", "--against",
                          "device.isa=portable", "--repeats", 6, env={"MORTISE_ISA": ""})
    (pair,) = report["pairs"]
    assert report["figures"] == [] and len(pair["a_samples"]) == len(pair["b_samples"]) == 6
    assert pair["bound"][0] <= pair["speed"] <= pair["bound"][1]
    assert report["against"].startswith("tiny (random weights), kv_cache.memory=64MiB, device.threads=2, "
                                        "device.threads=1, device.isa=portable; ")
    assert any(text in table for text in ("B is faster", "B is slower", "no difference shown"))
    path = pipeline(memory="32MiB")
    table, report = bench(tmp_path, "decode", *sizes, "--against", path, "--repeats", 2)
    assert report["pairs"][0]["bound"] is None and "too few pairs" in table


def test_speculation_compares_its_sides_in_turns(tmp_path):
    table, report = bench(tmp_path, "speculation", *SMALL, "--rates", "0,1", "--batch", "1,3", "--prompt", 6, "--output", 12,
                          "--draft-tokens", 3, "--repeats", 2)
    rows = {(row["work"], row["proposer"], row["batch"]): row for row in report["speculation"]}
    assert list(rows) == [(work, proposer, batch) for work, proposer in
                          (("rate 0.00", "oracle"), ("rate 1.00", "oracle"), ("no match", "ngram")) for batch in (1, 3)]
    for (work, _, _), row in rows.items():
        assert all(len(row[side]["samples"]) == 2 for side in ("none", "fixed", "adaptive"))
        assert row["none"]["mean_acceptance_length"] == 1
        assert row["fixed"]["acceptance_rate"] == (1 if work == "rate 1.00" else 0)
        assert row["adaptive_over_better"]["ratio"] > 0 and row["adaptive_over_better"]["bound"] is None  # too few turns
        assert f"{row['work']}, {row['proposer']}, {row['batch']} " in table
        assert row["none"]["speculation"]["verify_steps"] == 0
        drafting, = row["fixed"]["speculation"]["proposers"]
        assert drafting["name"] == row["proposer"] and drafting["acceptance_rate"] == row["fixed"]["acceptance_rate"]
    fixed = rows["rate 1.00", "oracle", 3]["fixed"]["speculation"]
    assert fixed["proposers"][0]["acceptance_rate_by_position"] == [1, 1, 1] and fixed["verify_s"] > 0
    # Two runs of three sequences, each with drafts of 3, 3 and 2 tokens; a run that does not count is not in it.
    assert fixed["proposers"][0]["draft_tokens"] == 2 * 3 * 8 and fixed["proposers"][0]["verified"] == 2 * 3 * 3
    # 11 tokens after the first, in steps of 4, 4 and what is left.
    assert rows["rate 1.00", "oracle", 1]["fixed"]["mean_acceptance_length"] == pytest.approx(11 / 3)


def test_an_oracle_drafts_at_the_cost_of_a_draft_model(tmp_path):
    sizes = ("--rates", "0.5", "--batch", 2, "--prompt", 6, "--output", 12, "--draft-tokens", 3, "--repeats", 1)
    for subject, label in ((SMALL, "tiny (random weights), draft model 68m, kv_cache.memory=64MiB, device.threads=2"),
                           (SMALL[2:], "demo, draft model 68m, kv_cache.memory=64MiB, device.threads=2")):
        _, with_model = bench(tmp_path, "speculation", *subject, "--draft-shape", "68m", *sizes)
        _, without = bench(tmp_path, "speculation", *subject, *sizes)
        assert with_model["subject"] == label
        (costly, lookup), (free, _) = with_model["speculation"], without["speculation"]
        assert (costly["work"], lookup["proposer"]) == ("rate 0.50", "ngram")
        assert costly["fixed"]["acceptance_rate"] == free["fixed"]["acceptance_rate"] > 0  # the drafts do not depend on the model
        assert costly["fixed"]["speculation"]["proposers"][0]["draft_s"] > 10 * free["fixed"]["speculation"]["proposers"][0]["draft_s"]


def test_speculation_of_a_script_has_its_proposers(tmp_path, script):
    path = script("""return pipeline { device = cpu {}, model = llama { path = 'DEMO' }, attention = paged {}, scheduler = fcfs {},
      kv_cache = { memory = '64MiB' }, proposer = plugin('LOOKBACK') { max_tokens = 2 } }""".replace(
        "LOOKBACK", str(BUILD / "tests/e2e/plugins/lookback.so")))
    _, report = bench(tmp_path, "speculation", path, "--batch", 1, "--output", 8, "--repeats", 1)
    assert [(row["work"], row["proposer"]) for row in report["speculation"]] == [("stories", "lookback"), ("quoted text", "ngram")]
    quoted = report["speculation"][1]["fixed"]
    assert quoted["acceptance_rate"] > 0.3 and quoted["mean_acceptance_length"] > 2  # the demo model was taught to quote


@pytest.mark.parametrize("args, text", [
    (("speculation", "--rates", "1.5"), "--rates 1.5: expected shares from 0 to 1"),
    (("speculation", "--batch", 65), "--batch 65: expected 1 to the scheduler's max_num_seqs 64; raise it with --set scheduler.max_num_seqs=N"),
    (("speculation", "--output", 1), "--output 1: expected 2 or more"),
    (("speculation", "--trace", "t.json"), "bench speculation: compares its own two sides, which it opens several times; leave out --against and --trace"),
    (("speculation", "--shape", "tiny", "--draft-shape", "7b"), "--draft-shape 7b: no shape has that name; there are tiny, 68m, 160m, 1b, 8b, 70b"),
    (("decode", "--rates", "0.5"), "--rates, --draft-tokens and --draft-shape: are for the scenario speculation"),
    (("decode", "--draft-shape", "tiny"), "--rates, --draft-tokens and --draft-shape: are for the scenario speculation"),
])
def test_what_speculation_refuses(args, text):
    assert refusal(*args) == text


@pytest.mark.parametrize("kv_dtype", ["auto", "int8"])
def test_attention_compares_cascade_with_paged(tmp_path, kv_dtype):
    table, report = bench(tmp_path, "attention", "--shape", "tiny", "--batch", 16, "--shared", 600, "--own", 40, "--set",
                          "device.threads=2", "--set", f"kv_cache.dtype={kv_dtype}", "--repeats", 2)
    what = "16 x (600 shared + 40)"
    figures = {f["name"]: f for f in report["figures"]}
    assert list(figures) == [f"{side} {kind}, {what}" for kind in ("step", "KV read")
                             for side in ("paged", "cascade")] + [f"paged over cascade {kind}, {what}" for kind in ("step", "KV read")]
    assert figures[f"cascade step, {what}"]["floor"] > 0 and figures[f"paged step, {what}"]["floor"] is None
    # 6 heads of 48 elements, 4 layers. Of 640 tokens 512 are whole spans that all share.
    width = (64 + 48 + 8) if kv_dtype == "int8" else 2 * (64 + 48)
    assert figures[f"paged KV read, {what}"]["value"] == pytest.approx(16 * 640 * 6 * 4 * width / 1e6)
    assert figures[f"cascade KV read, {what}"]["value"] == pytest.approx((512 + 16 * 128) * 6 * 4 * width / 1e6)
    assert figures[f"cascade KV read, {what}"]["floor"] == pytest.approx((600 + 16 * 40) * 6 * 4 * width / 1e6)
    assert figures[f"paged over cascade KV read, {what}"]["value"] == pytest.approx(4)
    assert "paged over cascade" in table and "2 threads" in report["device"]


def test_attention_measures_two_prefixes_by_default(tmp_path):
    _, report = bench(tmp_path, "attention", "--shape", "tiny", "--batch", 2, "--own", 4, "--repeats", 1)
    assert [f["name"] for f in report["figures"]][0] == "paged step, 2 x (2000 shared + 4)"
    assert [f["name"] for f in report["figures"]][4] == "paged step, 2 x (8192 shared + 4)"


@pytest.mark.parametrize("args, text", [
    ((), "bench attention: needs the heads of a model; name one of tiny, 68m, 160m, 1b, 8b, 70b with --shape"),
    (("--shape", "tiny", "--batch", 0), "--batch 0: expected 1 to 4096"),
    (("--shape", "tiny", "--batch", "1,2"), "--batch: only the scenario decode accepts several; give one"),
    (("--shape", "tiny", "--own", 0), "--own 0: expected 1 to 1048576"),
    (("--shape", "tiny", "--shared", -1), "--shared -1: expected 0 to 1048576"),
    (("--shape", "tiny", "--batch", 4096, "--own", 1048576), "bench attention: 4096 x (2000 shared + 1048576): these tokens make more than 16777216; use fewer"),
    (("--shape", "tiny", "--set", "device.shards=2"),
     "bench attention: measures one device with all heads, but the pipeline has 2 ranks; leave `devices` or `shards` out"),
    (("--shape", "tiny", "--trace", "t.json"),
     "bench attention: compares its own two sides and runs no engine; leave out --against and --trace"),
])
def test_what_attention_refuses(args, text):
    assert refusal("attention", *args) == text


def test_pairs_of_different_work_are_refused():
    assert refusal("prefill", *SMALL, "--batch", 1, "--against", "model.max_model_len=64") == (
        "--against: one side would run 'prefill, 1 x 1024' and the other 'prefill, 1 x 63'; say how much with --prompt")


def test_startup_in_pairs_runs_processes_of_both_sides(tmp_path):
    _, report = bench(tmp_path, "startup", "--against", "device.threads=1", "--repeats", 1)
    assert report["pairs"][0]["unit"] == "s"


def test_an_earlier_report_is_shown_beside(tmp_path):
    sizes, _ = SCENARIOS["decode"]
    bench(tmp_path, "decode", *SMALL, *sizes, "--repeats", 1)
    (tmp_path / "out.json").rename(tmp_path / "old.json")
    table, _ = bench(tmp_path, "decode", *SMALL, *sizes, "--repeats", 1, "--compare", tmp_path / "old.json")
    assert "nearness to floor" in table and table.count("decode, batch 2") == 2


def test_a_shape_is_saved_as_a_checkpoint_that_runs(tmp_path, pipeline):
    assert run_mortise("bench", "--shape", "tiny", "--save-model", tmp_path / "a/tiny").returncode == 0
    path = pipeline(path=tmp_path / "a/tiny")
    process = run_mortise("run", path, "-p", "Once", "--max-tokens", 3, "--ignore-eos", "--temperature", 0)
    assert process.returncode == 0, process.stderr
    assert refusal("decode", "--shape", "tiny", "--save-model", tmp_path / "b") == (
        "--save-model can only be used with --shape: mortise bench --shape 160m --save-model FOLDER (see mortise bench --help)")
    (tmp_path / "file").write_text("")
    assert refusal("--shape", "tiny", "--save-model", tmp_path / "file/x").startswith(f"--save-model {tmp_path}/file/x: ")


def test_no_temporary_folder_is_left(tmp_path):
    bench(tmp_path, "startup", "--shape", "tiny", "--repeats", 1, env={"TMPDIR": str(tmp_path)})
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize("args, text", [
    ((), "bench: which scenario? One of decode, prefill, batch, groups, score, startup, limits, speculation, attention, memory, prediction, serve (see mortise bench --help)"),
    (("decode", "a", "b"), "bench: expected a scenario (decode, prefill, batch, groups, score, startup, limits, speculation, attention, memory, prediction, serve) and at most one script, "
                           "got decode a b (see mortise bench --help)"),
    (("decode", "--shape", "7b"), "--shape 7b: no shape has that name; there are tiny, 68m, 160m, 1b, 8b, 70b"),
    (("decode", "--shape", "tiny", "--set", "threads=1"),
     "threads=1: not a setting; write PART.OPTION=VALUE, such as device.threads=1 or kv_cache.memory=1GiB"),
    (("decode", "--shape", "tiny", "--batch", 257),
     "--batch 257: the pipeline runs 256 sequences at once; --set scheduler.max_num_seqs=257 allows more"),
    (("decode", "--shape", "tiny", "--batch", 0), "--batch 0: expected 1 or more"),
    (("decode", "--shape", "tiny", "--output", 1), "--output 1: expected 2 or more"),
    (("decode", "--shape", "tiny", "--prompt", 4000, "--output", 97),
     "--prompt 4000 and --output 97 make 4097 tokens, but the model allows 4096; ask for fewer"),
    (("groups", "--shape", "tiny", "--shared", 4000, "--own", 64, "--output", 33),
     "--shared 4000, --own 64 and --output 33 make 4097 tokens, but the model allows 4096; ask for fewer"),
    (("prefill", "--shape", "tiny", "--batch", "1,2"), "--batch: only the scenario decode accepts several; give one"),
    (("limits", "--shape", "tiny"),
     "bench limits: measures only the machine or the device of a script; leave out --shape, --set, --against and --trace"),
    (("decode", "--shape", "tiny", "--compare", "x", "--against", "device.threads=1"),
     "--compare compares figures and --against measures pairs; give only one of them (see mortise bench --help)"),
    (("decode", "--shape", "tiny", "--compare", "/no/file"), "--compare /no/file: no such file"),
    (("decode", "--shape", "tiny", "--set", "proposer.max_tokens=2"),
     "proposer.max_tokens: the pipeline has no proposer; use a script that has one"),
])
def test_mistakes_are_told(args, text):
    assert refusal(*args) == text


def test_two_scripts_are_one_too_many():
    assert refusal("a.lua", "b.lua") == ("bench: expected a scenario (decode, prefill, batch, groups, score, startup, limits, speculation, attention, memory, prediction, serve) and "
                                         "at most one script, got a.lua b.lua (see mortise bench --help)")


def test_an_instruction_set_that_the_environment_overrides_is_refused():
    assert refusal("decode", "--shape", "tiny", "--set", "device.isa=avx2", env={"MORTISE_ISA": "portable"}) == (
        "device.isa=\"avx2\": MORTISE_ISA=portable overrides it; unset that variable")


def test_a_process_that_does_not_start_well_says_why():
    text = refusal("startup", "--set", "kv_cache.memory=1")
    assert text.startswith("bench: `mortise run` failed: mortise: ")
    assert "holds no block of 16 tokens" in text


def test_places_that_cannot_be_written_are_named(tmp_path):
    sizes, _ = SCENARIOS["prefill"]
    process = run_mortise("bench", "prefill", *SMALL, *sizes, "--repeats", 1, "--json", "/no/folder/x.json")
    assert process.returncode == 1  # the table was printed before: it took its time to measure
    assert process.stderr == "mortise: --json /no/folder/x.json: cannot be written; check the folder and its permissions\n"
    text = refusal("prefill", *SMALL, *sizes, env={"TMPDIR": "/no/folder", "MORTISE_PLUGIN_COPIES": str(tmp_path)})
    assert text == "/no/folder: no folder can be made there (No such file or directory); TMPDIR can name another place"


def test_a_request_that_the_pipeline_cannot_hold_is_told(tmp_path):
    assert "KV" in refusal("prefill", "--shape", "tiny", "--set", "kv_cache.memory=1MiB", "--prompt", 1000, "--batch", 1)
