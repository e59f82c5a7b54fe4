#!/usr/bin/env bash
# scripts/sanitize.sh [folder ...]: runs the tests of these folders of tests/unit under ASan and UBSan; without a name those that
# CI runs. They are built with the preset `fuzz`, which has both sanitizers: the fuzz targets link nearly all of the same
# libraries, which so are built once.
set -euo pipefail
cd "$(dirname "$0")/.."
# Where other people's files, scripts, requests and plugins are read, and the engine between them. No kernels are built for these.
folders=("$@")
if [ $# -eq 0 ]; then folders=(abi_check chat_template engine execution kv_events loader openai pipeline plugin_index server); fi

scripts/install.sh fuzz
cmake --preset fuzz -DBUILD_TESTING=ON >/dev/null
targets=("${folders[@]/#/tests/unit/}")
cmake --build --preset fuzz --target "${targets[@]/%//all}"
# A stack through a plugin has no names there, because the private copy that was loaded is gone: MORTISE_PLUGIN_COPIES=DIR keeps the
# copies.
UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build/fuzz -L ":unit/($(IFS='|'; echo "${folders[*]}"))$" \
  --output-on-failure --no-tests=error -j "$(nproc)"
