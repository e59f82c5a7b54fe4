"""docs/plugin-guide.md, followed to the letter: each sh block runs in order, in one folder, and prints what the text block after it shows.
In the end its projects, one of each kind in C++, give the answers of the built-in parts."""
import os
import re
import subprocess

from conftest import SOURCE
from test_plugin_new import KINDS, answer, expect_a_plugin_of_the_installation, install_and_move

GUIDE = (SOURCE / "docs/plugin-guide.md").read_text()
BLOCKS = re.findall(r"^```([^\n]*)\n(.*?)^```$", GUIDE, flags=re.DOTALL | re.MULTILINE)
BLOCK_KINDS = {"sh", "sh background", "text", "cpp", "lua"}
PROJECTS = {"proposer": "my_drafts", "scheduler": "my_order", "attention": "my_attention", "model": "my_model", "device": "my_device"}


def pattern(shown):
    """Of standard output, then of standard error. A line `...` stands for any lines, `...` within a line for any text of it."""
    lines = [r"(?:[^\n]*\n)*?" if line == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", r"[^\n]*") + r"\n" for line in shown.splitlines()]
    return "".join(lines)


def test_each_block_is_of_a_known_kind():
    assert {kind for kind, _ in BLOCKS} == BLOCK_KINDS  # a command in a block of another kind would not run


def test_the_guide_works_as_it_is_written(tmp_path):
    prefix, work, state = install_and_move(tmp_path), tmp_path / "work", tmp_path / "folder"
    work.mkdir()
    state.write_text(f"{work}\n")
    env = {**os.environ, "PATH": f"{prefix}/bin:{os.environ['PATH']}", "CMAKE_PREFIX_PATH": str(prefix), "CXXFLAGS": "-Werror",
           "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    server, url, output = None, "", ""
    try:
        for kind, text in BLOCKS:
            folder = state.read_text().strip()
            if kind == "sh background":  # on a free port in the place of the guide's
                server = subprocess.Popen(["bash", "-c", "exec " + text.replace("--port 8000", "--port 0")], cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
                url = server.stdout.readline().strip()
            elif kind == "sh":
                script = f"set -euo pipefail\ntrap 'pwd >{state}' EXIT\n" + text.replace("http://127.0.0.1:8000", url or "http://127.0.0.1:8000")
                process = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True)
                output = re.sub(r"[ ]+$", "", process.stdout + process.stderr, flags=re.MULTILINE).rstrip("\n") + "\n"
                assert process.returncode == 0, f"{text}\n{output}"
            elif kind == "text":
                assert re.fullmatch(pattern(text), output), f"the guide shows\n{text}\nand this came out\n{output}"
            else:  # code that the project must contain by now
                sources = "\n".join(path.read_text() for path in work.rglob("*.*") if path.suffix in (".cpp", ".lua") and "build" not in path.parts)
                for part in re.split(r"^\s*// \.\.\.\n", text, flags=re.MULTILINE):
                    assert part in sources, part
        assert server.wait(timeout=60) == 0
    finally:
        if server is not None and server.poll() is None:
            server.kill()

    assert set(PROJECTS) == set(KINDS)
    expected = answer(prefix, prefix / "share/mortise/scripts/demo.lua")
    for kind, name in PROJECTS.items():
        # The guide has run the checks of the others.
        if f"plugin check build/release/{name}.so" not in GUIDE:
            assert kind == "model"
            subprocess.run(["ctest", "--preset", "release"], cwd=work / name, check=True)
        expect_a_plugin_of_the_installation(prefix, kind, work / name, expected, attention=work / "my_attention")
