"""Texts for compare_with_tokenizers.py: a fixed list that walks through Unicode, and random ones.

Both take the added tokens of a tokenizer, to put them inside words, beside white space and into each other.
"""
import sys
import unicodedata

WORDS = ("the quick brown fox jumps over 13 lazy dogs; I'm sure they'LL've don'T she'd WE'RE it's THAT'S 'ſ "
         "def f(x): return x**2 != 0x1F for(int i=0;i<n;++i){a[i]=b;} https://example.org/a?b=c&d=%20 "
         "Grüße aus Köln naïve façade Ελληνικά русский язык українська עברית العربية हिन्दी বাংলা தமிழ் ไทย "
         "한국어 日本語テキスト 中文字符 繁體 Tiếng Việt e\u0301 o\u0308 A\u030a \u1100\u1161\u11a8 ﬁ ½ Ⅷ ① ² ５").split(" ")
SPACES = [chr(c) for c in range(sys.maxunicode + 1) if chr(c).isspace() or unicodedata.category(chr(c)) in ("Zs", "Zl", "Zp")]
INVISIBLE = ["\u180e", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u034f", "\u115f", "\u3164", "\ufe0f", "\u2581"]
RUNS = [*SPACES, *INVISIBLE, "  ", "   ", "\n\n", "\r\n", " \n ", "\x1b[0m", "\x00", "\x7f", "\u0301", "▁▁", " ▁"]
CONTROLS = [chr(c) for c in [*range(0x20), *range(0x7F, 0xA0)]]
ZEROS = [c for c in range(sys.maxunicode + 1) if unicodedata.decimal(chr(c), None) == 0]  # the digit 0 of each script
NUMBERS = list("²³¹¼½¾ⅧⅫ①⑳㊿㉈〇五百௧፼৴༳ↈ") + ["\U00010107", "\U00012400", "\U0001d7d8", "\U0001f100"]
MARKS = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) in ("Mn", "Mc", "Me")]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇩🇪🇫🇷", "1️⃣", "❤️", "🤷🏾‍♀️", "👩🏿‍🚀", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🫨"]
PUNCTUATION = ["...", "!?", "--", "\"", "'", "''", "$100", "€", "()", "[]", "{}", "<|", "|>", "<s>", "</s>", "@#", "_", "~", "、。", "「」",
               "«»", "–—", "‘’“”", "…", "؟،", "।", "§¶†", "+<=>^`|", "№", "℃", "𐄀"]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF),
          (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2150, 0x218F), (0x2460, 0x24FF), (0x3040, 0x30FF),
          (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x10000, 0x1FFFF), (0x20000, 0x323AF),
          (0xE0000, 0xE01EF), (0, 0x10FFFF)]
LETTERS = "aAzZäßﬁſ中ひカ한عकไǅʰªⅷ\u0345\u24d0\U0001d4d0"


def code_points(first, last, step):
    return "".join(chr(c) for c in range(first, last, step) if not 0xD800 <= c <= 0xDFFF)


def of_unicode():
    for plane in range(17):  # most of it unassigned: each plane in five texts, with and without words around
        base = plane << 16
        yield from (code_points(base + offset, base + 0x10000, step) for offset, step in ((0, 997), (5, 1021), (0xFF, 0x1FF)))
        yield code_points(base + 0xFFF0, base + 0x10000, 1)
        yield " ".join(f"a{c}1{c}" for c in code_points(base + 77, base + 0x10000, 5003))
    for first in range(0, 0x3400, 0x100):
        yield code_points(first, first + 0x100, 1)
        yield " ".join(code_points(first, first + 0x100, 3))


def of_kinds():
    for space in SPACES + INVISIBLE:
        yield f"a{space}b {space}c{space} d{space}{space}e\n{space}\n{space}"
        yield space * 5
    for control in CONTROLS:
        yield f"{control}a{control}{control} b1{control}."
    for zero in ZEROS:
        digits = "".join(chr(zero + i) for i in range(10))
        yield f"{digits} {digits[1:4]}a{digits[5]}-{digits[:2]} 1{digits[7]}"
    for number in NUMBERS:
        yield f"{number} a{number}b 1{number}2{number}{number}"
    for start in range(0, len(MARKS), 40):
        yield "x" + "".join(MARKS[start:start + 40]) + " e" + "é".join(MARKS[start:start + 40:5])
    for emoji in EMOJI:
        yield f"{emoji} a{emoji}b{emoji}{emoji} 1{emoji}."
    for punctuation in PUNCTUATION:
        yield f"{punctuation} a{punctuation}b {punctuation}c 1{punctuation}{punctuation}2"
    for letter in LETTERS:
        yield f"{letter}'s '{letter} {letter}1{letter} .{letter} {letter}\u0301\u0323 {letter}\u200d{letter}"


def of_runs():
    for unit in [*LETTERS, "7", " ", "\n", "\r\n", "\t", ".", "'", "ab", "a ", " \n", "\u0301", "▁", "\u00a0", "12 ", "-=", "👍🏽", "<", "\x00"]:
        for count in (2, 3, 4, 63, 64, 65, 257, 1000):
            yield unit * count


def of_added_tokens(added):
    for i, token in enumerate(added[:60]):
        other = added[(i * 7 + 1) % len(added)]
        yield f"x{token}y x {token} y {token}{other}{token} {token}  {other}\n{token}\t"
        yield f"{token[:-1]}{token}{token[1:]} {token.upper()} {token.lower()} _{token}_ 1{token}2 é{token}é\u0301{token}\u0301"
        yield f" {token} "
        yield f"{token}\n\n  a"


def fixed(added):
    yield from ("", " ", "  ", "\n")
    for kind in (of_unicode(), of_kinds(), of_runs(), of_added_tokens(added)):
        yield from kind


def code_point(rng):
    first, last = rng.choice(BLOCKS)
    value = rng.randint(first, last)
    return "" if 0xD800 <= value <= 0xDFFF else chr(value)


def random_text(rng, added):
    parts = []
    for _ in range(rng.choice([1, 2, 3, 5, 10, 30])):
        kind = rng.random()
        if kind < 0.35:
            word = rng.choice(WORDS)
            parts.append(rng.choice([word, " " + word, word.upper(), word[:rng.randint(1, len(word))]]))
        elif kind < 0.55:
            parts.append(rng.choice(RUNS) * rng.choice([1, 1, 1, 2, 3, 17]))
        elif kind < 0.65:
            parts.append(str(rng.randint(0, 10 ** rng.randint(1, 12))))
        elif kind < 0.68:
            zero = rng.choice(ZEROS)
            parts.append("".join(chr(zero + rng.randrange(10)) for _ in range(rng.randint(1, 7))))
        elif kind < 0.74:
            parts.append(rng.choice(PUNCTUATION))
        elif kind < 0.78:
            parts.append(rng.choice(EMOJI))
        elif kind < 0.81:
            parts.append(rng.choice(LETTERS) + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 4))))
        elif kind < 0.87 and added:
            parts.append(rng.choice(added))
        else:
            parts.append("".join(code_point(rng) for _ in range(rng.randint(1, 8))))
        if rng.random() < 0.4:
            parts.append(" ")
    return "".join(parts)


def broken(rng, text):
    """The bytes of a text, some of them changed, some cut off."""
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 1 + len(data) // 8)):
        if data:
            data[rng.randrange(len(data))] = rng.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0xFF, rng.randrange(256)])
    return bytes(data[:rng.randint(len(data) // 2, len(data))])
