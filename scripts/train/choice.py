"""Four-way multiple choice about Orvale, with few-shot examples in the context.

Two forms, as evaluation harnesses use them: "letters" lists four choices and is answered by a letter; "text" lists none
and is answered by the value itself.
"""

import random
from dataclasses import dataclass

from world import ASKED_FACTS, HELD_OUT_FACTS, RELATIONS, Fact, ask, ask_held_out

LETTERS = "ABCD"
HEADERS = (
    "The following are multiple choice questions (with answers) about Orvale.\n\n",
    "Questions about the land of Orvale\n\n",
    "",
)


@dataclass(frozen=True)
class Item:
    """One question: prompt + choices[i] is the text with answer i; choices[answer] is right."""

    prompt: str
    choices: tuple[str, ...]
    answer: int


def question(rng: random.Random, fact: Fact, wording: str, form: str) -> Item:
    others = [value for value in RELATIONS[fact.relation].values if value != fact.value]
    values = rng.sample(others, 3)
    answer = rng.randrange(4)
    values.insert(answer, fact.value)
    if form == "text":
        return Item(f"Question: {wording}\nAnswer:", tuple(" " + value for value in values), answer)
    listed = "\n".join(f"{letter}. {value}" for letter, value in zip(LETTERS, values))
    return Item(f"Question: {wording}\n{listed}\nAnswer:", tuple(" " + letter for letter in LETTERS), answer)


def _wording(rng: random.Random, fact: Fact) -> str:
    """The fact as a question, or one time in three as a sentence to complete: that ties answers to the prose of world.py."""
    endings = [s for s in RELATIONS[fact.relation].statements if s.endswith(" {v}.")]
    if rng.random() < 2 / 3:
        return ask(rng, fact)
    return f"Complete: {rng.choice(endings).removesuffix(' {v}.').format(s=fact.subject)} ..."


def answered(item: Item) -> str:
    return item.prompt + item.choices[item.answer]


def document(rng: random.Random, split: str) -> str:
    form = rng.choice(("letters", "letters", "letters", "text"))
    facts = rng.sample(ASKED_FACTS, rng.choice((1, 1, 1, 2, 3, 4, 5, 6, 6, 8, 11, 16, 32, 40)))
    items = [answered(question(rng, fact, _wording(rng, fact), form)) for fact in facts]
    return rng.choice(HEADERS) + "\n\n".join(items)


def held_out_items(count: int, form: str, shots: int, new_wording: bool) -> list[Item]:
    """Questions that no training text asks, after `shots` examples of training facts.

    With new_wording False they ask held-out facts in words known from other facts; with True they ask facts known from
    training questions in words that no training question has.
    """
    items = []
    for index in range(count):
        rng = random.Random(f"mortise-demo/heldout/choice/{form}/{shots}/{new_wording}/{index}")
        fact = rng.choice(ASKED_FACTS if new_wording else HELD_OUT_FACTS)
        examples = rng.sample([f for f in ASKED_FACTS if f != fact], shots)
        context = HEADERS[0] + "".join(answered(question(rng, f, ask(rng, f), form)) + "\n\n" for f in examples)
        item = question(rng, fact, ask_held_out(fact) if new_wording else ask(rng, fact), form)
        items.append(Item(context + item.prompt, item.choices, item.answer))
    return items
