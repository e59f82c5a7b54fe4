"""Variants of a vocabulary that shows where a text is cut: each byte's character twice, once as the end of a word.

A model with `end_of_word_suffix` and no merges gives each byte its id, and the last one of each piece another. So the ids of
these variants are the pieces of their pre-tokenizers, whatever these do: all components, and the published pipelines.
"""
from tokenizers import pre_tokenizers

import published
from published import byte_level, metaspace, sequence, split
from texts import SHORT

BYTES_ONLY = byte_level(use_regex=False)
BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
SPACES = ["", " ", "a", " a", "a ", "  a  b ", "▁a ▁", "\u00a0a", "a\n b", "<s> a", "a<s>b", "<s>", " <s> a"]
CUTS = ["", " ", "a-b--c - -d-", "Anna's river, wasn't there... (no!)", "12 345 x6y Ⅷ ² ٣ ½4", "\u00a0\u180e\u2003x\u200by\u0085", "中文，「日本語」text。",
        "$1+2=<3>^`|~ €¥ §¶ «x» \u2e52 \U0001f4a9", "e\u0301 a\u0323\u0301x"]
FAMILY_TEXTS = [
    "", " ", "Hello world", "  I'm sure they'LL  don'T, WE'RE\n\n 'ſ\r\n ", "12345678 3.14 x1y 1,000 ٣٤٥ ½ ² Ⅷ", "def f(x):\n\treturn x**2  # a_b\n\n\n  y",
    "https://a.org/?b=c&d=%20 <|x|> $1.50 (x)[y]{z}!!! ...\n- ", "Grüße ΑΒΓ Привет ÀÉ e\u0301A\u0301 ʰªⅷ", "中文字符，日本語テキスト。한국어 ไทย हिन्दी क्षत्रिय",
    "\u00a0x\u3000y\u2003\u200bz\ufeff \u0085\u2028", "👍🏽 👨\u200d👩 🇩🇪 1\ufe0f\u20e3", "<s>a<s> <s>b\u0301<s>", "\x00\x1b[0m\x7f\t\t \t", "aA'sBb'T  \n  \n   c",
    "a" * 9 + " " * 7 + "1" * 8 + "!" * 5 + "\n" * 4 + "é" * 3]
REGEXES = [
    r"[[:punct:]]+", r"[[:^alpha:]]", r"[[:upper:][:digit:]]+", r"[\w&&[^a-c_]]+", r"[^\w&&[^\s]]", r"[a[b-d[^a-\x{FFFF}]]x]+", r"[^\x00-\x7F]+", r"[\x9-\xD]", r"[^a[^\s]]",
    r"[^[a-c][^\P{L}]]", r"[\p{L}&&[^\p{Han}]]+", r"[[:word:]]", r"[\w]", r"\w", r"[^\W]", r"\p{Punct}", r"\p{Lower}\p{Upper}*", r"\p{Alnum}+",
    r"\p{Cn}", r"\p{LC}+", r"\p{Any}", r"[[:a]x]", r" ?[^(\s|[.,!?…。])]+", r"\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}", r"(?=(\d{3})+(?!\d))",
    r"\d{1,3}(?=(?:\d{3})*\b)", r"(?:\r?\n)+(?!\r?\n)"]


def alone(**options):
    return {"pre_tokenizer": options}


def bytewise(*parts, **others):
    return {"pre_tokenizer": sequence(*parts, BYTES_ONLY), **others}


def added(*tokens):
    defaults = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return [{"id": 512 + i, **defaults, **token} for i, token in enumerate(tokens)]


def base():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {character + suffix: len(alphabet) * (suffix != "") + i for suffix in ("", "</w>") for i, character in enumerate(alphabet)}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "end_of_word_suffix": "</w>", "vocab": vocab, "merges": []}}


def pre_tokenizer_variants():
    for behavior in BEHAVIORS:
        yield f"Punctuation {behavior}", bytewise({"type": "Punctuation", "behavior": behavior}), CUTS
        yield f"Split empty String {behavior}", bytewise(split("", behavior, kind="String")), CUTS[:5]
        yield f"Split spaces {behavior}", bytewise(split("  ", behavior, kind="String")), SPACES
    yield "Punctuation", bytewise({"type": "Punctuation"}), CUTS
    yield "CharDelimiterSplit", bytewise({"type": "CharDelimiterSplit", "delimiter": "-"}), CUTS
    yield "CharDelimiterSplit é", bytewise({"type": "CharDelimiterSplit", "delimiter": "é"}), ["aébééc", "é", "e\u0301"]
    yield "ByteLevel twice", bytewise(byte_level(add_prefix_space=True)), CUTS
    yield "nested", bytewise(sequence(), sequence({"type": "WhitespaceSplit"}, sequence({"type": "Digits", "individual_digits": True}))), CUTS
    for regex in REGEXES:
        yield f"Split {regex}", bytewise(split(regex)), [*CUTS[1:], "1234567 89", "a\r\n\r\nb\n\n", "_aBcD\u00b2\u0378\U000105c0\u4e2d   x"]


