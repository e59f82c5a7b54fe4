#include "checkpoint/quantization.hpp"

#include <nlohmann/json.hpp>

#include "checkpoint/json_file.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using nlohmann::json;

constexpr const char* kSupported =
    "supported are gptq (4 or 8 bits), awq (version gemm, 4 bits), compressed-tensors (pack-quantized or "
    "int-quantized, 4 or 8 bits; float-quantized, 8 bits; mxfp4-pack-quantized) and fp8 (E4M3, per tensor or in blocks "
    "of 128 x 128); use such a checkpoint, or the unquantised one with weights = \"int8\"";

constexpr std::int64_t kFp8Block = 128, kMxfp4Group = 32;

// An object of the section, and its path for messages.
struct Section {
  const json& object;
  std::string path;

  [[noreturn]] void refuse(const char* key) const {
    const json& value = member(object, key);
    fail("{}.{} is {}; {}", path, key, value.is_null() ? std::string("missing") : quote(value.dump()), kSupported);
  }
  std::int64_t integer(const char* key) const {
    const json& value = member(object, key);
    if (!value.is_number_integer()) refuse(key);
    return value.get<std::int64_t>();
  }
  std::string text(const char* key, const char* absent) const {
    const json& value = member(object, key);
    if (value.is_null()) return absent;
    if (!value.is_string()) refuse(key);
    return value.get<std::string>();
  }
  bool truth(const char* key) const {
    const json& value = member(object, key);
    if (!value.is_null() && !value.is_boolean()) refuse(key);
    return value.is_boolean() && value.get<bool>();
  }
  int bits(const char* key) const {
    const std::int64_t bits = integer(key);
    if (bits != 4 && bits != 8) refuse(key);
    return static_cast<int>(bits);
  }
  // Blocks of 128 x 128 are the only ones. Returns whether there are blocks.
  bool fp8_blocks(const char* key) const {
    const json& value = member(object, key);
    if (value.is_null()) return false;
    if (value != json({kFp8Block, kFp8Block})) refuse(key);
    return true;
  }
  // If it is -1 or absent, a row is one group.
  std::int64_t group_size() const {
    const json& value = member(object, "group_size");
    if (value.is_null() || value == -1) return 0;
    const std::int64_t size = integer("group_size");
    if (size < 32 || size > (1 << 20) || (size != 32 && size % 64 != 0)) {
      fail("{}.group_size is {}; expected 32, a multiple of 64, or -1 for whole rows", path, size);
    }
    return size;
  }
};

QuantizationConfig read_gptq(const Section& section) {
  QuantizationConfig out;
  out.layout = QuantizedLayout::kGptq;
  out.bits = section.bits("bits");
  out.group_size = section.group_size();
  const std::string format = section.text("checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2") section.refuse("checkpoint_format");
  out.zeros_minus_one = format == "gptq";
  // Other bits or groups for modules that match a pattern are not supported.
  if (!member(section.object, "dynamic").empty()) section.refuse("dynamic");
  return out;
}

QuantizationConfig read_awq(const Section& section) {
  QuantizationConfig out;
  out.layout = QuantizedLayout::kAwq;
  out.bits = section.bits("bits");
  if (out.bits != 4) section.refuse("bits");
  out.group_size = section.group_size();
  const std::string version = section.text("version", "gemm");
  if (version != "gemm" && version != "GEMM") section.refuse("version");
  return out;
}

QuantizationConfig read_fp8(const Section& section) {
  QuantizationConfig out;
  out.layout = QuantizedLayout::kFp8;
  out.bits = 8;
  out.type = QuantizedType::kE4m3;
  out.group_size = section.fp8_blocks("weight_block_size") ? kFp8Block : 0;
  const std::string format = section.text("fmt", "e4m3");  // DeepSeek names it
  if (format != "e4m3" && format != "float8_e4m3fn") section.refuse("fmt");
  const std::string scheme = section.text("activation_scheme", "dynamic");  // either way activations stay as they are
  if (scheme != "dynamic" && scheme != "static") section.refuse("activation_scheme");
  return out;
}

// `bits`: of the activations.
void check_activations(const Section& group, const char* type, std::int64_t bits) {
  const json& activations = member(group.object, "input_activations");
  if (!activations.is_null()) {
    const Section section{activations, group.path + ".input_activations"};
    if (!activations.is_object()) group.refuse("input_activations");
    if (section.text("type", "int") != type) section.refuse("type");
    if (section.integer("num_bits") != bits) section.refuse("num_bits");
  }
  if (!member(group.object, "output_activations").is_null()) group.refuse("output_activations");
}

