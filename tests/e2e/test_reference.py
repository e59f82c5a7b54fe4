"""The reference of the plugin ABI, as scripts/reference.sh makes it: without a warning, and with the text of each function of each header."""
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

from conftest import SOURCE

sys.path.append(str(SOURCE / "docs/reference"))
from doxygen_filter import filtered  # noqa: E402

INCLUDE = SOURCE / "plugin_api/include/mortise"


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    if shutil.which("doxygen") is None:
        pytest.skip("doxygen is not installed (scripts/install.sh tests)")
    folder = tmp_path_factory.mktemp("reference")
    process = subprocess.run([SOURCE / "scripts/reference.sh", folder, "--xml"], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout == f"{folder}/html/index.html\n"
    return folder


def text_of(element):
    return " ".join("".join(element.itertext()).split())


def members(reference):
    """(header, name, type, text) of everything that is declared in a header of the ABI."""
    for file in (reference / "xml").glob("*.xml"):
        for member in xml.parse(file).iter("memberdef"):
            header = member.find("location").get("file")
            if header.endswith(".h"):
                yield header, member.findtext("name"), text_of(member.find("type")) if member.find("type") is not None else "", text_of(member.find("detaileddescription"))


def test_each_function_of_each_header_has_its_text(reference):
    functions = [found for found in members(reference) if "(*" in found[2]]
    declared = sum(len(re.findall(r"\(\*\s*\w+\)\(", re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL))) for path in INCLUDE.rglob("*.h"))
    assert len(functions) == declared > 90
    assert [found for found in functions if not re.search(r"\[(control|step|any).*\] since 0\.\d", found[3])] == []


def test_a_page_has_the_text_of_its_header(reference):
    page = (reference / "html/structmortise__proposer__table.html").read_text()
    assert "Writes drafts into <code>args</code>, before a step in which some sequence can take drafts." in page
    page = (reference / "html/abi_8h.html").read_text()
    assert "<li>The caller owns every struct, array and string that it passes." in page
    assert "A proposer drafts tokens" in (reference / "html/proposer_8h.html").read_text()
    assert "plugin ABI of Mortise" in (reference / "html/index.html").read_text()


@pytest.mark.parametrize("header, rendered", [
    ("/* mortise/x.h: a thing. */\n", "/** @file\nA thing. */\n"),
    ("/* x */\n/* Does it. */\nint f(void);\n", "/** @file\nx */\n/** Does it. */\nint f(void);\n"),
    ("/* x */\nint a; /* of it;\n          * and more */\n", "/** @file\nx */\nint a; /**< of it;\nand more */\n"),
    ("// x\n// y\nint a;  // of it\n", "/** @file\nx\ny */\nint a;  /**< of it */\n"),
    ("/* x */\n/* Sum:\n *   y = a  <b>\n * for *p. */\n", "/** @file\nx */\n/** Sum:\n@verbatim\ny = a  <b>\n@endverbatim\nfor \\*p. */\n"),
    ("/* x */\n/* a < `b < c` */\n", "/** @file\nx */\n/** a \\< `b < c` */\n"),
    ("/* x */\n/* --- part --- */\nvoid f(void) { g(); /* why */ }\n", "/** @file\nx */\n/* --- part --- */\nvoid f(void) { g(); /* why */ }\n"),
    ("/* x */\nstruct s { int a; /* of it */ };\n", "/** @file\nx */\nstruct s { int a; /**< of it */ };\n"),
    ('/* x */\nconst char* a = "/* no */";\n', '/** @file\nx */\nconst char* a = "/* no */";\n'),
])
def test_the_filter_turns(header, rendered):
    assert filtered(header) == rendered
