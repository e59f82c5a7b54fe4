#!/bin/bash
# Builds llama.cpp's own programs from the source package of llama-cpp-python on PyPI, for this machine, into
# $PEERS/llama.cpp. usage: bench/peers/install_llama.sh   (PEERS: bench/peers/work, which git ignores; JOBS: all processors)
# For another machine: LLAMA_CMAKE_ARGS (more arguments for CMake, which come last) says what it has, LLAMA_PACK names an archive of
# what compare.py needs there. README.md has the line for AMX.
set -euo pipefail
VERSION=${LLAMA_CPP_PYTHON:-0.3.36}
PEERS=${PEERS:-$(dirname "$(readlink -f "$0")")/work}
mkdir -p "$PEERS" && cd "$PEERS"

if [ ! -x llama/bin/python ]; then
  python3 -m venv llama
  llama/bin/pip install -q numpy pyyaml tqdm requests # what gguf-py imports; make_gguf.py needs no torch
fi
if [ ! -d llama.cpp ]; then
  llama/bin/pip download -q --no-deps --no-binary llama-cpp-python "llama-cpp-python==$VERSION" -d .
  tar xzf "llama_cpp_python-$VERSION.tar.gz"
  mv "llama_cpp_python-$VERSION/vendor/llama.cpp" llama.cpp
  rm -r "llama_cpp_python-$VERSION" "llama_cpp_python-$VERSION.tar.gz"
fi

# gcc 12's _tile_loadconfig tells the compiler nothing of the memory that it reads, so that the stores into it are dropped and
# quantised models die of SIGILL where there is AMX. Until the package brings a fix: an empty statement that reads them.
amx=llama.cpp/ggml/src/ggml-cpu/amx/mmq.cpp
if ! grep -q 'asm volatile("" : "+m"(tc))' "$amx"; then
  sed -i 's/^\( *\)_tile_loadconfig(&tc);/\1asm volatile("" : "+m"(tc));\n&/' "$amx"
  grep -q 'asm volatile("" : "+m"(tc))' "$amx" || { echo "$amx: _tile_loadconfig(&tc) is not there any more; is the patch still needed?" >&2; exit 1; }
fi

read -ra more -d "" <<< "${LLAMA_CMAKE_ARGS:-}" || true # of several lines, too
cmake -S llama.cpp -B llama.cpp/build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=ON -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON "${more[@]}" > cmake.log
cmake --build llama.cpp/build -j "${JOBS:-$(nproc)}" --target llama-batched-bench llama-completion llama-quantize llama-server > build.log
ls llama.cpp/build/bin/llama-{batched-bench,completion,quantize,server}

# The programs with the libraries that they were built with, and gguf-py for make_gguf.py.
if [ -n "${LLAMA_PACK:-}" ]; then
  rm -rf pack && mkdir -p pack/llama.cpp/build/bin
  cp -a llama.cpp/build/bin/. pack/llama.cpp/build/bin/
  for library in libgomp libstdc++ libgcc_s; do
    found=$({ ldd llama.cpp/build/bin/llama-batched-bench || true; } | sed -n "s/.*$library\.so[^ ]* => \([^ ]*\).*/\1/p")
    [ -z "$found" ] || cp -L "$found" pack/llama.cpp/build/bin/
  done
  strip pack/llama.cpp/build/bin/llama-*
  find pack/llama.cpp/build/bin -name '*.so*' -type f -exec strip --strip-unneeded {} +
  mkdir pack/llama.cpp/gguf-py && cp -r llama.cpp/gguf-py/gguf pack/llama.cpp/gguf-py/
  find pack -name __pycache__ -prune -exec rm -r {} +
  tar cJf "$LLAMA_PACK" -C pack . && rm -r pack && ls -l "$LLAMA_PACK"
fi
