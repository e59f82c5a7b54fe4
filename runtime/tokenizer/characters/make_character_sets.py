#!/usr/bin/env python3
"""Writes punctuation.inc and combining_marks.inc: what Punctuation splits at and what StripAccents removes.

The `tokenizers` package takes both from Unicode tables of its own, older than those of its regular expressions: they are
asked for here, not derived. Needs tokenizers==0.22.1.
"""
import pathlib

from tokenizers import normalizers, pre_tokenizers

CHARACTERS = [chr(code_point) for code_point in range(0x110000) if not 0xD800 <= code_point <= 0xDFFF]


def punctuation():
    pieces = pre_tokenizers.Punctuation("removed").pre_tokenize_str("".join(CHARACTERS))
    others = set("".join(piece for piece, _ in pieces))
    return [character for character in CHARACTERS if character not in others]


def combining_marks():
    others = set(normalizers.StripAccents().normalize_str("".join(CHARACTERS)))
    return [character for character in CHARACTERS if character not in others]


def write(name, characters):
    ranges = []
    for code_point in map(ord, characters):
        if ranges and ranges[-1][1] == code_point - 1:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point])
    lines = ["// Written by make_character_sets.py: {first, last}, ascending.\n", "// clang-format off\n"]
    lines += [f"{{0x{first:X}, 0x{last:X}}},\n" for first, last in ranges]
    lines.append("// clang-format on\n")
    pathlib.Path(__file__).with_name(name).write_text("".join(lines))


write("punctuation.inc", punctuation())
write("combining_marks.inc", combining_marks())
