#!/usr/bin/env python3
"""Writes configs.json: how transformers 5 reads the rope and dtype fields of config.json files of every spelling.

usage: make_configs.py       (needs transformers and torch, see make_models.py)

Each entry has `config` (a config.json) and `rope_parameters` and `dtype` as transformers understands it; `dtype` is null where
the file has none. transformers fills in a rope_theta of 10000 where a file has none.
"""

import copy
import json
from pathlib import Path

from transformers import CONFIG_MAPPING

LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
YARN = dict(factor=4.0, original_max_position_embeddings=32768)
BASE = dict(model_type="llama", max_position_embeddings=4096)

CONFIGS = [
    {},
    dict(torch_dtype="float16"),
    dict(dtype="bfloat16", rope_parameters=dict(rope_type="default", rope_theta=500000.0)),
    dict(dtype="bfloat16", torch_dtype="bfloat16", rope_theta=1000000),
    dict(rope_theta=500000.0, rope_scaling=None),
    dict(rope_theta=20000.0, rope_scaling=dict(type="linear", factor=4.0)),
    dict(rope_scaling=dict(type="linear", factor=2.0)),
    dict(rope_theta=500000.0, rope_scaling=dict(rope_type="llama3", **LLAMA3)),
    dict(rope_theta=500000.0, rope_scaling=dict(rope_type="llama3", type="llama3", **LLAMA3)),
    dict(rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, **LLAMA3)),
    dict(rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)),
    dict(rope_theta=1000000.0, rope_scaling=dict(type="yarn", **YARN), model_type="qwen2"),
    dict(rope_theta=1000000.0, rope_scaling=dict(rope_type="dynamic", factor=2.0)),
    dict(rope_theta=70000.0, rope_parameters=dict(rope_type="linear", rope_theta=80000.0, factor=2.0)),
    dict(rope_theta=70000.0, rope_parameters=dict(rope_type="linear", factor=2.0)),
    dict(rope_theta=70000.0, rope_parameters={}),
    dict(rope_theta=70000.0, rope_scaling=dict(rope_type="linear", factor=2.0),
         rope_parameters=dict(rope_type="default", rope_theta=80000.0)),
    dict(model_type="mistral", sliding_window=4096, rope_theta=10000.0),
    dict(model_type="qwen3", use_sliding_window=True, max_window_layers=2, num_hidden_layers=4, sliding_window=64,
         rope_theta=5000000, rope_scaling=None),
    dict(model_type="phi", rope_theta=10000.0, partial_rotary_factor=0.5),
]


def main():
    out = []
    for change in CONFIGS:
        config = {**BASE, **change}
        read = CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(config)).to_dict()
        out.append(dict(config=config, rope_parameters=read["rope_parameters"], dtype=read["dtype"]))
        print(change, "->", read["rope_parameters"], read["dtype"])
    Path(__file__).with_name("configs.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
