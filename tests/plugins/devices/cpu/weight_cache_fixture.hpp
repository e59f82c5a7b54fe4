// weight_cache_fixture.hpp: a device that keeps packed weights in a file of a temporary folder, and a model's worth of
// weights of all kinds.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "device_fixture.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/ops.hpp"
#include "devices/cpu/weight_cache.hpp"
#include "temp_folder.hpp"

namespace mortise::cpu {

namespace fs = std::filesystem;

// A host that keeps what it is told. `base` first: a plugin hands it back to log().
struct Host {
  mortise_host base{};
  std::vector<std::string> warnings;

  Host() {
    base.struct_size = sizeof base;
    base.log = [](const mortise_host* host, int32_t level, mortise_string_view text) {
      EXPECT_EQ(level, MORTISE_LOG_WARNING);
      reinterpret_cast<Host*>(const_cast<mortise_host*>(host))->warnings.emplace_back(view(text));
    };
  }
};

// A matrix that comes quantised, with an order.
struct Quantized {
  static constexpr int64_t kN = 20, kK = 96;

  Quantized() : order(kK) {
    std::iota(order.rbegin(), order.rend(), 0);
    matrix.n = kN, matrix.k = kK, matrix.bits = 4, matrix.group_size = 32;
    matrix.order = order.data();
    matrix.read = [](void*, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t* zeros) {
      for (int64_t i = 0; i < (n1 - n0) * kK; ++i) values[i] = static_cast<uint8_t>((i + n0) % 16);
      for (int64_t i = 0; i < (n1 - n0) * kK / 32; ++i) scales[i] = 0.5f, zeros[i] = 8;
    };
  }
  std::vector<int32_t> order;
  mortise_quantized_matrix matrix = sized<mortise_quantized_matrix>();
};

class WeightCacheFile : public testing::Test {
 protected:
  WeightCacheFile() {
    // The same exact numbers on every machine, because a golden hash depends on them.
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<Bf16>(0x3c00u + (i * 40503u) % 0x300u + (i % 3 == 0 ? 0x8000u : 0u));
    }
  }

  fs::path path() const { return folder_ / "mortise-cpu-test.packed"; }
  std::string contents() const {
    std::ifstream stream(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  void open(const std::string& identity = "a checkpoint") {
    auto args = sized<mortise_weight_cache_args>();
    const std::string folder = folder_.string();
    args.folder = view(std::string_view(folder));
    args.format = view(std::string_view("test"));
    args.identity = view(std::string_view(identity));
    device_.cache.open(args, device_.pool);
  }

  mortise_weight* prepare(mortise_weight_source source, const std::string& name) {
    source.name = view(std::string_view(name));
    mortise_weight* weight = nullptr;
    mortise_error error = make_error();
    EXPECT_EQ(prepare_weight(&device_, &source, &weight, &error), MORTISE_OK) << error.message;
    return weight;
  }

  mortise_weight* prepare(const std::string& name, int32_t use, int32_t dtype, int32_t bits = 0, int32_t group = 0) {
    const bool vector = use == MORTISE_WEIGHT_VECTOR;
    const mortise_tensor part = vector ? vector_part(values_) : matrix(values_, 40, 70);
    const mortise_tensor* pointer = &part;
    auto source = sized<mortise_weight_source>();
    source.use = use, source.dtype = dtype, source.bits = bits, source.group_size = group;
    source.num_parts = 1, source.parts = &pointer;
    return prepare(source, name);
  }

  mortise_weight* prepare_quantized(const std::string& name) {
    const mortise_quantized_matrix* pointer = &quantized_.matrix;
    auto source = sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR, source.dtype = MORTISE_BF16, source.bits = 4, source.group_size = 32;
    source.num_parts = 1, source.quantized = &pointer;
    return prepare(source, name);
  }

  // What a model of all kinds of weights has in memory, as one text.
  std::string load(const std::string& identity = "a checkpoint") {
    open(identity);
    const std::vector<mortise_weight*> weights = {
        prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16),        prepare("b", MORTISE_WEIGHT_LINEAR, MORTISE_F32),
        prepare("c", MORTISE_WEIGHT_EMBEDDING, MORTISE_BF16),     prepare("d", MORTISE_WEIGHT_VECTOR, MORTISE_BF16),
        prepare("e", MORTISE_WEIGHT_LINEAR, MORTISE_BF16, 8),     prepare("f", MORTISE_WEIGHT_VECTOR, MORTISE_F32),
        prepare("g", MORTISE_WEIGHT_LINEAR, MORTISE_BF16, 4, 32), prepare_quantized("h")};
    device_.cache.close(true, device_.pool);
    std::string all;
    from_file_ = 0;
    for (mortise_weight* weight : weights) {
      all.append(static_cast<const char*>(weight->data), bytes_of(*weight));
      from_file_ += weight->file != nullptr;
      free_weight(&device_, weight);
    }
    return all;
  }

  // Includes the scales, zeros and order of a quantised weight, which lie behind its values.
  static std::size_t bytes_of(const mortise_weight& weight) {
    const auto* const begin = static_cast<const std::byte*>(weight.data);
    if (weight.order != nullptr) return reinterpret_cast<const std::byte*>(weight.order + weight.k) - begin;
    if (weight.bits != 0) {
      const auto groups = static_cast<std::size_t>((weight.k + weight.group_size - 1) / weight.group_size);
      return reinterpret_cast<const std::byte*>(weight.zeros + 48 * groups) - begin;
    }
    if (weight.use == MORTISE_WEIGHT_VECTOR)
      return static_cast<std::size_t>(weight.n) * (weight.dtype == MORTISE_BF16 ? 6 : 4);
    if (!weight.packed) return static_cast<std::size_t>(weight.n * weight.k) * 2;
    return 48 * 96 * (weight.dtype == MORTISE_BF16 ? 2 : 4);
  }

  static constexpr int kWeights = 8;
  Host host_;
  mortise_device device_{available_isas().back(), SumOrder::kTiles, 2, true, &host_.base};
  const test::TempFolder temp_;
  const fs::path& folder_ = temp_.path();
  std::vector<Bf16> values_ = std::vector<Bf16>(2800);
  Quantized quantized_;
  int from_file_ = 0;
};

}  // namespace mortise::cpu
