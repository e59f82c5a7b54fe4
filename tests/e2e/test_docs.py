"""The documents name files, headings, commands and options that exist; and documents.py, which checks that, finds each kind of mistake."""
import pytest

import documents
from conftest import SOURCE


@pytest.mark.parametrize("path", documents.documents(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_a_document_names_exists(path):
    assert documents.faults(path, path.read_text()) == []


def test_documents_of_all_folders_are_read():
    names = {str(path.relative_to(SOURCE)) for path in documents.documents()}
    assert {"README.md", "docs/operations.md", "plugins/README.md", "plugins/attention/cascade_cpu/README.md"} <= names


RIGHT = """
[a file](operations.md) and [a heading](operations.md#swap-a-part), here [too](#a-heading), [elsewhere](https://example.org/no/such)
README.md, "Try it". `runtime/cli/ctl.cpp`, `cli/ctl`, `performance.md`, `scripts/fleet/`, `hash_sidecar.hpp/.cpp`, `my_pipeline.lua`,
`/v1/models`, `mortise run mine.lua -p "it's -x"`, `--drain-seconds`, `*-cuda*.md`
# A heading
```sh
$ mortise ctl --url http://127.0.0.1:8000 swap attention cascade '{block_size = 16}' --model a   # options on both sides
PATH=x taskset -c 2,3 build/release/mortise bench decode --batch 1,8 | grep --no-such-option mortise
scripts/fleet/load.py hits --url http://127.0.0.1:8100; lm_eval --model mortise --tasks x
mortise serve --kv-events tcp://127.0.0.1:5557 [--kv-events-topic T] \\
  --port 0
mortise: error: unknown subcommand --bad
```
"""

WRONG = {
    "[a file](operation.md)": "operation.md",
    "[a heading](operations.md#swap-a-prat)": "operations.md#swap-a-prat",
    "[here](#nowhere)": "#nowhere",
    'docs/operations.md, "Swap the part"': "Swap the part",
    "`runtime/cli/clt.cpp`": "runtime/cli/clt.cpp",
    "`runtime/executions/`": "runtime/executions/",
    "`hash_sidecar.hpp/.cu`": "hash_sidecar.cu",
    "`engine/inbax`": "engine/inbax",
    "`no_such_kernel.cuh`": "no_such_kernel.cuh",
    "`mortise severs`": "mortise severs",
    "`mortise run\n--min-token 3`": "--min-token`",
    "`mortise run --max-token 3`": "--max-token`",
    "`mortise ctl swop attention paged`": "mortise ctl swop",
    "`--drain-second`": "--drain-second`",
    "```sh\nmortise ctl swap --verify attention cascade\n```": "mortise ctl swap --verify",
    "```sh\nmortise run -p x > y; build/release/mortise batch --in x\n```": "mortise batch --in`",
    "```sh\nmortise serve my.lua \\\n  --prot 8000\n```": "mortise serve --prot",
    "```sh\nscripts/fleet/loads.py hits\n```": "scripts/fleet/loads.py",
    "```sh\nscripts/train/chats.py x\n```": "scripts/train/chats.py: the file is not executable",
}


def test_a_right_text_has_no_faults():
    assert documents.faults(SOURCE / "docs/new.md", RIGHT) == []


@pytest.mark.parametrize("text", WRONG)
def test_each_kind_of_mistake_is_found(text):
    found = documents.faults(SOURCE / "docs/new.md", f"{text}\n")
    assert len(found) == 1 and WRONG[text] in found[0]  # several: one mistake is told more than once


def test_every_room_has_a_readme_of_one_screen():
    # The folders of one part below these share its README; a test folder that mirrors a source folder has that folder's.
    rooms = [SOURCE / name for name in ("plugin_api", "runtime", "plugins", "tests", "bench", "models", "scripts", "examples")]
    rooms += [path for group in ("runtime/*", "plugins/*", "plugins/*/*", "tests/*", "bench/*", "examples/*") for path in SOURCE.glob(group)]
    rooms = [path for path in rooms if path.is_dir() and not path.name.startswith((".", "_"))]
    assert len(rooms) > 60
    without = [str(path.relative_to(SOURCE)) for path in rooms if not (path / "README.md").is_file()]
    long = [str(path.relative_to(SOURCE)) for path in rooms
            if (path / "README.md").is_file() and len((path / "README.md").read_text().splitlines()) > 65]
    assert (without, long) == ([], [])