def metaspace_variants():
    for scheme in ("first", "never", "always"):
        for cuts in (True, False):
            yield f"Metaspace {scheme} split={cuts}", bytewise(metaspace(prepend_scheme=scheme, split=cuts), added_tokens=added({"content": "<s>"})), SPACES
    legacy = metaspace(str_rep="▁", add_prefix_space=True)
    yield "Metaspace str_rep", bytewise(legacy), SPACES
    yield "Metaspace add_prefix_space", bytewise(metaspace(add_prefix_space=True, prepend_scheme="first")), SPACES
    yield "Metaspace underscore", bytewise({"type": "Metaspace", "replacement": "_"}), [*SPACES, "_a_ b", "__"]
    yield "Metaspace space", bytewise({"type": "Metaspace", "replacement": " "}), SPACES
    first = metaspace(prepend_scheme="first")
    yield "WhitespaceSplit, Metaspace first", bytewise({"type": "WhitespaceSplit"}, first), [*SPACES, "a b c"]
    yield "Digits, Metaspace first", bytewise({"type": "Digits", "individual_digits": False}, first), ["12ab 3", "a1 2", " 1"]
    yield "prefix, Metaspace first", bytewise(byte_level(add_prefix_space=True), first), SPACES
    # Whether a text starts the input is asked of the input, not of what a normalizer made of it.
    for name, normalizer in {
        "Strip": {"type": "Strip", "strip_left": True, "strip_right": False}, "Prepend": {"type": "Prepend", "prepend": "xy"},
        "Nmt": {"type": "Nmt"}, "NFD": {"type": "NFD"}, "NFC": {"type": "NFC"},
        "Replace": {"type": "Replace", "pattern": {"Regex": "  +"}, "content": "-"}, "delete": {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
    }.items():
        parts = bytewise(split(r"\p{M}|[y-]"), first, normalizer=normalizer)
        yield f"{name}, Metaspace first", parts, [*SPACES, "éa", "e\u0301\u0323a", "\x01a", "\ufb01x", "a a", "aab"]


def normalizer_variants():
    samples = ["", " ", "\n a \u3000", "\u00a0\u2003x\u200b ", "ÀÉ e\u0301a\u0323\u0301 \u05d1\u05bc \u0e33", "\x01a\x0b\x0cb\x7f\x8f\x9f\x85\ufeff\u200b\u2028▁\ufffd", "中é😀"]
    for left in (True, False):
        for right in (True, False):
            yield f"Strip {left} {right}", bytewise(normalizer={"type": "Strip", "strip_left": left, "strip_right": right}), samples
    yield "StripAccents", bytewise(normalizer={"type": "StripAccents"}), samples
    yield "Nmt", bytewise(normalizer={"type": "Nmt"}), samples
    yield "ByteLevel normalizer", {"normalizer": {"type": "ByteLevel"}}, samples
    parts = [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True}]
    yield "NFD StripAccents Lowercase Strip", bytewise(normalizer={"type": "Sequence", "normalizers": parts}), samples
    yield "Replace empty String", {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "-"}}, ["", "ab", "abc"]


def added_token_variants():
    samples = ["  ab  ab", "a \n b", " \n \n a", "Hello hello HELLO", "aHello_ Helloé \u0301Hello 1Hello Hello\u200d", "<x><x> <x>", "abab ab", "\n\n\n", "x  y"]
    spaces = added({"content": " ", "lstrip": True, "rstrip": True}, {"content": "\n", "rstrip": True}, {"content": "ab", "rstrip": True})
    yield "white space swallowed", bytewise(added_tokens=spaces), samples
    twice = added({"content": "ab", "lstrip": True}, {"content": "ab", "special": True}, {"content": "<x>", "special": True}, {"content": "<x>", "rstrip": True})
    yield "added twice", bytewise(added_tokens=twice), samples
    same = added({"content": "HELLO", "normalized": True}, {"content": "Hello", "normalized": True, "special": True}, {"content": "hello", "normalized": True})
    yield "one normal form", bytewise(added_tokens=same, normalizer={"type": "Lowercase"}), samples
    yield "single word", bytewise(added_tokens=added({"content": "Hello", "single_word": True}, {"content": "ab", "single_word": True, "lstrip": True})), samples
    holes = {"vocab": {"ab": 700, "Hello": 900}}
    yield "ids behind holes", bytewise(model=holes, added_tokens=added({"content": "ab"}, {"content": "<x>"}, {"content": "Hello"}, {"content": "x"})), samples


def model_variants():
    samples = ["ab", "abab ab", "xaby", "中ab", "b", "ÿab\u00ff", "abcab", "aé"]
    affixes = {"vocab": {"##a": 600, "##b": 601, "##b</w>": 602, "ab": 603, "##ab</w>": 604, "abab</w>": 605, "##a</w>": 606, "<0xC3>": 607, "<0xA9>": 608,
                         "<0x3C>": 609, "<0x2F>": 610, "<0x77>": 611, "<0x3E>": 612, "<0x23>": 613},
               "continuing_subword_prefix": "##", "merges": [["a", "##b"], ["##a", "##b</w>"], ["ab", "##ab</w>"]]}
    yield "both affixes", {"model": affixes}, samples
    yield "both affixes, older merges", {"model": {**affixes, "merges": ["a ##b", "##a ##b</w>", "ab ##ab</w>"]}}, samples
    for fuse in (False, True):
        options = {"byte_fallback": True, "unk_token": "!", "fuse_unk": fuse}
        yield f"both affixes, byte_fallback, fuse_unk={fuse}", {"model": {**affixes, **options}}, [*samples, "éé", "aéb中中c"]
    yield "suffix, ignore_merges", {"model": {"ignore_merges": True, "vocab": {"xab": 600}}}, ["xab", "xaby", "ab"]
    yield "no dropout", {"model": {"dropout": 0.0}}, samples