// MXFP4 with bf16 activations (W4A16) or with activations that are MXFP4 as well, which are not rounded here.
void check_mxfp4_group(const Section& group, const Section& weights) {
  if (weights.text("type", "") != "float") weights.refuse("type");
  if (weights.integer("num_bits") != 4) weights.refuse("num_bits");
  if (weights.text("strategy", "") != "group") weights.refuse("strategy");
  if (weights.integer("group_size") != kMxfp4Group) weights.refuse("group_size");
  if (weights.truth("dynamic")) weights.refuse("dynamic");
  check_activations(group, "float", 4);
}

QuantizationConfig read_compressed_tensors(const Section& section) {
  QuantizationConfig out;
  out.layout = QuantizedLayout::kCompressedTensors;
  const std::string format = section.text("format", "");
  if (format != "pack-quantized" && format != "int-quantized" && format != "naive-quantized" &&
      format != "float-quantized" && format != "mxfp4-pack-quantized") {
    section.refuse("format");
  }
  for (const char* key : {"sparsity_config", "transform_config"}) {
    const json& value = member(section.object, key);
    const bool nothing = value.empty() || (value.is_object() && member(value, "format") == "dense");
    if (!nothing) section.refuse(key);
  }
  const json& groups = member(section.object, "config_groups");
  if (!groups.is_object() || groups.empty()) section.refuse("config_groups");
  for (const auto& [name, value] : groups.items()) {
    const Section group{value, section.path + ".config_groups." + name};
    if (!value.is_object() || !member(value, "weights").is_object()) section.refuse("config_groups");
    const Section weights{member(value, "weights"), group.path + ".weights"};
    if (format == "mxfp4-pack-quantized") {
      check_mxfp4_group(group, weights);
      out.bits = 4, out.group_size = kMxfp4Group, out.type = QuantizedType::kE2m1;
      continue;
    }
    const std::string type = weights.text("type", "int"), strategy = weights.text("strategy", "channel");
    const bool fp8 = type == "float";
    // Integers are in tensors of other types than E4M3, so the format and the type go together.
    if ((type != "int" && !fp8) || fp8 == (format == "pack-quantized" || format == "int-quantized")) {
      weights.refuse("type");
    }
    const int bits = weights.bits("num_bits");
    if (fp8 && bits != 8) weights.refuse("num_bits");
    if (strategy != "channel" && strategy != "tensor" && strategy != (fp8 ? "block" : "group")) {
      weights.refuse("strategy");
    }
    if (weights.truth("dynamic")) weights.refuse("dynamic");
    std::int64_t group_size = strategy == "group" ? weights.group_size() : 0;
    if (strategy == "block") {
      if (!weights.fp8_blocks("block_structure")) weights.refuse("block_structure");
      group_size = kFp8Block;
    }
    check_activations(group, type.c_str(), 8);
    if (out.bits != 0) continue;
    out.bits = bits, out.group_size = group_size;
    if (fp8) out.type = QuantizedType::kE4m3;
  }
  return out;
}

}  // namespace

std::optional<QuantizationConfig> normalise_quantization(json& config, const std::string& where) {
  const char* key = member(config, "quantization_config").is_null() ? "compression_config" : "quantization_config";
  const json object = member(config, key);
  config.erase("compression_config");
  config.erase("quantization_config");
  if (object.is_null()) return std::nullopt;
  if (!object.is_object()) fail("{}: {} is {}; expected an object", where, key, quote(object.dump()));
  const Section section{object, where + ": " + key};
  const std::string method = section.text("quant_method", "");
  QuantizationConfig out;
  if (method == "gptq") {
    out = read_gptq(section);
  } else if (method == "awq") {
    out = read_awq(section);
  } else if (method == "compressed-tensors") {
    out = read_compressed_tensors(section);
  } else if (method == "fp8") {
    out = read_fp8(section);
  } else if (method == "mxfp4") {
    fail(
        "{}.quant_method is 'mxfp4', the format of gpt-oss, whose matrices are those of experts; mixtures of "
        "experts are not served; use a dense model, in MXFP4 as compressed-tensors has it (mxfp4-pack-quantized)",
        section.path);
  } else {
    section.refuse("quant_method");
  }
  config["quantization_config"] = {{"quant_method", method}, {"bits", out.bits}, {"group_size", out.group_size}};
  if (out.type == QuantizedType::kE4m3) config["quantization_config"]["type"] = "fp8";
  if (out.type == QuantizedType::kE2m1) config["quantization_config"]["type"] = "mxfp4";
  return out;
}

QuantizationConfig gguf_quantization(json& config, int bits, std::int64_t group_size) {
  config["quantization_config"] = {
      {"quant_method", "gguf"}, {"bits", bits}, {"group_size", group_size}, {"type", "int-block32"}};
  QuantizationConfig out;
  out.layout = QuantizedLayout::kGguf;
  out.bits = bits;
  out.group_size = group_size;
  out.type = QuantizedType::kBlock32;
  return out;
}

}  // namespace mortise
