#!/usr/bin/env bash
# From a fresh clone to generated text: installs packages, builds the release preset into build/release, runs the demo.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh
cmake --preset release -DBUILD_TESTING=OFF >/dev/null
cmake --build --preset release

echo
echo '$ build/release/mortise run -p "Once upon a time" --max-tokens 80 --temperature 0'
build/release/mortise run -p "Once upon a time" --max-tokens 80 --temperature 0
echo
echo 'Now try the REPL: build/release/mortise run'
