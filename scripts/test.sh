#!/usr/bin/env bash
# Installs what is missing, builds the release preset with its tests, and runs all of them; then runs the tests of some folders
# again under ASan and UBSan, and each fuzz target for 5 seconds. What CI runs.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh tests  # with a browser, which takes half a minute

# What the tests compare with and did not write. torch and transformers are not here: their results are committed goldens.
if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
.venv/bin/python -m pip install -q -r tests/requirements.txt

cmake --preset release -DBUILD_TESTING=ON
cmake --build --preset release
# One more than there are processors: some tests wait for a while.
ctest --test-dir build/release --output-on-failure --no-tests=error -j "$(($(nproc) + 1))"

scripts/sanitize.sh
scripts/fuzz.sh 5
