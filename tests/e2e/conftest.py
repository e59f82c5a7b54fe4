"""Runs the built program as its users do. The build folder comes from MORTISE_BUILD_DIR."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MORTISE_BUILD_DIR", SOURCE / "build/release"))
MORTISE = BUILD / "mortise"
MAX_SECONDS = int(os.environ.get("MORTISE_E2E_SECONDS", 300))  # of one test


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """Starts keep what they know of checkpoints here, and not in the home of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    yield folder / "mortise"
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


def run_mortise(*args, stdin="", env=None, cwd=None):
    """The finished process; text in and out."""
    return subprocess.run([MORTISE, *map(str, args)], input=stdin, capture_output=True, text=True, timeout=120, cwd=cwd,
                          env={**os.environ, **(env or {})})


def process_names():
    """Of all processes of this machine."""
    names = set()
    for file in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            names.add(file.read_text().strip())
    return names


@pytest.fixture(autouse=True)
def time_limit():
    """Fails a test that waits too long for a program, at the line that waits, and kills what it started."""
    def end(*_):
        for task in pathlib.Path("/proc/self/task").iterdir():  # a thread's children are listed under the thread
            for child in (task / "children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        pytest.fail(f"the test took longer than {MAX_SECONDS} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(MAX_SECONDS)
    yield
    signal.alarm(0)


@pytest.fixture
def mortise():
    return run_mortise


@pytest.fixture
def jsonl(tmp_path):
    """jsonl(command, lines, *args) -> (process, list of output objects)."""
    def call(command, lines, *args):
        source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        source.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        process = run_mortise(command, *args, "-i", source, "-o", target)
        return process, [json.loads(line) for line in target.read_text().splitlines()] if target.exists() else []
    return call


@pytest.fixture
def script(tmp_path):
    """script(text) -> path of a pipeline script; DEMO in the text is the demo model's folder."""
    def write(text, name="test.lua"):
        path = tmp_path / name
        path.write_text(text.replace("DEMO", str(SOURCE / "models/demo")))
        return path
    return write


@pytest.fixture(scope="session")
def always_drafting(tmp_path_factory):
    """The demo's script with drafts at each step: on a busy machine they do not always pay, and adaptive lengths drop them."""
    text = (SOURCE / "scripts/demo.lua").read_text()
    assert text.count("  kv_cache  =") == 1
    path = tmp_path_factory.mktemp("drafting") / "demo.lua"
    path.write_text(text.replace("  kv_cache  =", '  speculation = { lengths = "fixed" },\n  kv_cache  =')
                    .replace("script_dir ..", f'"{SOURCE}/scripts" ..'))
    return path


PIPELINE = """return pipeline {{
  device = cpu {{ {device} }},
  model = llama {{ path = "{path}"{model} }},
  attention = paged {{ {attention} }},
  scheduler = fcfs {{ {scheduler} }},
  kv_cache = {{ memory = "{memory}"{kv} }},
}}
"""


@pytest.fixture
def pipeline(script):
    """pipeline(scheduler="max_num_seqs = 1", ...) -> path of a script that differs from the demo in what is given."""
    def write(path="DEMO", device="", model="", attention="", scheduler="", memory="64MiB", kv=""):
        return script(PIPELINE.format(path=path, device=device, model=model, attention=attention, scheduler=scheduler,
                                      memory=memory, kv=kv))
    return write
