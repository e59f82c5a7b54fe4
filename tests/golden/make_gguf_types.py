#!/usr/bin/env python3
"""Random blocks of every served type of GGUF tensors, and the floats that the `gguf` package makes of them.

    make_gguf_types.py OUTPUT.safetensors

Writes tests/golden/gguf_types.safetensors: for each type NAME the tensors NAME.blocks u8 [rows, bytes] and NAME.floats f32
[rows, columns]. Needs the packages gguf 0.19 and numpy. The bytes are random, but for the scales, which are finite halves:
large, small, denormal, zero and negative ones.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

# The offset of each half in a block, and the bytes of a block.
HALVES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
          "IQ4_NL": (0,)}
FLOATS = ("F16", "BF16", "F32")
ROWS, COLUMNS = 4, 256


def halves(random, count):
    values = random.standard_normal(count) * np.exp2(random.integers(-20, 12, count))
    values[::7] = random.integers(1, 1000, len(values[::7])) * 2.0**-24  # denormal
    values[3::11] = 0
    return values.astype(np.float16)


def random_blocks(name, random):
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    if name in FLOATS:
        values = (random.standard_normal((ROWS, COLUMNS)) * np.exp2(random.integers(-30, 14, (ROWS, COLUMNS)))).astype(np.float32)
        if name == "F16":
            return values.astype(np.float16).view(np.uint8)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8) if name == "BF16" else values.view(np.uint8)
    blocks = random.integers(0, 256, (ROWS * COLUMNS // elements, size), dtype=np.uint8)
    for offset in HALVES[name]:
        blocks[:, offset:offset + 2] = halves(random, len(blocks)).view(np.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def main():
    random = np.random.default_rng(28)
    header, data = {}, b""
    for name in (*HALVES, *FLOATS):
        blocks = random_blocks(name, random)
        floats = gguf.dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float32)
        assert floats.shape == (ROWS, COLUMNS) and np.isfinite(floats).all(), name
        for kind, dtype, array in (("floats", "F32", floats), ("blocks", "U8", blocks)):
            header[f"{name}.{kind}"] = {"dtype": dtype, "shape": list(array.shape),
                                        "data_offsets": [len(data), len(data) + array.nbytes]}
            data += array.tobytes()
            assert len(data) % 4 == 0
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(sys.argv[1]).write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
