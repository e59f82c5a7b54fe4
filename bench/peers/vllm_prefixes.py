#!/usr/bin/env python3
"""vLLM on the CPU where prompts are what costs: groups of requests with a common prefix, and log probabilities of prompts.
usage: vllm_prefixes.py MODEL_DIR [--threads 2] [--kv-gib 4] [--groups 32] [--members 8] [--shared 512] [--own 64] [--output 32]
                        [--score 16x1024] [--repeats 3]
Prints one JSON line: seconds for all requests of the groups, shuffled and all at once (as `mortise bench groups`), and of scoring all tokens
of the prompts over their prefill (as `mortise bench score`)."""
import argparse
import ctypes
import json
import os
import random
import statistics
import time

ctypes.CDLL(None).syscall(158, 0x1023, 18)  # arch_prctl(ARCH_REQ_XCOMP_PERM, tiles): oneDNN does not ask for AMX by itself
parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("model")
for name, default in (("threads", 2), ("kv-gib", 4), ("groups", 32), ("members", 8), ("shared", 512), ("own", 64), ("output", 32), ("repeats", 3)):
    parser.add_argument(f"--{name}", type=int, default=default)
parser.add_argument("--score", default="16x1024")
args = parser.parse_args()
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(args.kv_gib))
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{args.threads - 1}")  # its default keeps a core back for the front end
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
from vllm import LLM, SamplingParams  # noqa: E402

llm = LLM(model=args.model, dtype="bfloat16", max_model_len=4096, enable_prefix_caching=True, max_num_seqs=256)
draw = random.Random(1)


def ids(count):
    return [draw.randrange(300, 4000) for _ in range(count)]


def seconds(prompts, output, **params):
    sampling = SamplingParams(temperature=0, max_tokens=output, ignore_eos=True, detokenize=False, **params)
    llm.llm_engine.reset_prefix_cache()
    start = time.time()
    llm.generate([dict(prompt_token_ids=prompt) for prompt in prompts], sampling, use_tqdm=False)
    return time.time() - start


def groups():
    prompts = []
    for _ in range(args.groups):
        prefix = ids(args.shared)
        prompts += [prefix + ids(args.own) for _ in range(args.members)]
    draw.shuffle(prompts)
    return seconds(prompts, args.output)


def score():
    count, length = map(int, args.score.split("x"))
    prompts = [ids(length) for _ in range(count)]
    return seconds(prompts, 1, prompt_logprobs=0) / seconds(prompts, 1)


seconds([ids(64), ids(64)], 8)  # warm up
figures = {}
for name, run in ((f"groups {args.groups} x {args.members}, {args.shared} + {args.own}, {args.output} out, s", groups),
                  (f"score {args.score} over prefill", score)):
    samples = [run() for _ in range(args.repeats)]
    figures[name] = {"median": statistics.median(samples), "samples": samples}
print(json.dumps(figures))
