"""Passages followed by quotations or edits of themselves: the text for which n-gram drafts pay.

`request` gives (instruction, passage, result), which the chats use too; `document` writes it as plain text.
"""

import random

import stories
import world
from grammar import expand, pseudo_word
from words import COLOURS, COMMON, PEOPLE, THINGS, UNICODE_SCRAPS


def _word_list(rng: random.Random) -> str:
    pools = (COMMON, COMMON, THINGS, COLOURS)
    words = [
        rng.choice(rng.choice(pools)) if rng.random() < 0.8 else pseudo_word(rng) for _ in range(rng.randint(4, 60))
    ]
    if rng.random() < 0.2:
        words = [rng.choice(UNICODE_SCRAPS) if rng.random() < 0.4 else word for word in words]
    return rng.choice((" ", ", ", "\n", "; ")).join(words)


def _odd_sentences(rng: random.Random) -> str:
    """Grammar with the wrong words: nothing but the passage itself predicts it."""

    def sentence() -> str:
        words = [rng.choice(COMMON) if rng.random() < 0.75 else pseudo_word(rng) for _ in range(6)]
        text = expand(
            rng,
            rng.choice(
                (
                    "[the|a|every] {w0} {w1} [will|must|did not] {w2} the {w3}.",
                    "{w0} and {w1} [are|were] {w2} [near|under|without] {w3}.",
                    "[when|because|if] the {w0} is {w1}, {w2} {w3} {w4}.",
                    '"{w0} {w1}," said the {w2} {w3}, "or {w4} the {w5}."',
                )
            ),
            {f"w{i}": w for i, w in enumerate(words)},
        )
        return text[0].upper() + text[1:]

    return " ".join(sentence() for _ in range(rng.randint(2, 14)))


def _records(rng: random.Random) -> str:
    """Lines of fields, as in a log, a price list or a JSON file. The numbers are of three and more digits: no sums."""

    def number() -> int:
        return rng.randint(100, 99999)

    form = rng.randrange(3)
    lines = []
    for _ in range(rng.randint(3, 25)):
        name = rng.choice((pseudo_word(rng, 2), rng.choice(COMMON)))
        if form == 0:
            lines.append(f"{name}: {number()}")
        elif form == 1:
            lines.append(f'{{"name": "{name}", "{rng.choice(("price", "count", "id"))}": {number()}}}')
        else:
            lines.append(f"[{number()}] {rng.choice(('info', 'error', 'warning'))} {name} {rng.choice(COMMON)}")
    return "\n".join(lines)


def _code(rng: random.Random) -> str:
    slots = {
        "f": rng.choice(COMMON),
        "x": rng.choice(COMMON),
        "y": pseudo_word(rng, 2),
        "n": str(rng.randint(100, 999)),
    }
    return expand(
        rng,
        rng.choice(
            (
                "def {f}({x}, {y}):\n    if {x} is None:\n        return {y}\n    for item in {x}:\n        {y}.append(item)\n    return {y}",
                "int {f}(int {x}, int {y}) {{\n  while ({x} > {n}) {{\n    {x} = {x} - {y};\n  }}\n  return {x};\n}}",
                "function {f}({x})\n  local {y} = {n}\n  for i = 1, #{x} do\n    {y} = {y} + {x}:get(i)\n  end\n  return {y}\nend",
                "class {f}:\n    def __init__(self, {x}):\n        self.{x} = {x}\n        self.{y} = {n}\n\n    def reset(self):\n        self.{y} = {n}",
            )
        ),
        slots,
    )


def passage(rng: random.Random, split: str) -> str:
    form = rng.random()
    if form < 0.03:
        return stories.long_story(rng, split)
    if form < 0.3:
        return stories.short_story(rng, split)
    if form < 0.45:
        return world.subject_article(rng, rng.choice(world.TOWNS))
    return rng.choice((_word_list, _odd_sentences, _odd_sentences, _records, _code))(rng)


def _sentences(text: str) -> list[str]:
    return [s if s.endswith((".", "!", "?", '"')) else s + "." for s in text.replace("\n\n", " ").split(". ")]


def _replacement(rng: random.Random, text: str) -> tuple[str, str] | None:
    """A word that occurs more than once, as a rule, and what to put in its place."""
    words = [w.strip('.,;:!?"()[]{}') for w in text.split()]
    candidates = sorted({w for w in words if len(w) > 2 and w.isalpha() and text.count(w) == words.count(w)})
    repeated = [w for w in candidates if words.count(w) > 1]
    if not candidates:
        return None
    old = rng.choice(repeated or candidates)
    new = rng.choice((rng.choice(COMMON), pseudo_word(rng, 2), rng.choice(PEOPLE)[0]))
    return old, new.capitalize() if old[0].isupper() else new


def request(rng: random.Random, split: str) -> tuple[str, str, str]:
    text = passage(rng, split)
    form = rng.random()
    if form < 0.45:
        return (
            rng.choice(
                (
                    "Repeat this text word for word.",
                    "Copy the following text.",
                    "Write this again.",
                    "Quote the passage exactly.",
                )
            ),
            text,
            text,
        )
    if form < 0.75:
        pair = _replacement(rng, text)
        if pair:
            instruction = rng.choice(("Replace {} with {}.", "Change {} to {}.", "Rename {} to {}.")).format(*pair)
            return instruction, text, text.replace(*pair)
    lines = text.split("\n")
    if "\n" in text and "\n\n" not in text:
        if rng.random() < 0.5:
            return "Repeat the text without its first line.", text, "\n".join(lines[1:])
        return "Repeat the text without its last line.", text, "\n".join(lines[:-1])
    sentences = _sentences(text)
    if len(sentences) > 1 and form < 0.88:
        return (
            ("Quote the first sentence.", text, sentences[0])
            if rng.random() < 0.5
            else ("Quote the last sentence.", text, sentences[-1])
        )
    return "Repeat this text twice.", text, f"{text}\n\n{text}"


def document(rng: random.Random, split: str) -> str:
    instruction, text, result = request(rng, split)
    if rng.random() < 0.15:
        return f"{text}\n\n{text}"
    before, after = rng.choice((("Passage:", "Result:"), ("Text", "Answer"), ("<text>", "<result>"), ("###", "###")))
    return f"{before}\n{text}\n\n{instruction}\n\n{after}\n{result}"
