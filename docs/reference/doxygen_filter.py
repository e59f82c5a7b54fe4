#!/usr/bin/env python3
"""doxygen_filter.py FILE: prints a header of plugin_api/ as Doxygen wants it. Doxyfile names this as its INPUT_FILTER.

The headers have plain comments, because a reader of the header comes first. Here a comment before a declaration becomes a
`/**`, one behind a declaration a `/**<`, and the first one of a file describes the file. Their texts are no Markdown: what
Doxygen would take for markup is escaped, and lines that are indented deeper than their paragraph (equations, shapes)
keep their line ends. Comments within functions and between sections stay as they are.
"""
import re
import sys

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/|(?://[^\n]*\n[ \t]*(?=//))*//[^\n]*|[{};]|[^"\'/{};]+|/', re.DOTALL)
ALIGNED = re.compile(r"\S   +\S|[^\s.]  +\S")  # columns, which a paragraph would lose


def lines_of(comment):
    """The text of a comment, line by line, without what makes it a comment."""
    if comment.startswith("//"):
        return [re.sub(r"^\s*// ?", "", line) for line in comment.splitlines()]
    return [re.sub(r"^\s*\* ?" if i else r"^ ", "", line).rstrip() for i, line in enumerate(comment[2:-2].splitlines())]


def escaped(line):
    """What is between backticks is code, which Doxygen takes as it is."""
    parts = line.split("`")
    return "`".join(part if i % 2 else re.sub(r"([\\@<>#*~|$%])", r"\\\1", part) for i, part in enumerate(parts))


def marked_up(lines):
    """Paragraphs and lists as they are; runs of deeper lines as verbatim blocks."""
    indent, block, result = 0, [], []

    def close():
        if block:
            margin = min(len(line) - len(line.lstrip()) for line in block)
            result.extend([" " * indent + "@verbatim", *(line[margin:] for line in block), " " * indent + "@endverbatim"])
            block.clear()

    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            close()
            indent = 0
            result.append("")
        elif line.lstrip().startswith("- "):
            close()
            indent = depth + 2
            result.append(escaped(line))
        elif depth > indent + 1 or ALIGNED.search(line) or (block and " = " in line):
            block.append(line)
        else:
            close()
            indent = min(indent, depth)
            result.append(escaped(line))
    close()
    return result


def documentation(comment, mark):
    lines = lines_of(comment)
    if mark == "behind":
        lines = [line.strip() for line in lines]  # indented as far as the first one is in the header
    elif mark == "file":
        lines[0] = re.sub(r"^mortise/\S+: (.)", lambda found: found[1].upper(), lines[0])
    lines = ["@file"] * (mark == "file") + marked_up(lines)
    return "/**" + ("<" if mark == "behind" else "") + " " + "\n".join(lines) + " */"


def filtered(text):
    out, scopes, statement, at_line_start, first = [], [], "", True, True
    for token in TOKEN.findall(text):
        if token.startswith(("/*", "//")):
            in_code = "function" in scopes
            if in_code or re.match(r"/\* ---|// ---", token):
                out.append(token)
            elif first:
                out.append(documentation(token, "file"))
            elif at_line_start:
                out.append(documentation(token, "before"))
            else:
                out.append(documentation(token, "behind"))
            first = False
            at_line_start = False
            continue
        if token == "{":
            head = re.sub(r"#[^\n]*", "", statement).strip()
            scopes.append("type" if re.search(r"\b(struct|enum|union|class|namespace|extern)\b[^()]*$", head) else "function")
            statement = ""
        elif token == "}":
            if scopes:
                scopes.pop()
            statement = ""
        elif token == ";":
            statement = ""
        else:
            statement += token
        if "\n" in token:
            at_line_start = not token.rsplit("\n", 1)[1].strip()
        elif token.strip():
            at_line_start = False
        out.append(token)
    return "".join(out)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        print(filtered(header.read()), end="")
