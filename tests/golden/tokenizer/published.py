"""The pipelines that tokenizer.json files are published with, by family: what stands around the vocabulary.

make_goldens.py puts them around small trained vocabularies, tests/unit/tokenizer/make_real_tokenizers.py around real ones.
The sections are written as the files spell them, with the older spellings where a family was published in them.
"""

GPT2_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = GPT2_CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + REST
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = GPT2_CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + REST
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + r"*|\p{N}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + REST)
GPT4O = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + GPT2_CONTRACTIONS + r"?|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*"
         + GPT2_CONTRACTIONS + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + REST)
DEEPSEEK_LETTERS = r"\s?[" + (  # as escapes: editors normalise some of these characters
    "A-Za-z\xb5\xc0-\xd6\xd8-\xf6\xf8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f"
    "\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8"
    "-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-"
    "\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3"
    "\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-"
    "\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943") + "]+"
DEEPSEEK_CJK = "[一-龥ࠀ-一가-퟿]+"
DEEPSEEK_V3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|".replace(
    r"\"", '"') + REST)
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, **options}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def by_regex(pattern):
    return sequence(split(pattern), byte_level(use_regex=False))


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def metaspace(**options):
    return {"type": "Metaspace", "replacement": "▁", **options}


def decoders(*parts):
    return {"type": "Sequence", "decoders": list(parts)}


PREPEND = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")]}
NOTHING = {"type": "Sequence", "normalizers": []}
DIGITS = {"type": "Digits", "individual_digits": True}
SPACES = decoders(replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"})
LLAMA_DECODER = decoders(*SPACES["decoders"], {"type": "Strip", "content": " ", "start": 1, "stop": 0})
SENTENCE_PIECE = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
OFFSETS = byte_level(add_prefix_space=True, trim_offsets=False, use_regex=True)


# A family: pre_tokenizer, and what differs from a byte-level file without anything else. `bos` asks for a
# TemplateProcessing that puts the first token in front (`bos_in_sequence`: behind a ByteLevel, as Llama 3 has it); `model`
# are options of the model; `base` is the vocabulary: "bytes" (of the byte alphabet) or "pieces" (of SentencePiece).
FAMILIES = {
    "gpt2": {"pre_tokenizer": byte_level(), "post_processor": OFFSETS, "untyped_model": True,
             "model": {"continuing_subword_prefix": "", "end_of_word_suffix": ""}},
    "llama2": {"base": "pieces", "normalizer": PREPEND, "bos": True},
    "llama2-metaspace": {"base": "pieces", "pre_tokenizer": metaspace(prepend_scheme="first", split=False), "bos": True},
    "llama3": {"pre_tokenizer": by_regex(LLAMA3), "bos_in_sequence": True, "model": {"ignore_merges": True}},
    "mistral-v0.3": {"base": "pieces", "pre_tokenizer": metaspace(prepend_scheme="first", split=False), "bos": True},
    "mistral-legacy": {"base": "pieces", "pre_tokenizer": metaspace(str_rep="▁", add_prefix_space=True), "bos": True},
    "mistral-nemo": {"pre_tokenizer": by_regex(TEKKEN), "bos": True, "model": {"ignore_merges": True}},
    "qwen2": {"normalizer": {"type": "NFC"}, "pre_tokenizer": by_regex(QWEN2), "post_processor": byte_level(use_regex=False)},
    "qwen3.5": {"normalizer": {"type": "NFC"}, "pre_tokenizer": by_regex(QWEN35), "post_processor": byte_level(use_regex=False)},
    "phi3": {"base": "pieces", "normalizer": PREPEND, "bos": True, "rstrip": True},
    "starcoder": {"pre_tokenizer": sequence(DIGITS, byte_level(use_regex=True)), "post_processor": OFFSETS},
    "starcoder2": {"pre_tokenizer": sequence(DIGITS, byte_level(use_regex=True))},
    "deepseek-llm": {"normalizer": NOTHING, "bos": True, "normalized_tokens": True, "pre_tokenizer": sequence(
        split(r"[\r\n]"), split(DEEPSEEK_LETTERS), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split(DEEPSEEK_CJK),
        DIGITS, byte_level(use_regex=False))},
    "deepseek-coder": {"normalizer": NOTHING, "bos": True, "normalized_tokens": True, "pre_tokenizer": sequence(
        split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(DEEPSEEK_CJK), DIGITS, byte_level(use_regex=False))},
    "deepseek-v3": {"normalizer": NOTHING, "bos": True, "pre_tokenizer": sequence(
        split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK_V3), byte_level(use_regex=False))},
    "falcon": {"post_processor": OFFSETS, "pre_tokenizer": sequence(
        {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(use_regex=True), {"type": "Digits", "individual_digits": False},
        split("[0-9][0-9][0-9]"))},
    # Beyond the families that the engine runs: what shares their components.
    "gpt-neox": {"normalizer": {"type": "NFC"}, "pre_tokenizer": byte_level()},
    "command-r": {"normalizer": {"type": "NFC"}, "pre_tokenizer": sequence(DIGITS, byte_level(use_regex=True)), "bos": True},
    "gpt-4o": {"pre_tokenizer": by_regex(GPT4O)},
    "bloom": {"pre_tokenizer": by_regex(BLOOM)},
    "bailing": {"pre_tokenizer": by_regex(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
                                          r"|\s+(?!\S)|\s+")},
    "tiny-aya": {"pre_tokenizer": sequence(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(GPT4O), byte_level(use_regex=False))},
    "superbpe": {"pre_tokenizer": sequence(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), byte_level(use_regex=False))},
    "gemma": {"base": "pieces", "normalizer": replace(" ", "▁"), "pre_tokenizer": split(" ", "MergedWithPrevious", kind="String"),
              "bos": True, "decoder": SPACES},
    "chameleon": {"pre_tokenizer": sequence(
        split("<sentinel:[0-9]+>"), split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"), split("([\\t\\n]|    |  )"), DIGITS,
        {"type": "Punctuation", "behavior": "Isolated"}, byte_level(use_regex=True))},
}


def template(bos, bos_id):
    text, token = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": bos, "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    return {"type": "TemplateProcessing", "single": [token, text], "pair": [token, text, {"SpecialToken": {"id": bos, "type_id": 1}}, second],
            "special_tokens": {bos: {"id": bos, "ids": [bos_id], "tokens": [bos]}}}


def post_processor(family, bos, bos_id):
    if family.get("bos"):
        return template(bos, bos_id)
    if family.get("bos_in_sequence"):
        return {"type": "Sequence", "processors": [OFFSETS, template(bos, bos_id)]}
    return family.get("post_processor")


def document(name, vocab, merges, special_tokens, bos):
    """tokenizer.json of a family around a vocabulary ({token: id}, [(left, right)]); the special tokens are of it."""
    family = FAMILIES[name]
    pieces = family.get("base") == "pieces"
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    model |= SENTENCE_PIECE if pieces else {}
    model |= family.get("model", {})
    if family.get("untyped_model"):
        del model["type"], model["ignore_merges"], model["byte_fallback"]
    model |= {"vocab": vocab, "merges": merges}
    flags = {"single_word": False, "lstrip": False, "rstrip": family.get("rstrip", False),
             "normalized": family.get("normalized_tokens", False), "special": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": vocab[token], "content": token, **flags} for token in special_tokens],
        "normalizer": family.get("normalizer"), "pre_tokenizer": family.get("pre_tokenizer"),
        "post_processor": post_processor(family, bos, vocab.get(bos)),
        "decoder": family.get("decoder", LLAMA_DECODER if pieces else byte_level(add_prefix_space=True)), "model": model}
