"""Scores of the saved demo models on held-out text, and samples at temperature 0, as Markdown on standard output.

python3 evaluate.py TARGET_DIR DRAFT_DIR
"""

import argparse
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import chats
import choice
import quotes
import stories
import sums
import world
from corpus import held_out_documents
from grammar import document_rng

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NUM_DRAFT = 5  # tokens proposed a step where the mean acceptance length is given


class Model:
    def __init__(self, folder: pathlib.Path):
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(DEVICE).eval()

    @torch.inference_mode()
    def logits(self, ids: list[int]) -> torch.Tensor:
        """[len(ids), vocabulary] in f32."""
        return self.model(torch.tensor([ids], device=DEVICE)).logits[0].float()

    @torch.inference_mode()
    def log_probabilities(self, prompt: list[int], answers: list[list[int]]) -> list[float]:
        """Of each answer after the prompt, summed over its tokens. Shorter rows are padded on the right, which they do not see."""
        width = max(map(len, answers))
        rows = torch.tensor([prompt + a + [0] * (width - len(a)) for a in answers], device=DEVICE)
        after = self.model(rows[:, :-1]).logits[:, len(prompt) - 1 :].float().log_softmax(-1)
        chosen = after.gather(2, rows[:, len(prompt) :, None])[:, :, 0]
        return [chosen[i, : len(a)].sum().item() for i, a in enumerate(answers)]

    @torch.inference_mode()
    def write(self, prompts: list[str], max_tokens: int, temperature: float = 0.0, batch: int = 256) -> list[list[int]]:
        """Token ids of each continuation with the end token, if one came. Prompts bring their own <|bos|>."""
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
        outputs = []
        for first in range(0, len(prompts), batch):
            inputs = self.tokenizer(
                prompts[first : first + batch], add_special_tokens=False, padding=True, return_tensors="pt"
            ).to(DEVICE)
            made = self.model.generate(**inputs, max_new_tokens=max_tokens, **sampling)[:, inputs.input_ids.shape[1] :]
            for row in made.tolist():
                ends = [i for i, token in enumerate(row) if token in (1, 3)]
                outputs.append(row[: ends[0] + 1] if ends else row)
        return outputs

    def text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)


def ended(ids: list[int]) -> bool:
    return ids[-1] in (1, 3)


def percent(hits: list[bool]) -> str:
    return f"{100 * sum(hits) / len(hits):.1f} % of {len(hits)}"


def story_perplexity(model: Model, count: int) -> str:
    total = tokens = 0
    for text in held_out_documents(stories, count):
        ids = model.tokenizer.encode(text + chats.EOS)[:2048]
        log_probs = model.logits(ids[:-1]).log_softmax(-1)
        total -= log_probs.gather(1, torch.tensor(ids[1:], device=DEVICE)[:, None]).sum().item()
        tokens += len(ids) - 1
    return f"{torch.tensor(total / tokens).exp().item():.3f} over {tokens} tokens of {count} stories"


def sums_right(model: Model, chat: bool) -> list[bool]:
    """Every held-out pair: the whole greedy answer must be the sum and then the end."""
    pairs = sums.held_out_pairs()
    if chat:
        prompts = [
            chats.render([{"role": "user", "content": f"What is {a} + {b}?"}]) + f"{chats.TURN_START}assistant\n"
            for a, b in pairs
        ]
        wanted = [f"{a} + {b} = {a + b}" for a, b in pairs]
    else:
        prompts = [f"{chats.BOS}Q: {a} + {b} = ? A:" for a, b in pairs]
        wanted = [f" {a + b}" for a, b in pairs]
    answers = model.write(prompts, 24)
    return [ended(ids) and model.text(ids) == want for ids, want in zip(answers, wanted)]


def choices_right(model: Model, items: list[choice.Item]) -> list[bool]:
    """The right answer is the one with the highest log probability, summed over its tokens."""
    hits = []
    for item in items:
        prompt = model.tokenizer.encode(item.prompt)
        answers = [model.tokenizer.encode(answer, add_special_tokens=False) for answer in item.choices]
        scores = model.log_probabilities(prompt, answers)
        hits.append(scores.index(max(scores)) == item.answer)
    return hits


def held_out_chats(count: int) -> list[tuple[str, str]]:
    """(prompt up to the last answer, that answer) of held-out conversations that fit the context."""
    pairs = []
    for index in range(count):
        messages = chats.conversation(document_rng("heldout", "chat prompts", index), "heldout")
        prompt = chats.render(messages[:-1]) + f"{chats.TURN_START}assistant\n"
        if len(prompt) < 4000:
            pairs.append((prompt, messages[-1]["content"]))
    return pairs


def quotations_right(model: Model, count: int) -> list[bool]:
    """Held-out passages: the copy or edit must be the expected one to the last character, and end."""
    requests = [quotes.request(document_rng("heldout", "quotation prompts", i), "heldout") for i in range(count)]
    requests = [r for r in requests if len(r[1]) + len(r[2]) < 3000]
    prompts = [
        chats.render([{"role": "user", "content": f"{r[0]}\n\n{r[1]}"}]) + f"{chats.TURN_START}assistant\n"
        for r in requests
    ]
    answers = model.write(prompts, 800)
    return [ended(ids) and model.text(ids) == r[2] for ids, r in zip(answers, requests)]


