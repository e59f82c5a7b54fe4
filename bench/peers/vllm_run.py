#!/usr/bin/env python3
"""vLLM on the CPU, one sample of each figure. usage: vllm_run.py MODEL_DIR decode|prefill [threads=2]; prints one JSON line
{"decode, batch 1": tokens/s, ...}. Prompts are random ids; the difference of two runs leaves the prompts out of decode."""
import ctypes
import json
import os
import random
import sys
import time

ctypes.CDLL(None).syscall(158, 0x1023, 18)  # arch_prctl(ARCH_REQ_XCOMP_PERM, tiles): oneDNN does not ask for AMX by itself
model, case = sys.argv[1:3]
threads = int(sys.argv[3]) if len(sys.argv) > 3 else 2
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{threads - 1}")  # its default keeps a core back for the front end
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
from vllm import LLM, SamplingParams  # noqa: E402

llm = LLM(model=model, dtype="bfloat16", max_model_len=2048, enable_prefix_caching=False, max_num_seqs=256)
seed = 0


def seconds(num_prompts, prompt_tokens, output_tokens):
    global seed
    seed += 1
    draw = random.Random(seed)
    prompts = [dict(prompt_token_ids=[draw.randrange(300, 4000) for _ in range(prompt_tokens)]) for _ in range(num_prompts)]
    start = time.time()
    llm.generate(prompts, SamplingParams(temperature=0, max_tokens=output_tokens, ignore_eos=True, detokenize=False), use_tqdm=False)
    return time.time() - start


seconds(2, 64, 8)  # warm up
if case == "decode":
    figures = {f"decode, batch {n}": n * 127 / (seconds(n, 128, 128) - seconds(n, 128, 1)) for n in (1, 8, 32)}
else:
    figures = {"prefill, 16 x 1024": 16 * 1024 / seconds(16, 1024, 1)}
print(json.dumps(figures))
