"""Template text: "[a|b [c|d]] {slot}" becomes one of its readings.

Brackets choose one alternative, innermost first; braces are filled from a dictionary. Everything is a function of the
random.Random that is passed in, so a document is a function of its seed.
"""

import random
import re

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


def expand(rng: random.Random, template: str, slots: dict[str, str] | None = None) -> str:
    """One reading of `template`: alternatives chosen first, then slots filled, so slot values may hold any character."""
    while True:
        chosen = _INNERMOST.sub(lambda m: rng.choice(m.group(1).split("|")), template)
        if chosen == template:
            break
        template = chosen
    return template.format_map(slots) if slots else template


def document_rng(split: str, kind: str, index: int) -> random.Random:
    """The generator of one document. A string seed goes through SHA-512: the same on every machine and Python 3."""
    return random.Random(f"mortise-demo/{split}/{kind}/{index}")


def join_words(items: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def article(noun: str) -> str:
    """The noun with 'a' or 'an'."""
    return ("an " if noun[0].lower() in "aeiou" or noun == "honest" else "a ") + noun


def pseudo_word(rng: random.Random, syllables: int = 0) -> str:
    """A pronounceable word of no language: it makes the models copy spellings instead of recalling them."""
    count = syllables or rng.choice((1, 2, 2, 2, 3, 3))
    return "".join(
        expand(
            rng,
            "[b|c|d|f|g|h|j|k|l|m|n|p|r|s|t|v|w|z|br|cr|dr|fl|gr|kl|pl|sh|st|th|tr|]"
            "[a|e|i|o|u|a|e|o|ai|ea|ee|oo|ou]"
            "[b|d|g|k|l|m|n|p|r|s|t|x|nd|nk|rm|st|||||]",
        )
        for _ in range(count)
    )
