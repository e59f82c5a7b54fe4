"""A GGUF model beside transformers, which reads the same file and computes with its dequantised weights in f32.

    gguf_parity.py MORTISE MODEL.gguf [DTYPE]       DTYPE: of mortise's activations, f32 by default; bf16 shows what that loses

Needs torch, transformers 5, accelerate, gguf and tokenizers, and no network. Three things are compared, and the exit code is 1 if one differs:

- Token ids of many texts, with the `tokenizers` package around the vocabulary and the merges of the file. What stands around them
  is the published pipeline of the name in tokenizer.ggml.pre (tests/golden/tokenizer/published.py), since transformers does not
  read that key.
- The perplexity of docs/architecture.md, in pieces of 512 tokens, of the dequantised weights (weights = "float"): at most 0.1 % apart.
  Beside it stands that of the integers as they are kept by default, whose activations are rounded: at most 5 % apart.
- 20 chats, greedy, 48 tokens each, of the dequantised weights: the same tokens, or tokens whose logits differ by less than 0.02 in
  transformers.
"""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import torch
import transformers
from tokenizers import Tokenizer

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/golden/tokenizer"))
import published  # noqa: E402
import texts  # noqa: E402

FAMILIES = {"smollm": "starcoder", "starcoder": "starcoder", "qwen2": "qwen2", "llama-bpe": "llama3", "gpt-2": "gpt2", "tekken": "mistral-nemo"}
PIECE, NUM_TOKENS, CLOSE = 512, 48, 0.02
QUESTIONS = ["What is the capital of France?", "Name three colours.", "Write one sentence about the sea.", "What is 2 + 2?",
             "Who wrote Romeo and Juliet?", "Translate 'good morning' into Spanish.", "Why is the sky blue?", "List four animals.",
             "Give me a short poem about rain.", "What do bees make?", "How many days has a week?", "What is water made of?",
             "Tell me a joke.", "What is the opposite of hot?", "Name a planet.", "Explain gravity to a child.",
             "What language is spoken in Brazil?", "Write a greeting for a friend.", "What is a noun?", "How do plants get energy?"]


def run(mortise, *args, stdin=None):
    process = subprocess.run([mortise, *map(str, args)], input=stdin, capture_output=True, text=True)
    if process.returncode != 0:
        sys.exit(process.stderr)
    return process.stdout


def fields_of(path):
    fields = gguf.GGUFReader(path).fields
    return {key: field.contents() for key, field in fields.items() if key.startswith(("tokenizer.", "general."))}


def reference_tokenizer(fields):
    """What the `tokenizers` package makes of the vocabulary and the published pipeline."""
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    vocab = {token: index for index, token in enumerate(tokens)}
    special = [token for token, kind in zip(tokens, kinds) if kind == gguf.TokenType.CONTROL]
    merges = [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]]
    family = FAMILIES[fields["tokenizer.ggml.pre"]]
    document = published.document(family, vocab, merges, special, tokens[fields["tokenizer.ggml.bos_token_id"]])
    return Tokenizer.from_str(json.dumps(document))


def some_texts():
    prose = (SOURCE / "docs/architecture.md").read_text().splitlines()
    code = (SOURCE / "tests/parity/gguf_parity.py").read_text()
    return [*texts.SAMPLES, *texts.SHORT, *texts.OTHER, *prose[:60], code, "\n".join(prose), "1234567890 3.14159", "  two  spaces\t\ttabs\n\n\n", "e\u0301 \u00e9 \U0001f600"]


def check_ids(mortise, path, fields):
    reference, lines = reference_tokenizer(fields), some_texts()
    out = run(mortise, "tokenize", path, stdin="".join(json.dumps(text) + "\n" for text in lines))
    ours = [json.loads(line) for line in out.splitlines()]
    wrong = [text for text, ids in zip(lines, ours) if ids != reference.encode(text).ids]
    print(f"token ids: {len(lines)} texts, {sum(map(len, ours))} tokens, {len(wrong)} texts with other ids {wrong[:3]}")
    return not wrong


