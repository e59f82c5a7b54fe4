#!/usr/bin/env python3
"""Which tests a source has. `tests/e2e/sources.py runtime/engine/drafter.cpp` prints the files; test_sources.py checks all sources.

A source is a path without its ending: X.cpp and X.hpp are one. Its test lies at the same path below tests/ (runtime/kv/block_pool.cpp:
tests/unit/kv/block_pool_test.cpp), or is another test file that names the source in a line near its top:
    // Covers: runtime/chat_template/{lexer,parser} runtime/json/ordered_json
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENDINGS = {".cpp", ".hpp", ".cu", ".cuh"}
COVERS = re.compile(r"^(?://|#) Covers: (.*)$", re.MULTILINE)
ENTRY = re.compile(r"([\w./-]*)(?:\{([\w,]+)\})?")


def sources(root=ROOT):
    paths = [path.relative_to(root) for folder in ("runtime", "plugins") for path in (root / folder).rglob("*") if path.suffix in ENDINGS]
    return sorted({str(path.with_suffix("")) for path in paths})


def test_files(root=ROOT):
    tests = root / "tests"
    return sorted(path for pattern in ("*_test.cpp", "*_test.cu", "test_*.py") for path in tests.rglob(pattern))


def mirrored(source):
    """Where the test of its own lies, without the ending."""
    top, *folders, name = source.split("/")
    if top == "plugins":
        return "/".join(["tests/plugins", *folders, name]) + "_test"
    return "/".join(["tests/unit", *(folders or ["root"]), name]) + "_test"


def covered(text):
    """The sources that the `Covers:` lines of a test file name. An entry that cannot be read stands as it is, and so names no source."""
    names = []
    for entry in " ".join(COVERS.findall(text)).split():
        parts = ENTRY.fullmatch(entry)
        prefix, choices = parts.groups() if parts else (entry, None)
        names += [prefix + choice for choice in choices.split(",")] if choices else [prefix]
    return names


def tests_of_sources(root=ROOT):
    """{source: its test files} of all sources, and [(test file, name)] for each covered name that is no source."""
    found = {source: [] for source in sources(root)}
    wrong = []
    of_its_own = {mirrored(source): source for source in found}
    for path in test_files(root):
        test = str(path.relative_to(root))
        names = covered(path.read_text())
        own = of_its_own.get(str(path.relative_to(root).with_suffix("")))
        for name in ([own] if own else []) + names:
            if name not in found:
                wrong.append((test, name))
            elif test not in found[name]:
                found[name].append(test)
    return found, wrong


def main(names):
    found, _ = tests_of_sources()
    for name in names:
        source = re.sub(r"\.\w+$", "", name)
        if source not in found:
            sys.exit(f"{name}: there is no such source; give a path from the repository's root, like runtime/kv/block_pool.cpp")
        print("\n".join(found[source]))


if __name__ == "__main__":
    main(sys.argv[1:])
