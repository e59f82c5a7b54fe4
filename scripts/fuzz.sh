#!/usr/bin/env bash
# scripts/fuzz.sh [seconds] [target]: builds the fuzz targets and runs each (or one) for that long, 600 seconds without a number, as
# many at a time as the machine has cores. What a target finds stays in build/fuzz/found/<target>, beside the committed seeds.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
target=${2:-}

scripts/install.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz

run_target() {
  local target=$1 seconds=$2 log=build/fuzz/found/$1.log dictionary
  mkdir -p "build/fuzz/found/$target"
  case $target in
    tokenizer) dictionary=tokenizer ;;
    gguf) dictionary=gguf ;;
    pipeline) dictionary=lua ;;
    chat_template) dictionary=jinja ;;
    plugin_file) dictionary=elf ;;
    *) dictionary=json ;;
  esac
  # 4 KiB: a seed has less, and what a larger input could add are sizes, which have unit tests. 20 seconds: no limit is that long.
  if UBSAN_OPTIONS=print_stacktrace=1 "build/fuzz/tests/fuzz/${target}_fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=20 \
    -rss_limit_mb=2048 -dict="tests/fuzz/dictionaries/$dictionary.dict" -artifact_prefix="build/fuzz/found/$target-" \
    -print_final_stats=1 "build/fuzz/found/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    echo "fuzz: $target: clean, $(sed -n 's/^stat::number_of_executed_units: */inputs: /p' "$log")"
  else
    tail -n 60 "$log" >&2
    echo "fuzz: $target: FAILED, all of it in $log; again: build/fuzz/tests/fuzz/${target}_fuzz build/fuzz/found/$target-<hash>" >&2
    return 1
  fi
}
export -f run_target

targets=$target
if [ -z "$targets" ]; then targets=$(ls tests/fuzz/corpus); fi
tr ' ' '\n' <<<"$targets" | xargs -P "$(nproc)" -I{} bash -c 'run_target "$@"' run_target {} "$seconds"
