"""What make_goldens.py trains on and what it encodes: texts, variants of the base tokenizer, broken UTF-8."""
import random

NAMES = "Anna Ben Clara David Emma Felix Grace Henry".split()
THINGS = "river forest lantern teapot elephant bridge garden mountain letter window".split()
VERBS = "walked looked waited laughed remembered whispered counted opened".split()
OTHER = ["Grüße aus Köln, schöne Straße.", "Ελληνικά γράμματα", "русский язык и буквы", "日本語のテキスト", "中文字符和汉字",
         "한국어 문장", "العربية لغة", "हिन्दी भाषा", "naïve café déjà vu", "def f(x):\n    return x ** 2\n", "😀😀 👍🏽 ❤️"]


def training_lines():
    rng = random.Random(7)
    for i in range(3000):
        name, thing, verb = rng.choice(NAMES), rng.choice(THINGS), rng.choice(VERBS)
        yield f"{name} {verb} by the {thing}, and {rng.choice(NAMES)}'s {rng.choice(THINGS)} wasn't there.\n"
        yield f"Q: {rng.randint(0, 999)} + {rng.randint(0, 99)} = ? A: {rng.randint(0, 2000)}  {rng.choice(OTHER)}"


SAMPLES = [
    "", " ", "  ", "\n", "\t", "a", " a", "a ", "Hello world", " Hello  world ", "Anna walked by the river.",
    "I'm sure they'll say it's what we'd've done, don't you? I'VE said HE'S here, IT'LL'D",
    "'s't're've'm'll'd 'S'T'RE'VE'M'LL'D '\u017f \u2019s",
    "Q: 23 + 58 = ? A: 81", "1234567890 12 345 6789 3.14159 1,000,000 0x1F 1e-9", "٣٤٥ १२३ Ⅷ ½ ² ①②③ ５６",
    "def f(x):\n    if x != 0:\n\t\treturn [i ** 2 for i in range(x)]  # squares\n\n\n",
    "for (int i = 0; i < n; ++i) { a[i] = b->c(); }\r\n", "line one\r\nline two\r\n\r\n  indented\r\r\n",
    "trailing spaces   \n   leading spaces", "a\n\n\nb", "a \n \n b", " \n", "\n ", "\r", "x\r\ry", "\t\t \t mixed \t",
    "      six spaces", "ends with spaces      ", "a" * 70, "ab" * 40, " " * 70, "\n" * 20, "-" * 65, "=" * 33 + ">",
    "no\u00a0break\u3000ideographic\u2003em\u2028line\u2029para\u0085nel\u180emongolian\u200bzero\ufeffbom",
    "\x00", "a\x00b", "\x00\x00\x01\x02\x1b[31m\x7f\u0080\u009f", "\x1c\x1d\x1e\x1f\x0b\x0c",
    "Grüße aus Köln: schöne Straße, ÄÖÜ", "naïve café déjà vu", "nai\u0308ve cafe\u0301 o\u0302\u0323 \u1100\u1161\u11a8",
    "\u0301starts with a mark", "e\u0301\u0301\u0323\u0301", "Z\u0351\u036b\u0343a\u0329l\u0321g\u0353o",
    "ﬁ ﬂ ﬀ ſ K Å Ω ㎏ ﷺ", "İstanbul Iı ǅ ẞ ΑΣ", "Ελληνικά γράμματα", "русский язык и буквы ЁЖИК",
    "українська мова", "עברית שפה", "العربية لغة جميلة", "فارسی", "हिन्दी भाषा क्षत्रिय", "বাংলা", "தமிழ்", "ไทยไม่มีช่องว่าง", "မြန်မာ",
    "日本語のテキスト、カタカナ", "中文字符和汉字。繁體", "한국어 문장입니다", "ᠮᠣᠩᠭᠣᠯ", "ᏣᎳᎩ", "Tiếng Việt có dấu",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𐍈 𓀀", "𠮷野家 𪚥 \U00031350\U0002ebf0", "\U0001e4d0\U0001e4f1\U00011f50 \U0001fae8",
    "😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣ ❤️", "text😀text 👩🏿‍🚀!", "🤷🏾‍♀️🤷",
    "\u200d\u200d\ufe0f", "\u202eright to left\u202c", "\ufffd\ufffe\uffff\U0010ffff", "\ue000 private \U000f0000",
    "...!?--''\"\"``", "$100 €50 £3 50% #tag @user a_b a-b a/b\\c", "(parens) [brackets] {braces} <angle> «guillemets»",
    "https://example.org/path?query=1&other=%20#frag", "user@example.org", "C:\\path\\file.txt", "x²+y²=z²",
    "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", " <|im_start|>user\nhi<|im_end|>\n", "<|user|> hi",
    "<|end_of_text|><|eot_id|><|begin_of_text|>hello", "<s>hello</s> <unk> <s> x", "<|endoftext", "|endoftext|>", "<0x41><0x0A>",
    "<tool_call>{\"a\": 1}</tool_call>", "café cafe\u0301 xcafé", "▁under▁score ▁ ▁▁", "Ġ Ċ ĉ âĢĻ ð", " elephants elephants",
    "MiXeD CaSe WoRdS", "one,two;three:four", "the the the the", "Felix's teapot wasn't there", "\u2019quoted\u2019 \u201cdouble\u201d \u2013\u2014",
]

