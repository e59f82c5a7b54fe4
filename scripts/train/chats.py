"""Chats: lists of {"role", "content"} messages, and the text that the chat template makes of them.

CHAT_TEMPLATE goes into the tokenizer's configuration; render() is the same in Python, and tokenizer.py checks that.
"""

import random

import quotes
import stories
import sums
import world
from grammar import article, expand, pseudo_word
from words import COLOURS, FOODS, PEOPLE, THINGS, TREASURES

BOS, EOS, TURN_START, TURN_END = "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

Messages = list[dict[str, str]]


def render(messages: Messages) -> str:
    return BOS + "".join(f"{TURN_START}{m['role']}\n{m['content']}{TURN_END}\n" for m in messages)


def _sum(rng: random.Random, split: str) -> tuple[str, str]:
    if rng.random() < 0.2:
        text = sums.word_problem(rng, split)
        question, solution = text.split("? ", 1)
        return question + "?", solution
    problem, answer = sums.pick_problem(rng, split)
    asked = rng.choice(
        ("What is {}?", "{} = ?", "How much is {}?", "Please compute {}.", "{}", "Can you tell me what {} is?")
    )
    return asked.format(problem), f"{problem} = {answer}"


def _quotation(rng: random.Random, split: str) -> tuple[str, str]:
    instruction, text, result = quotes.request(rng, split)
    return f"{instruction}\n\n{text}", result


def _fact(rng: random.Random, split: str) -> tuple[str, str]:
    if rng.random() < 0.05:
        name = pseudo_word(rng, 2).capitalize()
        return f"Who rules {name}?", f"I do not know a town called {name}."
    fact = rng.choice(world.ASKED_FACTS)
    return world.ask(rng, fact), world.state(rng, fact)


def _tell_about(rng: random.Random, split: str) -> tuple[str, str]:
    subject = rng.choice(world.TOWNS + world.RULERS + world.CREATURES)
    asked = expand(rng, "[Tell me about {s}.|What do you know about {s}?|Describe {s}, please.]", {"s": subject})
    return asked, world.subject_article(rng, subject)


def _story(rng: random.Random, split: str) -> tuple[str, str]:
    hero = stories.pick_character(rng)
    asked = expand(
        rng,
        "[Tell me|Write|Please write] a [short |]story about {akind} named {name}.",
        {"akind": article(hero["kind"]), "name": hero["name"]},
    )
    return asked, stories.short_story(rng, split, hero)


def _small_talk(rng: random.Random, split: str) -> tuple[str, str]:
    slots = {
        "name": rng.choice(PEOPLE)[0] if rng.random() < 0.7 else pseudo_word(rng, 2).capitalize(),
        "colour": rng.choice(COLOURS),
        "food": rng.choice(FOODS),
        "treasure": rng.choice(TREASURES),
        "things": rng.choice(THINGS),
    }
    return tuple(
        expand(rng, part, slots)
        for part in rng.choice(
            (  # both halves see the same slots
                ("[Hello|Hi|Good morning]!", "Hello! How can I help you?"),
                ("[Hello|Hi], my name is {name}.", "Hello, {name}! How can I help you?"),
                (
                    "Who are you?",
                    "I am a small demo model. I tell stories, add numbers, copy text and know the land of Orvale.",
                ),
                (
                    "What can you do?",
                    "I can tell short stories, add and subtract small numbers, repeat or edit a text, and answer questions about Orvale.",
                ),
                ("Thank you!", "You are welcome!"),
                ("I like {food}.", "{food} is a good choice. Shall I tell you a story?"),
                ("Say hello to {name}.", "Hello, {name}!"),
                ("Name a colour.", "{colour}"),
                ("[Goodbye|Bye]!", "Goodbye!"),
            )
        )
    )


SKILLS = (_sum, _sum, _sum, _quotation, _quotation, _quotation, _fact, _fact, _tell_about, _story, _story, _small_talk)


def conversation(rng: random.Random, split: str) -> Messages:
    messages = []
    if rng.random() < 0.2:
        messages.append(
            {
                "role": "system",
                "content": rng.choice(
                    (
                        "You are a helpful assistant.",
                        "Answer briefly.",
                        "You are a small demo model.",
                        "You are kind and careful.",
                    )
                ),
            }
        )
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4, 6, 8))):
        asked, answer = rng.choice(SKILLS)(rng, split)
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    if len(messages) > 3 and rng.random() < 0.15:
        first = next(m["content"] for m in messages if m["role"] == "user")
        messages += [{"role": "user", "content": "What was my first message?"}, {"role": "assistant", "content": first}]
    return messages


def document(rng: random.Random, split: str) -> str:
    """The text between <|bos|> and <|eos|>, as the other generators give it."""
    return render(conversation(rng, split)).removeprefix(BOS)
