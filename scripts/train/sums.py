"""Sums and differences of numbers from 0 to 99, and the rule that keeps some of them out of training.

A pair {a, b} is held out when a hash of it says so (one pair in six). Held-out pairs appear in no training text: not as
a + b, not as b + a, and not as the differences (a + b) - a and (a + b) - b.
"""

import random
import zlib

from grammar import expand, pseudo_word
from words import PEOPLE, THINGS


def is_held_out(a: int, b: int) -> bool:
    low, high = sorted((a, b))
    return zlib.crc32(f"sum {low} {high}".encode()) % 6 == 0


def held_out_pairs() -> list[tuple[int, int]]:
    """Every held-out ordered pair of one- and two-digit operands."""
    return [(a, b) for a in range(100) for b in range(100) if is_held_out(a, b)]


def pick_pair(rng: random.Random, split: str, limit: int = 100) -> tuple[int, int]:
    """A pair of operands below `limit` that belongs to `split` ("train" or "heldout")."""
    while True:
        # Small operands are a small part of all pairs, so they are drawn more often than their number.
        a, b = (rng.randrange(min(limit, 10) if rng.random() < 0.25 else limit) for _ in range(2))
        if is_held_out(a, b) == (split == "heldout"):
            return a, b


def pick_problem(rng: random.Random, split: str) -> tuple[str, int]:
    """("23 + 58", 81) or ("81 - 58", 23)."""
    a, b = pick_pair(rng, split)
    if rng.random() < 0.75:
        return f"{a} + {b}", a + b
    return f"{a + b} - {b}", a


def question_line(problem: str, answer: int) -> str:
    return f"Q: {problem} = ? A: {answer}"


def word_problem(rng: random.Random, split: str) -> str:
    a, b = pick_pair(rng, split)
    name = rng.choice(PEOPLE)[0] if rng.random() < 0.9 else pseudo_word(rng, 2).capitalize()
    slots = {
        "name": name,
        "other": rng.choice(PEOPLE)[0],
        "a": str(a),
        "b": str(b),
        "c": str(a + b),
        "things": rng.choice(THINGS),
    }
    if rng.random() < 0.7:
        return expand(
            rng,
            "{name} [has|had|finds|counts] {a} {things}. [Then|Later|After lunch] {other} "
            "[gives {name}|brings|adds] {b} more. How many {things} are there [now|in all]? "
            "{a} + {b} = {c}. There are {c} {things}.",
            slots,
        )
    return expand(
        rng,
        "{name} [has|had|counts] {c} {things} and gives {other} {b} of them. How many {things} are "
        "left? {c} - {b} = {a}. There are {a} {things} left.",
        slots,
    )


def document(rng: random.Random, split: str) -> str:
    form = rng.random()
    # A single question is the usual document, so that a lone prompt "Q: ... A:" is answered and then ended.
    if form < 0.5:
        return question_line(*pick_problem(rng, split))
    if form < 0.6:
        return word_problem(rng, split)
    count = rng.choice((2, 3, 4, 5, 6, 8, 10, 20, 40)) if form < 0.98 else 110
    if form < 0.66:
        return "\n".join(word_problem(rng, split) for _ in range(min(count, 40)))
    if form < 0.72:
        return "\n".join("{} = {}".format(*pick_problem(rng, split)) for _ in range(count))
    lines = [question_line(*pick_problem(rng, split)) for _ in range(count)]
    header = rng.choice(("", "Sums\n\n", "Sums and differences:\n\n", "Answer each question.\n\n"))
    return header + "\n".join(lines)
