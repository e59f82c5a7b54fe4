#!/bin/sh
# Scores two local multiple-choice tasks with the harness through `mortise score`, through `mortise serve` with the harness's
# own client (local-completions), and, where torch and transformers are installed for $PYTHON, through transformers; the same
# model in f32 each time. Ends with 1 when the accuracies differ.
#
#   scripts/lm_eval/run_demo.sh [MORTISE]      default: build/release/mortise
#
# lm-eval comes from PyPI into a virtual environment (LM_EVAL_VENV, default build/lm-eval); nothing else is downloaded.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mortise=${1:-$root/build/release/mortise}
venv=${LM_EVAL_VENV:-$root/build/lm-eval}
python=${PYTHON:-python3}
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

# With the packages of $PYTHON: torch and transformers are large, and may be there.
[ -x "$venv/bin/python" ] || "$python" -m venv --system-site-packages "$venv"
"$venv/bin/python" -c 'import lm_eval, tenacity' 2>/dev/null || "$venv/bin/pip" install --quiet 'lm-eval[api]==0.4.13'

"$venv/bin/python" "$here/orvale_task.py" "$work/tasks"
cat > "$work/f32.lua" <<LUA
return pipeline {
  device = cpu {},
  model = llama { path = "$root/models/demo", dtype = "f32" },
  attention = paged {},
  scheduler = fcfs {},
  kv_cache = { memory = "256MiB" },
}
LUA

evaluate() {  # name, arguments of lm_eval
  name=$1
  shift
  HF_HUB_OFFLINE=1 HF_DATASETS_CACHE="$work/cache" "$venv/bin/python" "$here" "$@" --include_path "$work/tasks" \
      --tasks orvale_letters,orvale_text --output_path "$work/$name" >"$work/$name.log" 2>&1 ||
    { tail -n 20 "$work/$name.log" >&2; exit 1; }
  "$venv/bin/python" "$here/accuracies.py" "$work/$name" | tee "$work/$name.txt"
}

echo "mortise score:"
evaluate mortise --model mortise --model_args "mortise=$mortise,script=$work/f32.lua"

echo "mortise serve:"
"$mortise" serve "$work/f32.lua" --port 0 >"$work/url" 2>"$work/serve.log" &
server=$!
while [ ! -s "$work/url" ]; do
  kill -0 "$server" || { cat "$work/serve.log" >&2; exit 1; }
  sleep 0.1
done
evaluate serve --model local-completions --model_args "model=demo,base_url=$(cat "$work/url")/v1/completions,num_concurrent=8"
cmp -s "$work/mortise.txt" "$work/serve.txt" || { echo "the accuracies differ" >&2; exit 1; }

if "$venv/bin/python" -c 'import torch, transformers' 2>/dev/null; then
  # What the harness's own model needs beside them.
  "$venv/bin/python" -c 'import accelerate, peft' 2>/dev/null || "$venv/bin/pip" install --quiet 'lm-eval[hf]==0.4.13'
  echo "transformers:"
  evaluate hf --model hf --device cpu --batch_size 8 --model_args "pretrained=$root/models/demo,dtype=float32"
  cmp -s "$work/mortise.txt" "$work/hf.txt" || { echo "the accuracies differ" >&2; exit 1; }
  echo "the accuracies are equal"
else
  echo "torch and transformers are not installed for $python: nothing to compare with"
fi
