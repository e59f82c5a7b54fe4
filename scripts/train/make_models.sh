#!/bin/sh
# Makes models/demo and models/demo-draft from nothing: tokenizer, corpus, target, draft, scores.
#   scripts/train/make_models.sh OUT_DIR [TARGET_STEPS [DRAFT_STEPS [DOCUMENTS]]]
# Needs torch, transformers, tokenizers, numpy and, for the defaults, one GPU of the Hopper class for about twelve minutes.
set -eu
cd "$(dirname "$0")"
out=$1
mkdir -p "$out/demo" "$out/demo-draft"
python3 make_tokenizer.py "$out/demo"
cp "$out/demo/tokenizer.json" "$out/demo/tokenizer_config.json" "$out/demo-draft/"
python3 corpus.py "$out/demo" "$out/corpus.bin" --documents "${4:-1200000}"
python3 train.py target "$out/corpus.bin" "$out/demo" --steps "${2:-5000}"
python3 train.py draft "$out/corpus.bin" "$out/demo-draft" --steps "${3:-3000}" --teacher "$out/demo"
python3 evaluate.py "$out/demo" "$out/demo-draft" > "$out/scores.md"
