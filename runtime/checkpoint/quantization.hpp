// runtime/checkpoint/quantization.hpp: how a checkpoint is quantised, from config.json. These formats are supported:
//   gptq                 bits 4 or 8, with and without act-order; zero points off by one ("gptq") or not ("gptq_v2")
//   awq                  version gemm, 4 bits
//   compressed-tensors   pack-quantized (W4A16, W8A16) and int-quantized (W8A8), integers, per group, row or tensor;
//                        float-quantized, E4M3 of 8 bits, per tensor, row (channel) or block of 128 x 128;
//                        mxfp4-pack-quantized, E2M1 with one E8M0 scale for 32 columns
//   fp8                  E4M3, per tensor, or in blocks of 128 x 128 (weight_block_size)
// quant_method mxfp4 (gpt-oss) is refused: its tensors exist for mixtures of experts alone.
//   gguf                 of GGUF files alone: the types that kept_integers() knows (gguf/types.hpp), whose products
//   have
//                        an activation scale for each 32 columns
// The rounding of activations is not taken from the checkpoint (docs/numerics.md, "Quantised linear", "Linear with FP8
// weights" and "Linear with MXFP4 weights"), nor are scales for activations.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace mortise {

enum class QuantizedLayout : std::uint8_t { kGptq, kAwq, kCompressedTensors, kFp8, kGguf };

// kBlock32: integers whose activations have a scale for each 32 columns.
enum class QuantizedType : std::uint8_t { kInteger, kE4m3, kE2m1, kBlock32 };

struct QuantizationConfig {
  QuantizedLayout layout = QuantizedLayout::kGptq;
  int bits = 0;                                  // of most matrices; compressed-tensors may have others as well
  std::int64_t group_size = 0;                   // of most matrices; 0: a row is one group
  bool zeros_minus_one = false;                  // gptq: the stored zero points are one too small
  QuantizedType type = QuantizedType::kInteger;  // of most matrices
};

// Reads and normalises config["quantization_config"] (formerly compression_config). Plugins see {"quant_method",
// "bits", "group_size"}, with group_size 0 for rows, and for E4M3 also {"type": "fp8"}, for MXFP4 {"type": "mxfp4"},
// for kBlock32 {"type": "int-block32"}.
// nullopt: not quantised. Throws an Error that lists the supported formats for anything else.
std::optional<QuantizationConfig> normalise_quantization(nlohmann::json& config, const std::string& where);

// Describes a GGUF file whose matrices are mostly such integers (kBlock32), and writes config["quantization_config"].
QuantizationConfig gguf_quantization(nlohmann::json& config, int bits, std::int64_t group_size);

}  // namespace mortise