def batch(mortise, script, bodies):
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        source.write_text("".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body}) + "\n"
                                  for i, body in enumerate(bodies)))
        run(mortise, "batch", script, "-i", source, "-o", target)
        answers = {int(line["custom_id"]): line["response"]["body"]["choices"][0]
                   for line in map(json.loads, target.read_text().splitlines())}
    return [answers[i] for i in range(len(bodies))]


def logprobs_of(mortise, script, pieces):
    answers = batch(mortise, script, [{"prompt": piece, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 0} for piece in pieces])
    return [value for piece, answer in zip(pieces, answers) for value in answer["logprobs"]["token_logprobs"][1:len(piece)]]


@torch.no_grad()
def check_perplexity(mortise, floats, integers, model, ids):
    pieces = [ids[i:i + PIECE] for i in range(0, min(len(ids), 8 * PIECE), PIECE)]
    ours, kept = (logprobs_of(mortise, script, pieces) for script in (floats, integers))
    theirs = []
    for piece in pieces:
        logits = model(torch.tensor([piece])).logits[0, :-1].float().log_softmax(-1)
        theirs += logits.gather(1, torch.tensor(piece[1:])[:, None])[:, 0].tolist()
    a, b, c = (math.exp(-sum(values) / len(values)) for values in (ours, theirs, kept))
    largest = max(abs(x - y) for x, y in zip(ours, theirs))
    print(f"perplexity of {len(ours)} tokens: {a:.5f}, transformers {b:.5f}; a log probability differs by {largest:.2g} at most")
    print(f"  with integers as they are kept: {c:.5f}, {100 * (c / b - 1):+.2f} %")
    return abs(a / b - 1) < 1e-3 and abs(c / b - 1) < 5e-2


@torch.no_grad()
def check_chats(mortise, script, model, prompts):
    answers = batch(mortise, script, [{"prompt": prompt, "max_tokens": NUM_TOKENS, "temperature": 0, "return_token_ids": True}
                                      for prompt in prompts])
    equal = close = 0
    for prompt, answer in zip(prompts, answers):
        ours = answer["token_ids"]
        theirs = model.generate(torch.tensor([prompt]), max_new_tokens=NUM_TOKENS, do_sample=False)[0, len(prompt):].tolist()
        count = next((i for i, (x, y) in enumerate(zip(ours, theirs)) if x != y), None)
        if count is None:  # one may have the end token that the other has left out
            equal += abs(len(ours) - len(theirs)) <= 1
            continue
        logits = model(torch.tensor([prompt + theirs[:count]])).logits[0, -1].float()
        difference = float(logits[theirs[count]] - logits[ours[count]])
        close += difference < CLOSE
        print(f"  differs at token {count}; the logits there by {difference:.3g}")
    print(f"greedy chats: {equal} of {len(prompts)} with the same tokens, {close} others where two logits are nearly equal")
    return equal + close == len(prompts)


def main(mortise, path, dtype="f32"):
    path = Path(path).resolve()
    fields = fields_of(path)
    good = check_ids(mortise, path, fields)
    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    reference = reference_tokenizer(fields)
    with tempfile.TemporaryDirectory() as folder:
        def script_of(weights):
            script = Path(folder) / f"{weights}.lua"
            script.write_text(f"""return pipeline {{ device = cpu {{}}, model = llama {{ path = "{path}", dtype = "{dtype}", weights = "{weights}" }},
                attention = paged {{}}, scheduler = fcfs {{}} }}\n""")
            return script
        floats = script_of("float")
        good &= check_perplexity(mortise, floats, script_of("auto"), model, reference.encode((SOURCE / "docs/architecture.md").read_text()).ids)
        environment = transformers.utils.chat_template_utils._compile_jinja_template(fields["tokenizer.chat_template"])
        prompts = [reference.encode(environment.render(messages=[{"role": "user", "content": question}], add_generation_prompt=True)).ids
                   for question in QUESTIONS]
        good &= check_chats(mortise, floats, model, prompts)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
