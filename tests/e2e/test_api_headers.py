"""The headers of the plugin ABI: every function that crosses it says on which thread and since which version."""
import re

import pytest

from conftest import SOURCE

INCLUDE = SOURCE / "plugin_api/include/mortise"
HEADERS = sorted(INCLUDE.rglob("*.h"))
# A comment that stands right before a function pointer (a slot of a table, or a typedef) or the exported entry.
FUNCTION = re.compile(r"""
    (?P<comment>/\*(?:(?!\*/).)*\*/\s*)?                       # its own comment, if there is one
    (?P<declaration>^[ ]*[\w *]*?(?:\(\*(?P<slot>\w+)\)\([^;{]*?\)|(?P<entry>mortise_plugin_entry_v\d+)\([^)]*\));)
    """, re.VERBOSE | re.MULTILINE | re.DOTALL)
THREAD = r"\[(?:control|step|any)(?: & (?:created|active))?\]"
SINCE = r"since 0\.(?P<minor>\d+)"
TAG = re.compile(rf"{THREAD}\s+{SINCE}(?:, appended)?\s*\*/\s*$")


def text_of(comment):
    return re.sub(r"\n\s*\* ?", " ", comment or "")


def functions(text):
    """(name, text of its own comment or '') of each function that crosses the ABI."""
    return [(m["slot"] or m["entry"], text_of(m["comment"])) for m in FUNCTION.finditer(text)]


def complaints(text, abi_minor):
    """What is wrong with the functions that a header's text declares."""
    for name, comment in functions(text):
        tag = TAG.search(comment)
        if not comment:
            yield f"{name}: no comment of its own"
        elif not tag:
            yield f"{name}: its comment does not end in a thread tag and a version, as in '[step & active] since 0.1'"
        elif int(tag["minor"]) > abi_minor:
            yield f"{name}: since 0.{tag['minor']}, but this is ABI 0.{abi_minor}"
        elif len(comment[:tag.start()].strip("/* ")) < 10:
            yield f"{name}: its comment does not say what the function does"


def abi_minor():
    return int(re.search(r"#define MORTISE_ABI_MINOR (\d+)u", (INCLUDE / "abi.h").read_text())[1])


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: str(path.relative_to(INCLUDE)))
def test_every_function_says_its_thread_and_version(header):
    assert list(complaints(header.read_text(), abi_minor())) == []


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: str(path.relative_to(INCLUDE)))
def test_no_function_is_overlooked(header):
    code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    assert len([f for f in functions(header.read_text()) if "entry" not in f[0]]) == len(re.findall(r"\(\*\s*\w", code))


GOOD = "  /* Does a thing\n   * well. [step & active] since 0.2 */\n  mortise_status (*run)(void* self,\n      int n);\n"


@pytest.mark.parametrize("text, complaint", [
    (GOOD, None),
    (GOOD.replace("since 0.2", "since 0.2, appended"), None),
    (GOOD.replace("[step & active] ", ""), "thread tag"),
    (GOOD.replace("[step & active]", "[main]"), "thread tag"),
    (GOOD.replace(" since 0.2", ""), "thread tag"),
    (GOOD.replace("since 0.2", "since 0.9"), "ABI 0.6"),
    (GOOD.replace("Does a thing\n   * well. ", ""), "what the function does"),
    (GOOD + "  void (*stop)(void* self);\n", "stop: no comment"),  # None: a neighbour's comment counted for it
    (GOOD + "  int x; /* [any] since 0.1 */\n  int y;\n  void (*stop)(void* self);\n", "stop: no comment"),
    ("/* [any] since 0.1 */\nextern const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args* args);", "what the function does"),
    ("typedef void (*mortise_task)(void* context);", "mortise_task: no comment"),
])
def test_the_check_finds(text, complaint):
    found = list(complaints(text, abi_minor=6))
    assert (found == []) if complaint is None else (len(found) == 1 and complaint in found[0])
