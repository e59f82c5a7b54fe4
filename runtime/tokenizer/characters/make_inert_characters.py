#!/usr/bin/env python3
"""Writes inert_characters.inc: the characters that normalization leaves alone although Unicode does not.

The normalizers of the `tokenizers` package follow Unicode 9: to them a mark assigned later does not combine, and a later
compatibility character does not decompose. Needs tokenizers==0.22.1 and unicodedata2==16.0.0.
"""
import pathlib

import unicodedata2
from tokenizers import normalizers

FORMS = {form: getattr(normalizers, form)() for form in ("NFC", "NFD", "NFKC", "NFKD")}
NEIGHBOURS = ("{}", "a{}\u0301", "a{}\u0323", "a\u0301{}", "a\u0323{}", "a\u0334{}")


def differs(character):
    texts = [neighbours.format(character) for neighbours in NEIGHBOURS]
    return any(normalizer.normalize_str(text) != unicodedata2.normalize(form, text)
               for form, normalizer in FORMS.items() for text in texts)


ranges = []
for code_point in range(0x80, 0x110000):
    character = chr(code_point)
    if unicodedata2.category(character) in ("Cn", "Co", "Cs") or not differs(character):
        continue
    for form, normalizer in FORMS.items():
        assert normalizer.normalize_str(f"a{character}\u0301") == f"a{character}\u0301", (form, code_point)
    if ranges and ranges[-1][1] == code_point - 1:
        ranges[-1][1] = code_point
    else:
        ranges.append([code_point, code_point])

lines = ["// Written by make_inert_characters.py: {first, last}, ascending.\n", "// clang-format off\n"]
lines += [f"{{0x{first:X}, 0x{last:X}}},\n" for first, last in ranges]
lines.append("// clang-format on\n")
pathlib.Path(__file__).with_name("inert_characters.inc").write_text("".join(lines))
