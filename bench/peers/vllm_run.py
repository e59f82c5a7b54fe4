#!/usr/bin/env python3
"""vLLM on the CPU, one sample of each figure. usage: vllm_run.py MODEL_DIR THREADS BATCHES PROMPT OUTPUT PREFILL_BATCH PREFILL_PROMPT
Prints one JSON line {"decode, batch 1": tokens/s, ...}. Prompts are random ids; the difference of two runs leaves the prompts out of
decode."""
import ctypes
import json
import os
import random
import sys
import time

ctypes.CDLL(None).syscall(158, 0x1023, 18)  # arch_prctl(ARCH_REQ_XCOMP_PERM, tiles): oneDNN does not ask for AMX by itself
if len(sys.argv) != 8:
    sys.exit(__doc__)
model = sys.argv[1]
threads, prompt, output, prefill_batch, prefill_prompt = (int(sys.argv[i]) for i in (2, 4, 5, 6, 7))
batches = [int(word) for word in sys.argv[3].split(",")]
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
figures = {f"decode, batch {n}": n * (output - 1) / (seconds(n, prompt, output) - seconds(n, prompt, 1)) for n in batches}
figures[f"prefill, {prefill_batch} x {prefill_prompt}"] = prefill_batch * prefill_prompt / seconds(prefill_batch, prefill_prompt, 1)
print(json.dumps(figures))
