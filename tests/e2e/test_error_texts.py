"""Every error that a user can cause has a test of its text: each text of an error in the sources shares a piece that no other
error has with a text in the tests. An error is tested by its words, not by its file and line, so that moving code breaks nothing.

To see what is missing: tests/e2e/test_error_texts.py prints it. A text that no test can reach goes to UNREACHABLE with the reason."""
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
ROOMS = ["runtime", "plugins", "plugin_api/include"]
UNREACHABLE = {
    "{}: cannot be read: {}; check the path and its permissions": "tests run as root may read everything",
    "cannot be read to its end": "the file became shorter between two system calls",
    "{}: cannot be read: {}": "fstat of an open file fails when the disk does",
    "{}: became shorter while read": "the same",
    "no event descriptor: {}; raise the limit of open files (ulimit -n)": "the same limit stops the model's files before",
    "libedit cannot be started; is TERM={} right?": "libedit takes every TERM, also one that no terminal has",
    "no memory for the plugin's {} bytes: {}": "it was downloaded into memory before",
    "OpenSSL cannot sign with the key": "it signs with every ed25519 key",
    "the block pool is smaller than the checked plan": "a fault of the engine",
    "the plugin templates are neither in {} nor in {}; install Mortise again": "the tests run where the source tree is",
    "{}; and it could not return to its previous sizes: {}": "no part of ours refuses sizes that it had",
    "call bind first": "a fault of the engine",
    "the instance is not active": "the same",
    "plan was not called for this step": "the same",
    "no sequence can run, although submit() checked that each fits alone": "the same",
    "the host runs no second model (it does not offer ": "mortise itself always does",
    ": its floats do not fit into memory; use a smaller model or more memory": "address space does not run out where tests run",
    "bench: no {} MiB to measure the memory's bandwidth in; free some memory": "address space does not run out where tests run",
    "random weights: no {} MiB of address space ({})": "the same",
    "random weights: {}": "no file in memory can be made: neither memory nor descriptors are left",
    "bench: `mortise {}` ended before it was ready": "mortise serve prints its url before it can end well",
    "bench: no pipe to another process could be opened: {}": "descriptors ran out, and the model's files are opened before",
    "bench attention: cascade does not give the same bits as paged, so neither was measured": "they do",
    "{}: {} cannot be called: no thread can be started for it: {}": "the limit of threads stops the device's before",
    "failed with status ": "cuBLASLt's own failures, on a GPU",
    " of cuBLASLt failed with status ": "the same",
    "bench: the server accepted no request: {}": "a request fits into the socket's buffer, and an end is seen when it is read",
    "another swap has replaced this model meanwhile; send the request again": "between two lines of a swap",
    "{}: stored results cannot be read ({})": "the disk fails under a file that was just written",
    "{}: changed during the trial; ask again": "somebody replaces the file within the trial's second",
    "the trial of these parts has left no report": "a plugin that ends the trial well, with exit code 0, in its last instant",
    "what was handed over is not a socket: {}": "a system call on an open socket fails",
    "a listening socket has no address: {}": "the same",
    "cannot listen at a socket without an address: {}": "the same",
    "the process at the other end of a takeover cannot be identified: {}": "the same",
    "cannot open a Unix socket: {}": "the limit of open files stops the model's files before",
    "no file descriptor is left to end takeovers with: {}": "the same",
    "--takeover-socket {}: cannot connect: {}": "what can be wrong with a socket of this user has errors of its own",
    "--takeover-socket {}: somebody has removed it": "somebody does so between two system calls",
    "process {} of user {} and this one of user {} cannot take over from each other; run both as one user":
        "tests run as one user, and the socket's file is only that user's",
    "no process for a case: {}": "the limit of processes stops the tests' own before",
    "more runs or merges than there is room for": "a fault of the engine",
    "bench: the engine ended a request: {}": "a part that fails in the middle of a step, which none of ours does",
    "no device that computes in host memory serves the {}; put cpu.so on MORTISE_PLUGIN_PATH": "our attentions serve cpu, which is built",
    "'positions' is missing": "our attentions refuse such a batch before; the fuzz target abi_record gets there",
    "'positions' are out of range": "the same",
    "'{}' would have {} rows of {} numbers": "our attentions refuse such dimensions before; the fuzz target abi_record gets there",
}
GRAM = 12  # letters: "expected a " is too short to tell errors apart

LITERALS = r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)'
THROWERS = r'(?:\b(?:fail|luaL_error|fail_expected|fail_unsupported|refuse|unexpected|Error)\(|\bFailure\([^"]*"[^"]*",|\bFailure\(\w+, where,)'


def joined(literals):
    """The text of adjacent C++ literals."""
    pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', literals)
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), "".join(pieces))


def errors():
    for room in ROOMS:
        for file in sorted((SOURCE / room).rglob("*.[ch]pp")):
            text = file.read_text()
            for match in re.finditer(THROWERS + r'[^";{}]*?' + LITERALS, text):
                yield f"{file.relative_to(SOURCE)}:{text.count(chr(10), 0, match.start()) + 1}", joined(match[1])


def grams(text, size=GRAM):
    return {text[i:i + size] for i in range(len(text) - size + 1)}


def pieces(error):
    """What stands between the values: "{}" in fmt, "%s" in Lua's format."""
    text = error.replace("{{", "\0").replace("}}", "\1").replace("%%", "\2")
    for piece in re.split(r"\{[^}]*\}|%[a-zI]", text):
        yield piece.replace("\0", "{").replace("\1", "}").replace("\2", "%")


def grams_of_tests():
    found = set()
    for file in [*SOURCE.glob("tests/**/*.cpp"), *SOURCE.glob("tests/**/*.hpp"), *SOURCE.glob("tests/**/*.py")]:
        if file.name != Path(__file__).name and "tests/fuzz" not in str(file.relative_to(SOURCE)):
            for literals in re.findall(LITERALS, file.read_text()):
                found |= grams(joined(literals))
    return found


def untested():
    all_errors = [(where, error, set().union(*(grams(p) for p in pieces(error)))) for where, error in errors()]
    holders = {}
    for _, error, its_grams in all_errors:
        for gram in its_grams:
            holders.setdefault(gram, set()).add(error)
    tested = grams_of_tests()
    for where, error, its_grams in all_errors:
        # Texts that are the same in two rooms, or parts of each other, have none of their own.
        own = {gram for gram in its_grams if len(holders[gram]) == 1} or its_grams
        if its_grams and error not in UNREACHABLE and not own & tested:
            yield f"{where}: {error}"


def test_every_error_has_a_test_of_its_text():
    assert list(untested()) == []


def test_what_is_listed_as_unreachable_is_an_error_of_the_sources():
    assert set(UNREACHABLE) <= {error for _, error in errors()}


if __name__ == "__main__":
    missing = list(untested())
    print("\n".join(missing))
    sys.exit(1 if missing else 0)
