#!/usr/bin/env python3
"""Texts to measure proposers with: {"prompt": [token ids], "output": [token ids]} a line, on standard output.

  quotes  a passage of this repository's documents, and an answer that quotes sentences of it
  edits   a part of a file at some commit of this repository, and the same part after the commit
  agent   one agent's requests: the same instructions, other orders; answers of the same form (made up)
  repeat, stories   prompts that the demo model answers itself: to repeat a list, to tell a story. The output is empty

Run in a clone of the repository: texts.py edits --tokenize "mortise tokenize models/demo" > edits.jsonl. The same commit and seed give the
same texts. A text has at most --max-characters, half of them in its prompt.
"""
import argparse
import difflib
import json
import random
import re
import shlex
import subprocess
import sys


def git(*args):
    return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout


def quotes(rng, commit, most):
    paths = [path for path in git("ls-tree", "-r", "--name-only", commit).split() if path.endswith(".md")]
    passages = []
    for path in sorted(paths):
        passage = ""
        for paragraph in git("show", f"{commit}:{path}").split("\n\n"):
            passage += paragraph + "\n\n"
            if len(passage) > most // 4:
                passages.append((path, passage[:most // 2].strip()))
                passage = ""
    begins = ["The document says: ", "It says about this: ", "In its own words: ", "There it stands: "]
    between = ["\n\nFurther on: ", "\n\nAnd then: ", "\n\nIt also says: ", "\n\nThat means that one should read on: "]
    rng.shuffle(passages)
    for path, passage in passages:  # each once
        sentences = re.split(r"(?<=[.:;])\s+", passage)
        parts = []
        for _ in range(rng.randint(2, 4)):
            at = rng.randrange(len(sentences))
            parts.append('"' + " ".join(sentences[at:at + rng.randint(1, 3)]) + '"')
        output = rng.choice(begins) + parts[0] + "".join(rng.choice(between) + part for part in parts[1:])
        yield f"{path}:\n\n{passage}\n\nQuote what matters here.\n\n", output[:most // 2]


def edits(rng, commit, most):
    commits = git("log", "--format=%H", "--no-merges", commit).split()
    while True:
        chosen = rng.choice(commits)
        subject = git("log", "-1", "--format=%s", chosen).strip()
        changed = [line.split("\t")[2] for line in git("show", "--numstat", "--format=", chosen).splitlines()]
        changed = [path for path in changed if path.endswith((".cpp", ".hpp", ".py", ".cu"))]
        if not changed:
            continue
        path = rng.choice(changed)
        try:
            before, after = (git("show", f"{at}:{path}").splitlines(True) for at in (f"{chosen}~1", chosen))
        except subprocess.CalledProcessError:  # it is new, or gone
            continue
        blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        changes = [block for block in blocks if block[0] != "equal"]
        if not changes:
            continue
        _, i, _, j, _ = rng.choice(changes)
        # A window that begins in lines that both have, and ends where both have as much.
        begin = min(rng.randint(3, 15), i, j)
        if before[i - begin:i] != after[j - begin:j]:
            continue
        old, new, at = [], [], 0
        for tag, i1, i2, j1, j2 in blocks:
            if i2 <= i - begin and tag == "equal" or i2 < i - begin:
                continue
            for k in range(max(i2 - i1, j2 - j1)):
                if sum(map(len, old)) > most * 0.4 or sum(map(len, new)) > most * 0.4:
                    break
                if i1 + k < i2 and i1 + k >= i - begin:
                    old.append(before[i1 + k])
                if j1 + k < j2 and j1 + k >= j - begin:
                    new.append(after[j1 + k])
        old, new = "".join(old), "".join(new)
        same = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False).ratio()
        if min(len(old), len(new)) > most // 8 and 0.5 < same < 0.995:
            yield f"```\n{old}```\nChange this: {subject}\n", f"```\n{new}```\n"


INSTRUCTIONS = """You answer questions about a shop's data. Think first, then call one tool. Tools:
run_sql(query): runs a query on the tables orders(id, customer, item, amount, city, day) and customers(name, city, since).
send_mail(to, subject, body): sends a mail.
Answer with one JSON object: {"thought": ..., "tool": ..., "arguments": {...}}.
"""
CITIES = ["Oslo", "Lisbon", "Graz", "Turin", "Leeds", "Bergen", "Porto", "Ghent"]
ITEMS = ["lamps", "chairs", "kettles", "bridges", "ribbons", "engines", "candles", "tickets"]
NAMES = ["Miro", "Pip", "Lina", "Toby", "Nora", "Juno", "Bram", "Wren"]


def agent(rng, commit, most):
    while True:
        city, item, name, day = rng.choice(CITIES), rng.choice(ITEMS), rng.choice(NAMES), rng.randint(1, 28)
        kind = rng.randrange(4)
        if kind == 0:
            question = f"How many {item} were sold in {city} since May {day}?"
            thought = f"The user asks for the number of {item} that were sold in {city}. I count the rows of orders with that item and city."
            call = {"query": f"SELECT COUNT(*) FROM orders WHERE item = '{item}' AND city = '{city}' AND day >= '2026-05-{day:02}'"}
        elif kind == 1:
            question = f"Who bought the most {item} in {city}?"
            thought = f"The user asks for the customer with the most {item} in {city}. I sum the amounts of each customer and take the largest."
            call = {"query": f"SELECT customer, SUM(amount) AS total FROM orders WHERE item = '{item}' AND city = '{city}' "
                             "GROUP BY customer ORDER BY total DESC LIMIT 1"}
        elif kind == 2:
            question = f"What did {name} buy in the month before May {day}?"
            thought = f"The user asks what {name} bought. I list the orders of that customer in the given days."
            call = {"query": f"SELECT item, amount, day FROM orders WHERE customer = '{name}' AND day BETWEEN '2026-04-{day:02}' AND "
                             f"'2026-05-{day:02}' ORDER BY day"}
        else:
            question = f"Write to {name} that the {item} arrive in {city} on May {day}."
            thought = f"The user wants a mail to {name}. I write it in a friendly tone and name the item, the city and the day."
            call = {"to": name, "subject": f"Your {item}",
                    "body": f"Dear {name}, thank you for your order. Your {item} arrive in {city} on May {day}. Please be at home. "
                            "If you have questions, answer this mail. Kind regards, your shop"}
        tool = "send_mail" if kind == 3 else "run_sql"
        yield INSTRUCTIONS + f"Question: {question}\n", json.dumps({"thought": thought, "tool": tool, "arguments": call}) + "\n"


def repeat(rng, commit, most):
    while True:
        lines = [f"{rng.choice(ITEMS)}: {rng.randrange(10000, 100000)}" for _ in range(16)]
        yield "<|im_start|>user\nRepeat this text word for word.\n\n" + "\n".join(lines) + "<|im_end|>\n<|im_start|>assistant\n", ""


def stories(rng, commit, most):
    while True:
        trait, animal = rng.choice(["clever", "brave", "small", "quiet"]), rng.choice(["otter", "fox", "rabbit", "bear", "mouse", "owl"])
        yield f"Once upon a time there was a {trait} {animal} named {rng.choice(NAMES)}.", ""


KINDS = {"quotes": quotes, "edits": edits, "agent": agent, "repeat": repeat, "stories": stories}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("--tokenize", required=True, help="a command that reads JSON strings and prints lists of token ids")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--max-characters", type=int, default=4000)
    args = parser.parse_args()
    texts = KINDS[args.kind](random.Random(args.seed), args.commit, args.max_characters)
    pairs = [next(texts) for _ in range(args.count)]
    lines = "".join(json.dumps(text) + "\n" for pair in pairs for text in pair)
    done = subprocess.run(shlex.split(args.tokenize), input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    ids = [json.loads(line) for line in done.stdout.splitlines()]
    for prompt, output in zip(ids[::2], ids[1::2], strict=True):
        print(json.dumps({"prompt": prompt, "output": output}))


if __name__ == "__main__":
    main()
