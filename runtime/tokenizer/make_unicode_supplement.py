#!/usr/bin/env python3
"""Writes unicode_supplement.inc: the code points assigned in Unicode 15.0 to 16.0, with category and script.

The regular expressions of tokenizer files are defined by the engine behind the `tokenizers` package (Unicode 16), while
the PCRE2 of Debian 12 knows Unicode 14: without this table a Han character of extension H would be no letter here.
Needs Python 3.11 (whose unicodedata is Unicode 14), unicodedata2==16.0.0 and fonttools==4.55.3.
"""
import pathlib
import sys
import unicodedata

import unicodedata2
from fontTools.unicodedata import script, script_name

if (unicodedata.unidata_version, unicodedata2.unidata_version) != ("14.0.0", "16.0.0"):
    sys.exit("needs Unicode 14.0.0 and 16.0.0, see the comment above")

ranges = []
for code_point in range(0x110000):
    character = chr(code_point)
    category = unicodedata2.category(character)
    if unicodedata.category(character) != "Cn" or category == "Cn":
        continue
    kind = (category, script_name(script(character)).replace(" ", "_"))
    if ranges and ranges[-1][1] == code_point - 1 and ranges[-1][2] == kind:
        ranges[-1][1] = code_point
    else:
        ranges.append([code_point, code_point, kind])

lines = ["// Written by make_unicode_supplement.py: {first, last, category, script}, ascending.\n", "// clang-format off\n"]
lines += [f'{{0x{first:X}, 0x{last:X}, "{category}", "{name}"}},\n' for first, last, (category, name) in ranges]
lines.append("// clang-format on\n")
pathlib.Path(__file__).with_name("unicode_supplement.inc").write_text("".join(lines))