# A selection for the variants: they need texts that tell their settings apart.
SHORT = ["", " ", "Anna's river, wasn't there.", "a-b--c - -d-", "12 345 x6y Ⅷ ² ٣", "  two  spaces \n\n and\tlines \r\n",
         "Grüße ﬁ e\u0301 ẛ̣ \u212b 각 Straße", "中文 and 日本語 text", "foo foobar barfoo foo", "Q: 7 + 8 = ? A: 15", "aaaa aabaa ab.c",
         "\u00a0\u180e\u2003x\u200by", "İ I ΑΣ ǅ", "<|endoftext|> a", "\U00031350\U0001e4d0\U0001e4f1"]

BYTES_ONLY = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
PATTERNS = [
    r"\s+|\p{P}", r"\w+|\W", r"[\S\r]+", r"[^\S\n]+", r"[^\S]+", r"\p{N}{1,3}+", r"a{2}?b", r"a{,2}b", r"\bfoo\b", r"\Bo", r"(?i)STRASSE|fOO",
    r"\p{Han}+", r"\p{^L}+", r"\P{L}", r"[\P{L}b]+", r"[^\P{L}b]+", r"^.", r".$", r"[.\d-]", r"[-\d]+", r"\h+", r"\u4e2d", r"(?m:a.+b)", r"(?<=a)b",
    r"(?<!a)b", r"\p{Alpha}+", r"\p{Letter}", r"\p{Greek}", r"\p{C}+", r"\p{Lu}\p{Ll}*", r"a*", r"x*?", r"(a|ab)(c|b)", r"a++b",
    r"[a-c\-x]+", r"[]a]", r"[^]a]", r"\x61|\x{62}", r"\v|\t|\n", r"a\.|\-", r"{|a{|b}", r"\A.|\z", r"(?>a+)b|a", r"\d+(?=\D)", r"[\w']+", r"é|[à-ü]",
]


def split(pattern, behavior, invert=False):
    kind = "String" if pattern == "-" else "Regex"
    parts = [{"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}, BYTES_ONLY]
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": parts}}


def pre_tokenizer(**options):
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [options, BYTES_ONLY]}}


def added(*tokens):
    defaults = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"added_tokens": [{"id": 900 + i, **defaults, **token} for i, token in enumerate(tokens)]}


def split_variants():
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            for pattern in ("-", r"\s+|\p{P}"):
                yield f"Split {pattern} {behavior} invert={invert}", split(pattern, behavior, invert), SHORT
    for pattern in PATTERNS:
        yield f"Split {pattern}", split(pattern, "Isolated"), SHORT


def pre_tokenizer_variants():
    yield "Digits", pre_tokenizer(type="Digits", individual_digits=False), SHORT
    yield "Digits individual", pre_tokenizer(type="Digits", individual_digits=True), SHORT
    yield "Whitespace", pre_tokenizer(type="Whitespace"), SHORT
    yield "WhitespaceSplit", pre_tokenizer(type="WhitespaceSplit"), SHORT
    yield "ByteLevel prefix", {"pre_tokenizer": {**BYTES_ONLY, "add_prefix_space": True}}, SHORT
    yield "ByteLevel prefix regex", {"pre_tokenizer": {**BYTES_ONLY, "add_prefix_space": True, "use_regex": True}}, SHORT
    yield "no pre-tokenizer", {"pre_tokenizer": None}, SHORT


def normalizer_variants():
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        yield form, {"normalizer": {"type": form}}, SHORT + ["각 \u1100\u1161\u11a8 e\u0323\u0301 e\u0301\u0323 ṩ ﷺ", "x" + "\u0301\u0323" * 5,
                                                           "a\u08d3\u0301 a\u0897\u0323 \u32ff\u3300 \ua7f2 \U00011938", "\u1c89\ua7cb\ua7dc\U00010d50\U0001e900"]
    replace = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"}
    yield "Replace regex", {"normalizer": replace}, SHORT
    parts = [{"type": "NFKC"}, {"type": "Lowercase"}, replace, {"type": "Prepend", "prepend": ">"}]
    yield "Sequence", {"normalizer": {"type": "Sequence", "normalizers": parts}}, SHORT


