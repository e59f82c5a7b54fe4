"""Finds names in a document that the repository or the program does not have: links, paths, commands, options.

`faults(path, text)` returns one sentence for each of them. test_docs.py calls it for every README.md and docs/*.md.
"""
import fnmatch
import functools
import os
import re
import shlex
import subprocess

from conftest import MORTISE, SOURCE

SOURCE_ENDINGS = (".cmake", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inc", ".md", ".py", ".sh")
OPTIONS_OF_OTHERS = {"--gtest_output"}  # no script has them
SPAN = r"`((?:[^`\n]|\n(?!\n))+)`"  # may go on in the next line
ENDS_A_COMMAND = {"|", "||", "&", "&&", ";", ">", ">>", "<"}


@functools.cache
def repository():
    """Files and folders, relative to the root, without what a build or a checkout adds."""
    names = []
    for folder, folders, files in os.walk(SOURCE):
        where = os.path.relpath(folder, SOURCE)
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__" and (where != "." or not name.startswith("build"))]
        names += [os.path.normpath(os.path.join(where, name)) for name in folders + files]
    return sorted(names)


def documents():
    return [SOURCE / name for name in repository() if os.path.basename(name) == "README.md" or fnmatch.fnmatch(name, "docs/*.md")]


def without_code_blocks(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def code_blocks(text):
    return re.findall(r"^```\w*\n(.*?)^```", text, flags=re.S | re.M)


def code_spans(text):
    return [re.sub(r"\s+", " ", span) for span in re.findall(SPAN, without_code_blocks(text))]


def headings(text):
    return [line.lstrip("#").strip() for line in without_code_blocks(text).splitlines() if re.match(r"#+ ", line)]


def anchors(text):
    """The anchors of a document's headings, as GitHub makes them."""
    found = []
    for heading in headings(text):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return found


# --- links

def link_faults(path, text):
    prose = re.sub(SPAN, "", without_code_blocks(text))
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = path.parent / file
        if not linked.exists():
            yield f"the link to {target}: there is no such file"
        elif anchor and anchor not in anchors(linked.read_text() if file else text):
            yield f"the link to {target}: no heading has this anchor"
    for file, title in re.findall(r'([\w./-]+\.md)[)`]*,\s"([^"]+)"', without_code_blocks(text)):
        for linked in (path.parent / file, SOURCE / file):
            if linked.exists():
                if " ".join(title.split()) not in headings(linked.read_text()):
                    yield f'{file}, "{title}": no heading has this title'
                break


# --- paths

def alternatives(name):
    """`a.hpp/.cpp` and `a.{hpp,cpp}` name two files."""
    if match := re.fullmatch(r"(.*)\{([^}]*)\}(.*)", name):
        return [match[1] + part + match[3] for part in match[2].split(",")]
    if match := re.fullmatch(r"(.*?)(\.\w+)/(\.\w+)", name):
        return [match[1] + match[2], match[1] + match[3]]
    return [name]


@functools.cache
def is_there(name, folder):
    """Whether the repository has `name`: below its root, or `folder`, or as the end of a path. A last component may lack its ending."""
    name = re.sub("NAME|YYYY-MM-DD", "*", name.rstrip("/"))  # any file that is called so
    beside = os.path.normpath(os.path.join(folder, name))
    for pattern in (name, f"*/{name}", beside, f"{name}.*", f"*/{name}.*", f"{beside}.*"):
        if fnmatch.filter(repository(), pattern):
            return True
    return False


def looks_like_a_path(name):
    if not re.fullmatch(r"[\w.@*{},/-]*\w[\w.@*{},/-]*", name) or name.startswith("/") or name in SOURCE_ENDINGS:
        return False
    first = name.partition("/")[0]
    names_a_folder = "/" in name and first != "build" and any((SOURCE / parent / first).is_dir() for parent in ("", "runtime", "plugins"))
    return names_a_folder or name.endswith(SOURCE_ENDINGS)


def path_faults(path, text):
    folder = os.path.relpath(path.parent, SOURCE)
    for span in code_spans(text):
        if looks_like_a_path(span):
            for name in alternatives(span):
                if not is_there(name, folder):
                    yield f"`{name}`: the repository has no such path"


# --- commands

@functools.cache
def help_of(*subcommand):
    """(options, those of them that take a value, names of subcommands), or None for a subcommand that the program does not know."""
    process = subprocess.run([MORTISE, *subcommand, "--help"], capture_output=True, text=True, timeout=60)
    usage = f"Usage: mortise {' '.join(subcommand)}".rstrip() + " "
    if process.returncode != 0 or usage not in process.stdout:
        return None
    options, with_value, subcommands, section = set(), set(), set(), ""
    for line in process.stdout.splitlines():
        if re.match(r"\w+:$", line):
            section = line
        elif section == "Options:" and (match := re.match(r"  (-\S+)( [A-Z]+\b)?", line)):
            names = {re.sub(r"\{.*", "", name) for name in match[1].split(",")}
            options |= names
            with_value |= names if match[2] else set()
        elif section == "Subcommands:" and (match := re.match(r"  (\w\S*)", line)):
            subcommands.add(match[1])
    return options, with_value, subcommands


def simple_commands(line):
    """The commands of a shell line as lists of words; words that a dialogue or an output has are lists as well."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # an apostrophe of prose, not a quote
        words = line.split()
    command = []
    for word in words + [";"]:
        if word in ENDS_A_COMMAND:
            if command:
                yield command
            command = []
        else:
            command.append(word)


def mortise_faults(words):
    """`words` follow the name of the program."""
    subcommand, known, skip = (), help_of(), False
    options, with_value, subcommands = known
    for word in (word.strip("[]") for word in words):
        if skip:
            skip = False
        elif re.match(r"--?[a-z]", word):
            name = word.partition("=")[0]
            if name not in options:
                yield f"`mortise {' '.join([*subcommand, name])}`: the program has no such option"
            skip = name in with_value and "=" not in word
        elif subcommands and re.fullmatch(r"[a-z]+", word):
            if word not in subcommands:
                yield f"`mortise {' '.join([*subcommand, word])}`: the program has no such subcommand"
                return
            subcommand += (word,)
            more, more_with_value, subcommands = help_of(*subcommand)
            inherited = subcommand[0] == "ctl"  # the program takes options of `ctl` after its subcommands too
            options, with_value = (options | more, with_value | more_with_value) if inherited else (more, more_with_value)


def command_faults(text):
    lines = [line for block in code_blocks(text) for line in block.replace("\\\n", " ").splitlines()]
    for line in [*lines, *code_spans(text)]:
        for words in simple_commands(line):
            words = [word for word in words if word != "$" and not re.match(r"\w+=", word)]
            for at, word in enumerate(words[:-1]):
                # In the middle of a command it may be an argument, as in `lm_eval --model mortise --tasks ...`.
                if (word == "mortise" or word.endswith("/mortise")) and re.match(r"-|[a-z]+$" if at == 0 else r"[a-z]+$", words[at + 1]):
                    yield from mortise_faults(words[at + 1:])
                    break
            if words and words[0].startswith(("scripts/", "bench/")) and not words[0].endswith("/"):
                program = SOURCE / words[0]
                if len(words) > 1 or words[0].endswith((".sh", ".py")):
                    if not program.is_file():
                        yield f"{words[0]}: there is no such program"
                    elif program.suffix in (".sh", ".py") and not os.access(program, os.X_OK) and line in lines:
                        yield f"{words[0]}: the file is not executable"


@functools.cache
def known_options():
    """Every option of the program, and the text of the scripts, which have and call others."""
    _, _, subcommands = help_of()
    chains = [(), *((name,) for name in subcommands)]
    chains += [(*chain, name) for chain in chains[1:] for name in help_of(*chain)[2]]
    options = set().union(*(help_of(*chain)[0] for chain in chains))
    scripts = [name for name in repository() if re.match(r"(bench|scripts|tests/(?!e2e))/?.*\.(py|sh)$", name)]
    return options, "".join((SOURCE / name).read_text() for name in scripts)


def option_faults(text):
    options, scripts = known_options()
    for span in code_spans(text):
        match = re.match(r"--[a-z][\w-]*", span)
        if match and match[0] not in options | OPTIONS_OF_OTHERS and not re.search(re.escape(match[0]) + r"(?![\w-])", scripts):
            yield f"`{match[0]}`: neither the program nor a script has such an option"


def faults(path, text):
    return [*link_faults(path, text), *path_faults(path, text), *command_faults(text), *option_faults(text)]
