"""Every source has a test that its path leads to; and sources.py, which checks that, finds each kind of mistake."""
import subprocess

import sources


def test_every_source_has_a_test():
    found, _ = sources.tests_of_sources()
    untested = [source for source, tests in found.items() if not tests]
    assert untested == [], "add the test (tests/README.md says where), or name the source in the line `Covers:` of the test that runs it"


def test_what_tests_say_they_cover_exists():
    _, wrong = sources.tests_of_sources()
    assert wrong == []


def test_a_source_leads_to_its_test():
    assert sources.mirrored("runtime/kv/block_pool") == "tests/unit/kv/block_pool_test"
    assert sources.mirrored("runtime/cli/repl/diff") == "tests/unit/cli/repl/diff_test"
    assert sources.mirrored("runtime/hasher") == "tests/unit/root/hasher_test"
    assert sources.mirrored("plugins/kernels/cpu/vec/vec") == "tests/plugins/kernels/cpu/vec/vec_test"


def test_lines_that_name_sources_are_read():
    text = "// Covers: runtime/a/{b,c} runtime/d\n#include <x>\n  // Covers: runtime/indented\n# Covers: plugins/e\n// covers: runtime/f\n"
    assert sources.covered(text) == ["runtime/a/b", "runtime/a/c", "runtime/d", "plugins/e"]


def test_missing_tests_and_wrong_names_are_found(tmp_path):
    for name, text in {"runtime/kv/pool.cpp": "", "runtime/kv/pool.hpp": "", "runtime/kv/tree.hpp": "", "runtime/kv/list.cpp": "",
                       "runtime/kv/table.inc": "", "plugins/x/kernel.cu": "", "tests/unit/kv/pool_test.cpp": "// Covers: runtime/kv/tree\n",
                       "tests/e2e/test_x.py": '"""x"""\n# Covers: plugins/x/{kernel,gone} runtime/kv/* runtime/kv/tree.hpp\n'}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found, wrong = sources.tests_of_sources(tmp_path)
    assert found == {"plugins/x/kernel": ["tests/e2e/test_x.py"], "runtime/kv/list": [], "runtime/kv/pool": ["tests/unit/kv/pool_test.cpp"],
                     "runtime/kv/tree": ["tests/unit/kv/pool_test.cpp"]}
    assert wrong == [("tests/e2e/test_x.py", name) for name in ("plugins/x/gone", "runtime/kv/*", "runtime/kv/tree.hpp")]


def test_the_command_prints_the_tests_of_a_source():
    def run(name):
        return subprocess.run([sources.__file__, name], capture_output=True, text=True)
    assert "tests/unit/kv/block_pool_test.cpp\n" in run("runtime/kv/block_pool.hpp").stdout
    failed = run("runtime/kv/blok_pool.hpp")
    assert failed.returncode == 1 and "runtime/kv/blok_pool.hpp: there is no such source" in failed.stderr
