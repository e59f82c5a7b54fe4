"""From `mortise plugin new` to a plugin that runs, for every kind in C: outside of the tree, against the installed package.
test_plugin_guide.py does it in C++, with the projects of the guide."""
# Covers: runtime/cli/plugin/{new,project}
import json
import os
import subprocess

import pytest

from conftest import BUILD

KINDS = ["scheduler", "proposer", "attention", "model", "device"]
PROMPT = ["-p", "Once upon a time", "--max-tokens", "6", "--temperature", "0.7", "--seed", "5", "--json"]


def run(*command, cwd=None, env=None):
    process = subprocess.run([*map(str, command)], cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    assert process.returncode == 0, f"{command}: {process.stdout}{process.stderr}"
    return process.stdout


def install_and_move(folder):
    """Mortise, installed somewhere and then moved: nothing in it may know its folder."""
    run("cmake", "--install", BUILD, "--prefix", folder / "first")
    (folder / "first").rename(folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    return install_and_move(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def make(prefix, tmp_path_factory):
    """make(kind) -> the folder of a built project; the same one at each call."""
    made = {}

    def build(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp("projects") / f"my_{kind}"
            run(prefix / "bin/mortise", "plugin", "new", kind, folder.name, "--c", "--dir", folder)
            env = {"CMAKE_PREFIX_PATH": str(prefix), "CFLAGS": "-Werror", "PATH": f"{prefix}/bin:{os.environ['PATH']}"}
            run("cmake", "--preset", "release", cwd=folder, env=env)
            run("cmake", "--build", "--preset", "release", cwd=folder, env=env)
            made[kind] = folder
        return made[kind]
    return build


def answer(prefix, script, env=None):
    found = json.loads(run(prefix / "bin/mortise", "run", script, *PROMPT, env=env))
    return found["tokens"], found["text"]


@pytest.fixture(scope="module")
def expected(prefix):
    """What the built-in parts answer."""
    return answer(prefix, prefix / "share/mortise/scripts/demo.lua")


def expect_a_plugin_of_the_installation(prefix, kind, folder, expected, attention):
    """The project in `folder` was built for the program in `prefix`, and gives the answers of the built-in part."""
    assert f"MORTISE_EXECUTABLE:FILEPATH={prefix}/bin/mortise" in (folder / "build/release/CMakeCache.txt").read_text()
    plugin = folder / f"build/release/{folder.name}.so"
    assert f"{kind} {folder.name}\n" in run(prefix / "bin/mortise", "plugin", "info", plugin)
    # The built-in attentions serve the devices cpu and cuda alone.
    env = {"ATTENTION": str(attention / f"build/release/{attention.name}.so")} if kind == "device" else {}
    assert answer(prefix, folder / "try.lua", env) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_project_in_c_builds_passes_its_check_and_gives_the_answers_of_the_built_in_part(prefix, make, expected, kind):
    run("ctest", "--preset", "release", cwd=make(kind))
    expect_a_plugin_of_the_installation(prefix, kind, make(kind), expected, attention=make("attention"))


def test_an_installation_has_everything_in_its_place(prefix):
    for file in ["bin/mortise", "lib/mortise/plugins/cpu.so", "include/mortise/abi.h", "include/mortise/numerics.h",
                 "lib/cmake/mortise_plugin_api/mortise_plugin_api-config.cmake", "share/mortise/scripts/demo.lua",
                 "share/mortise/models/demo/config.json", "share/mortise/models/demo-draft/config.json",
                 "share/mortise/templates/project/.github/workflows/check.yml.in", "share/doc/mortise/copyright"]:
        assert (prefix / file).is_file(), file
    assert not list((prefix / "lib/mortise").glob("lib*.so*"))  # those of a package's archive
    assert run(prefix / "bin/mortise", "run", "-p", "Once", "--max-tokens", "2")
    assert "refused" not in run(prefix / "bin/mortise", "plugin", "list")


def test_the_man_pages_name_every_command_and_option(prefix):
    """help2man makes them from --help, so what is missing here was lost on the way."""
    def check(*words):
        text = run(prefix / "bin/mortise", *words, "--help")
        page = (prefix / f"share/man/man1/{'-'.join(['mortise', *words])}.1").read_text().replace("\\-", "-")
        section = ""
        for line in text.splitlines():
            if line.endswith(":") and not line.startswith(" "):
                section = line
            elif line.startswith("  ") and line[2] != " ":
                name = line.split()[0].split("{")[0]
                if section == "Options:":
                    missing = [option for option in name.split(",") if option not in page]
                    assert not missing, f"{words}: {missing}"
                elif section == "Subcommands:":
                    assert name in page, f"{words}: {name}"
                    check(*words, name)

    if not (prefix / "share/man/man1").is_dir():
        pytest.skip("help2man was not there when Mortise was built, so there are no man pages")
    check()
    page = (prefix / "share/man/man1/mortise.1").read_text()
    for word in ["MORTISE_LOG", "MORTISE_PLUGIN_PATH", "ENVIRONMENT", "EXIT STATUS", "FILES"]:
        assert word in page


def test_a_c_project_needs_no_json_library(prefix, make, tmp_path):
    """Neither CMake's package of nlohmann_json nor a header of it, wherever it lies."""
    folder = make("scheduler")
    run("cmake", "-S", folder, "-B", tmp_path, "-G", "Ninja", "-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON",
        env={"CMAKE_PREFIX_PATH": str(prefix)})
    run("cmake", "--build", tmp_path)
    assert "nlohmann" not in run("ninja", "-C", tmp_path, "-t", "deps")
