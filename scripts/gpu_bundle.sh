#!/bin/bash
# Packs what a GPU machine without Boost, Lua and gtest needs to run Mortise and its GPU suite: the program, the plugins, the
# test programs, and the shared libraries that they load, all stripped of debug information.
#   scripts/gpu_bundle.sh BUILD_FOLDER OUT_FOLDER      makes OUT_FOLDER; `tar cz` it, or carry it as it is
# On the GPU machine, from the root of a checkout: scripts/gpu_suite.sh OUT_FOLDER.
# Left to the machine: the C library, the driver, and cuBLASLt (libcublasLt.so.13), which the device cuda looks up by itself.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 BUILD_FOLDER OUT_FOLDER" >&2; exit 2; }
build=$1 out=$2
[ -x "$build/mortise" ] || { echo "$0: there is no program $build/mortise; build it first" >&2; exit 1; }
[ -f "$build/cuda.so" ] || { echo "$0: there is no $build/cuda.so; configure where nvcc is found" >&2; exit 1; }

rm -rf "$out"
mkdir -p "$out/lib" "$out/tests"
cp "$build/mortise" "$build"/*.so "$out/"
for test in plugins/kernels/cuda/kernels_cuda_test plugins/kernels/cuda/kernels_cuda_span_test \
            plugins/devices/cuda/cuda_device_test plugins/attention/span_cuda/span_cuda_test plugins/attention/paged_cuda/paged_cuda_test \
            plugins/attention/cascade_cuda/cascade_cuda_test \
            property/exactness_test property/nan_test; do
  [ -x "$build/tests/$test" ] && cp "$build/tests/$test" "$out/tests/" || echo "left out, not built: $test" >&2
done

# What the programs read at run time lies in a checkout, at the path that they were built at.
(cd "$(dirname "$0")/.." && pwd) >"$out/source_folder"
cp "$(dirname "$0")/gpu_suite.sh" "$out/"

# What the C library brings is the target's own.
own='/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libresolv|libutil)\.so[.0-9]*$'
for file in "$out/mortise" "$out"/*.so "$out"/tests/*; do ldd "$file"; done |
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -Ev "$own" | xargs -I{} cp -L {} "$out/lib/"

for file in "$out/mortise" "$out"/*.so "$out"/tests/* "$out"/lib/*; do strip -g "$file" 2>/dev/null || true; done
du -sh "$out"
