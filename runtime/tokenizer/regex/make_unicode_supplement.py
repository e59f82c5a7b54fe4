#!/usr/bin/env python3
"""Writes unicode_supplement.inc: what Unicode 15.0 to 16.0 added to the properties of characters.

The regular expressions of tokenizer files are defined by the engine behind the `tokenizers` package (Unicode 16), while
the PCRE2 of Debian 12 knows Unicode 14: without this table a Han character of extension H would be no letter here.
An entry is a range of code points assigned since, with category and script, or of older ones (without these) that got a
property since; one changed its category (U+1171E, still Mn to PCRE2 as well). Properties are letters: a(lphabetic), l(owercase), u(ppercase). Needs Python 3.11 (whose unicodedata is
Unicode 14), libpcre2-8 10.42, unicodedata2==16.0.0, fonttools==4.55.3 and tokenizers==0.22.1.
"""
import ctypes
import pathlib
import sys
import unicodedata

import unicodedata2
from fontTools.unicodedata import script, script_name
from tokenizers import Regex, pre_tokenizers

if (unicodedata.unidata_version, unicodedata2.unidata_version) != ("14.0.0", "16.0.0"):
    sys.exit("needs Unicode 14.0.0 and 16.0.0, see the comment above")

CODE_POINTS = [code_point for code_point in range(0x110000) if not 0xD800 <= code_point <= 0xDFFF]
PCRE2 = ctypes.CDLL("libpcre2-8.so.0")
for function in ("compile", "match_data_create", "get_ovector_pointer"):
    getattr(PCRE2, f"pcre2_{function}_8").restype = ctypes.c_void_p
UTF_AND_UCP = 0x00080000 | 0x00020000


def in_oniguruma(name):
    text = "".join(map(chr, CODE_POINTS))
    pieces = pre_tokenizers.Split(Regex(rf"\p{{{name}}}"), "removed", invert=True).pre_tokenize_str(text)
    return {ord(character) for piece, _ in pieces for character in piece}


def in_pcre2(name):
    pattern, error, offset = rf"\p{{{name}}}".encode(), ctypes.c_int(), ctypes.c_size_t()
    code = PCRE2.pcre2_compile_8(pattern, ctypes.c_size_t(len(pattern)), ctypes.c_uint32(UTF_AND_UCP), ctypes.byref(error),
                                 ctypes.byref(offset), None)
    data = PCRE2.pcre2_match_data_create_8(ctypes.c_uint32(1), None)

    def matches(code_point):
        text = chr(code_point).encode()
        return PCRE2.pcre2_match_8(ctypes.c_void_p(code), text, ctypes.c_size_t(len(text)), ctypes.c_size_t(0), ctypes.c_uint32(0),
                                   ctypes.c_void_p(data), None) > 0
    return {code_point for code_point in CODE_POINTS if matches(code_point)}


PROPERTIES = {name[0].lower(): in_oniguruma(name) - in_pcre2(name) for name in ("Alphabetic", "Lowercase", "Uppercase")}

ranges = []
for code_point in CODE_POINTS:
    character = chr(code_point)
    category, name = unicodedata2.category(character), script_name(script(character)).replace(" ", "_")
    if unicodedata.category(character) == category:
        category, name = "", ""
    kind = (category, name, "".join(letter for letter, members in PROPERTIES.items() if code_point in members))
    if kind == ("", "", ""):
        continue
    if ranges and ranges[-1][1] == code_point - 1 and ranges[-1][2] == kind:
        ranges[-1][1] = code_point
    else:
        ranges.append([code_point, code_point, kind])

lines = ["// Written by make_unicode_supplement.py: {first, last, category, script, properties}, ascending.\n", "// clang-format off\n"]
lines += [f'{{0x{first:X}, 0x{last:X}, "{category}", "{name}", "{properties}"}},\n'
          for first, last, (category, name, properties) in ranges]
lines.append("// clang-format on\n")
pathlib.Path(__file__).with_name("unicode_supplement.inc").write_text("".join(lines))