def post_processor_variants():
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 600], "cls": ["<s>", 601], "trim_offsets": True, "add_prefix_space": False}
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 602], "cls": ["[CLS]", 603]}
    template = published.template("<s>", 604)
    for name, processor in {"Roberta": roberta, "Bert": bert, "Sequence": {"type": "Sequence", "processors": [byte_level(), bert, roberta, template]},
                            "nested": {"type": "Sequence", "processors": [{"type": "Sequence", "processors": [bert]}, template, byte_level()]}}.items():
        yield name, {"post_processor": processor}, ["", "ab", "a b"]


def decoder_variants():
    contents = ["▁a", "▁", "▁▁b▁", "c▁", "▁d</w>", "</w>", "e</w>f</w>", "é", "<0xc3>", "<0xa9>", ""]
    samples = ["▁a▁a", "▁▁b▁▁a", "c▁▁a", "▁d</w>▁d</w>", "▁d</w></w>", "e</w>f</w>é▁d</w>", "é", "c▁e</w>f</w>", "<0xc3><0xa9>▁a", "</w></w>c▁", "▁"]
    spaces = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    suffix, fuse, fallback = {"type": "BPEDecoder", "suffix": "</w>"}, {"type": "Fuse"}, {"type": "ByteFallback"}
    for name, decoder in {
        "Metaspace": metaspace(), "Metaspace first": metaspace(prepend_scheme="first", split=False), "Metaspace never": metaspace(prepend_scheme="never"),
        "Metaspace str_rep": metaspace(str_rep="▁", add_prefix_space=True), "BPEDecoder": suffix,
        "Fuse BPEDecoder": published.decoders(fuse, suffix), "BPEDecoder Metaspace": published.decoders(suffix, metaspace()),
        "Metaspace BPEDecoder": published.decoders(metaspace(), suffix), "ByteFallback Metaspace": published.decoders(fallback, metaspace(), fuse),
        "Fuse Metaspace": published.decoders(fuse, metaspace()), "llama": published.LLAMA_DECODER, "gemma": published.SPACES,
        "nested": published.decoders(published.decoders(spaces), published.decoders(fallback, published.decoders(fuse))),
        "Replace empty String": {"type": "Replace", "pattern": {"String": ""}, "content": "-"}, "ByteLevel": byte_level(),
        "Fuse Replace Strip": published.decoders(fuse, spaces, {"type": "Strip", "content": "é", "start": 0, "stop": 1}),
    }.items():
        yield f"decoder {name}", {"decoder": decoder, "added_tokens": added(*({"content": content} for content in contents))}, samples


def family_variants():
    for name, family in published.FAMILIES.items():
        if family.get("base") != "pieces":
            special = {"content": "<s>", "special": True, "normalized": family.get("normalized_tokens", False)}
            patch = {"normalizer": family.get("normalizer"), "pre_tokenizer": family["pre_tokenizer"], "added_tokens": added(special),
                     "post_processor": published.post_processor(family, "<s>", 512), "decoder": byte_level(add_prefix_space=True)}
            yield f"as {name}", patch, FAMILY_TEXTS


def variants():
    for group in (pre_tokenizer_variants, metaspace_variants, normalizer_variants, added_token_variants, model_variants, post_processor_variants,
                  decoder_variants, family_variants):
        yield from group()


def piece_variants():
    """The families with SentencePiece's vocabularies, around the one of llama2_style."""
    texts = [*FAMILY_TEXTS, "Anna walked by the river.", " Felix's teapot", "  two  spaces ", "<s>hello</s>\n\n x </s> y", "▁under▁score ▁"]
    for name, family in published.FAMILIES.items():
        if family.get("base") == "pieces":
            tokens = [{"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": family.get("rstrip", False),
                       "normalized": False, "special": True} for i, content in enumerate(["<unk>", "<s>", "</s>"])]
            yield f"as {name}", {"normalizer": family.get("normalizer"), "pre_tokenizer": family.get("pre_tokenizer"), "added_tokens": tokens,
                                 "decoder": family.get("decoder", published.LLAMA_DECODER)}, texts
    legacy = {"normalizer": None, "pre_tokenizer": metaspace(add_prefix_space=True), "decoder": metaspace(add_prefix_space=True)}
    yield "Metaspace both ways", legacy, texts
    never = {"normalizer": None, "pre_tokenizer": metaspace(prepend_scheme="never"), "decoder": metaspace(prepend_scheme="never")}
    yield "Metaspace never", never, texts
