// runtime/checkpoint/quantization.hpp: what config.json says of how a checkpoint is quantised. Three layouts are read:
//   gptq                 bits 4 or 8, with and without act-order; zero points off by one ("gptq") or not ("gptq_v2")
//   awq                  version gemm, 4 bits
//   compressed-tensors   pack-quantized (W4A16, W8A16) and int-quantized (W8A8), integers, per group, row or tensor
// How activations are to be rounded is not taken from the checkpoint: docs/numerics.md, "Quantised linear".
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace mortise {

enum class QuantizedLayout : std::uint8_t { kGptq, kAwq, kCompressedTensors };

struct QuantizationConfig {
  QuantizedLayout layout = QuantizedLayout::kGptq;
  int bits = 0;                  // of most matrices; compressed-tensors may have others too
  std::int64_t group_size = 0;   // of most; 0: a row is one group
  bool zeros_minus_one = false;  // gptq: zero points are stored less one
};

// Reads and normalises config["quantization_config"] (or its older name, compression_config): what plugins see is
// {"quant_method", "bits", "group_size"} with group_size 0 for rows. nullopt: not quantised. Error, with what is
// supported, for anything else.
std::optional<QuantizationConfig> normalise_quantization(nlohmann::json& config, const std::string& where);

}  // namespace mortise