def added_token_variants():
    samples = ["<a>", "x<a>y", "x <a> y", "x \n<a>\t <a> y", "<a><a>", "<ab> <abc> <abcd>", "w<w>w <w> w <w>", "a<w> é<w>", "<w>\u0301 <w>_ <w>-",
               "Hello HELLO hello", "<a> <s>  <a>", "\u3000<a>\u00a0x"]
    yield "lstrip", added({"content": "<a>", "lstrip": True}), samples
    yield "rstrip", added({"content": "<a>", "rstrip": True}), samples
    yield "both, special", added({"content": "<a>", "lstrip": True, "rstrip": True, "special": True}), samples
    yield "single word", added({"content": "<w>", "single_word": True}, {"content": "w", "single_word": True}), samples
    yield "longest", added({"content": "<ab"}, {"content": "<abc"}, {"content": "<abc>"}, {"content": "c"}), samples
    yield "white space", added({"content": "<a>", "rstrip": True}, {"content": "  "}, {"content": " "}), samples
    lowered = added({"content": "Hello", "normalized": True}, {"content": "<A>", "normalized": True})
    yield "normalized", {**lowered, "normalizer": {"type": "Lowercase"}}, samples
    prepended = added({"content": "x", "normalized": True}, {"content": "<a>", "special": True})
    yield "prepended", {**prepended, "normalizer": {"type": "Prepend", "prepend": "_"}}, samples


def model_variants():
    for fuse in (False, True):
        for fallback in (False, True):
            model = {"unk_token": "<|endoftext|>", "fuse_unk": fuse, "byte_fallback": fallback,
                     "vocab": {f"<0x{byte:02X}>": 900 + byte for byte in range(128, 256) if byte != 0xBD}}
            yield f"unk fuse={fuse} byte_fallback={fallback}", {"model": model, "pre_tokenizer": None}, SHORT + ["中a中 中ｽ中ｽ㍽中x中"]


def decoder_variants():
    tokens = [{"content": f"<0x{byte:02x}>"} for byte in (0x41, 0xE4, 0xB8, 0xAD, 0xF0, 0xFF)]
    spaced = [{"content": "_x_"}, {"content": "__"}, {"content": "é"}, {"content": "_"}]
    samples = ["<0xe4><0xb8><0xad>", "<0xe4><0xb8><0x41>", "a<0xe4><0xb8><0xad>b<0xff>", "<0xe4><0xb8><0xad><0xe4>", "_x__x_ __ _é_",
               "__x", "x__", "Anna-river"]
    fallback = {"type": "ByteFallback"}
    fuse = {"type": "Fuse"}
    text = {"type": "Replace", "pattern": {"String": "_x"}, "content": "[=]"}
    regex = {"type": "Replace", "pattern": {"Regex": "[aeiou]+"}, "content": "*"}
    for name, parts in {
        "fallback": [fallback], "fuse": [fuse], "fallback fuse": [fallback, fuse], "fuse fallback": [fuse, fallback],
        "replace": [text], "fuse replace": [fuse, text], "replace regex": [regex], "fuse replace regex": [fuse, regex],
        "strip start": [{"type": "Strip", "content": "_", "start": 1, "stop": 0}],
        "fuse strip start": [fuse, {"type": "Strip", "content": "_", "start": 2, "stop": 0}],
        "fuse strip stop": [fuse, {"type": "Strip", "content": "_", "start": 0, "stop": 1}],
        "bytes replace": [{**BYTES_ONLY}, text],
    }.items():
        yield f"decoder {name}", {"decoder": {"type": "Sequence", "decoders": parts}, **added(*tokens, *spaced)}, samples
    yield "no decoder", {"decoder": None, **added(*tokens, *spaced)}, samples


def post_processor_variants():
    text = {"Sequence": {"id": "A", "type_id": 0}}
    token = {"SpecialToken": {"id": "X", "type_id": 0}}
    special_tokens = {"X": {"id": "X", "ids": [5, 6], "tokens": ["x", "y"]}}
    for name, single in {"around": [token, text, token], "twice": [text, token, text], "none": [token]}.items():
        template = {"type": "TemplateProcessing", "single": single, "pair": [text, text], "special_tokens": special_tokens}
        yield f"template {name}", {"post_processor": template}, SHORT[:4]


def variants():
    for group in (split_variants, pre_tokenizer_variants, normalizer_variants, added_token_variants, model_variants, decoder_variants,
                  post_processor_variants):
        yield from group()


def invalid_utf8():
    """One example of each way to be invalid, and random damage to valid text."""
    yield from (b"\x80", b"\xbf\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82(", b"\xe2(\xa1", b"\xe0\x80\x80",
                b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x9f\x98", b"\xf0\x9f\x98a", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5\x80",
                b"\xfe\xff", b"abc\xffdef\x00", b"\xe4\xb8\xad\xe4\xb8", b"\xf0\x9f\xe4\xb8\xad", b"\xf1\x80\xc3\xa9")
    rng = random.Random(3)
    for _ in range(40):
        data = bytearray("é中😀 naïve 文字 👍🏽".encode())
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        yield bytes(data[:rng.randrange(1, len(data))])