def acceptance(target: Model, draft: Model, prompts: list[str], temperature: float) -> tuple[float, float]:
    """(top-1 agreement, mean acceptance length) on what the target itself writes.

    At temperature 1 both models add the same Gumbel noise to their logits before the arg max (coupled sampling).
    """
    noise_source = torch.Generator(DEVICE).manual_seed(1)
    agreed = tokens = steps = 0
    for prompt, output in zip(prompts, target.write(prompts, 400, temperature)):
        start = target.tokenizer(prompt, add_special_tokens=False).input_ids
        ids = start + output
        rows = slice(len(start) - 1, len(ids) - 1)
        wanted, given = target.logits(ids)[rows], draft.logits(ids)[rows]
        if temperature:
            uniform = torch.rand(wanted.shape, device=DEVICE, generator=noise_source).clamp(1e-9, 1 - 1e-7)
            wanted, given = (values - (-uniform.log()).log() for values in (wanted, given))
        same = (wanted.argmax(-1) == given.argmax(-1)).tolist()
        agreed += sum(same)
        tokens += len(same)
        position = 0
        while position < len(same):
            run = 0
            while run < NUM_DRAFT and position + run < len(same) and same[position + run]:
                run += 1
            position += run + 1
            steps += 1
    return agreed / tokens, tokens / steps


def samples(model: Model) -> str:
    def chat(*turns: str) -> str:
        roles = ("user", "assistant")
        return (
            chats.render([{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)])
            + f"{chats.TURN_START}assistant\n"
        )

    item = choice.held_out_items(1, "letters", 2, False)[0]
    prompts = [
        chats.BOS + p
        for p in (
            "Once upon a time",
            "Once upon a time there was a dragon named Zogby",
            "Q: 23 + 58 = ? A:",
            "Mia had 17 apples. Then Tom gives Mia 26 more. How many apples are there now?",
            f"{world.TOWNS[0]} is a town.",
            item.prompt,
        )
    ]
    prompts += [
        chat("What is 47 + 36?"),
        chat(f"Who rules {world.TOWNS[0]}?"),
        chat("Tell me a short story about an owl named Hazel."),
        chat('Replace fox with heron.\n\nThe quick fox met a slow fox near the river. "Good day," said the fox.'),
        chat(
            "Hello, my name is Ada.",
            "Hello, Ada! How can I help you?",
            'Copy the following text.\n\n{"id": 4711, "name": "señor 🙂 mortise"}',
        ),
    ]
    blocks = []
    for prompt, ids in zip(prompts, (model.write([p], 400)[0] for p in prompts)):
        blocks.append(f"```\n{prompt.removeprefix(chats.BOS)}»{model.text(ids)}{'«' if ended(ids) else ' ...'}\n```")
    return "\n".join(blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("draft", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=300, help="texts of each kind (default 300)")
    args = parser.parse_args()
    target, draft = Model(args.target), Model(args.draft)
    story_prompts = [target.text(target.tokenizer.encode(t)[1:33]) for t in held_out_documents(stories, args.count)]
    story_prompts = [chats.BOS + prompt for prompt in story_prompts]
    chat_prompts = [prompt for prompt, _ in held_out_chats(args.count)]

    print("| held out | score |\n| --- | --- |")
    print(f"| perplexity, stories | {story_perplexity(target, args.count)} |")
    print(f"| perplexity, stories, draft alone | {story_perplexity(draft, args.count)} |")
    print(f"| sums, `Q: a + b = ? A:` | {percent(sums_right(target, False))} |")
    print(f"| sums, in a chat | {percent(sums_right(target, True))} |", flush=True)
    for form in ("letters", "text"):
        for name, items in (
            ("wordings never used in training", choice.held_out_items(args.count, form, 5, True)),
            ("facts never asked in training", choice.held_out_items(args.count, form, 5, False)),
        ):
            print(f"| multiple choice, {form}, {name} | {percent(choices_right(target, items))} |", flush=True)
    print(f"| quotations and edits, exact | {percent(quotations_right(target, args.count))} |")
    print(f"| stories that end by themselves | {percent([ended(ids) for ids in target.write(story_prompts, 1500)])} |")
    print(
        f"| chats that end by themselves | {percent([ended(ids) for ids in target.write(chat_prompts, 1000)])} |",
        flush=True,
    )
    for name, prompts in (("stories", story_prompts), ("chats", chat_prompts)):
        for temperature in (0.0, 1.0):
            rate, length = acceptance(target, draft, prompts, temperature)
            print(
                f"| draft agrees with target, {name}, temperature {temperature:g} | {100 * rate:.1f} %, mean acceptance length {length:.2f} "
                f"with {NUM_DRAFT} draft tokens |"
            )
    print("\n" + samples(target))


if __name__ == "__main__":
    main()
