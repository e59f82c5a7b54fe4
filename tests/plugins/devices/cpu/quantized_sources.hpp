// tests/plugins/devices/cpu/quantized_sources.hpp: quantised matrices as checkpoints have them, and the weight sources
// that hand them to a device.
#pragma once

#include "device_fixture.hpp"
#include "kernels/cpu/reference/linear_block32.hpp"
#include "kernels/cpu/reference/linear_fp8.hpp"
#include "kernels/cpu/reference/linear_int.hpp"
#include "kernels/cpu/reference/linear_mxfp4.hpp"

namespace mortise::cpu {

// A matrix of quantised integers as a checkpoint would hand it in.
struct Source {
  reference::IntWeight weight;
  mortise_quantized_matrix matrix = sized<mortise_quantized_matrix>();

  Source(std::mt19937& rng, std::size_t n, std::size_t k, int bits, std::size_t group, bool with_order) {
    weight = reference::quantize_weights(random_values<float>(rng, n * k), n, k, bits, group);
    for (auto& zero : weight.zeros) zero = static_cast<std::uint8_t>(rng() % (1u << bits));
    if (with_order) {
      for (std::size_t j = 0; j < k; ++j) weight.order.push_back(static_cast<std::int32_t>((j * 7 + 3) % k));
      matrix.order = weight.order.data();
    }
    matrix.n = static_cast<int64_t>(n);
    matrix.k = static_cast<int64_t>(k);
    matrix.bits = bits;
    matrix.group_size = static_cast<int32_t>(group);
    matrix.context = this;
    matrix.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t* zeros) {
      const reference::IntWeight& w = static_cast<const Source*>(context)->weight;
      const auto groups = static_cast<int64_t>(w.scales.size() / w.n), columns = static_cast<int64_t>(w.k);
      std::copy(&w.values[0] + n0 * columns, &w.values[0] + n1 * columns, values);
      std::copy(&w.scales[0] + n0 * groups, &w.scales[0] + n1 * groups, scales);
      std::copy(&w.zeros[0] + n0 * groups, &w.zeros[0] + n1 * groups, zeros);
    };
  }
  Source(const Source&) = delete;
};

inline mortise_status prepare(Device& device, mortise_weight_source source, mortise_weight** weight) {
  return device.table().prepare_weight(device.get(), &source, weight, &device.error);
}

inline mortise_weight_source source_of(int32_t dtype, int bits, std::size_t group, std::size_t parts) {
  auto source = sized<mortise_weight_source>();
  source.use = MORTISE_WEIGHT_LINEAR;
  source.dtype = dtype;
  source.bits = bits;
  source.group_size = static_cast<int32_t>(group);
  source.num_parts = static_cast<int32_t>(parts);
  return source;
}

// A matrix for activations in blocks of 32, with scales that are exact in f16.
struct Block32Source {
  reference::Block32Weight weight;
  mortise_quantized_matrix matrix = sized<mortise_quantized_matrix>();

  Block32Source(std::mt19937& rng, std::size_t n, std::size_t k, int bits, std::size_t group, bool has_minima) {
    weight = {n, k, group, has_minima ? 0 : 1 << (bits - 1), {}, {}, {}};
    for (std::size_t i = 0; i < n * k; ++i) weight.values.push_back(static_cast<std::uint8_t>(rng() % (1u << bits)));
    for (std::size_t i = 0; i < n * ((k + group - 1) / group); ++i) {
      weight.scales.push_back(static_cast<float>(rng() % 1024) * 0x1p-14f);
      if (has_minima) weight.minima.push_back(static_cast<float>(rng() % 1024) * -0x1p-10f);
    }
    matrix.n = static_cast<int64_t>(n);
    matrix.k = static_cast<int64_t>(k);
    matrix.bits = bits;
    matrix.group_size = static_cast<int32_t>(group);
    matrix.value_type = MORTISE_I8_BLOCK32;
    matrix.zero = weight.zero;
    matrix.flags = MORTISE_QUANTIZED_F16_SCALES;
    if (has_minima) matrix.flags |= MORTISE_QUANTIZED_MINIMA;
    matrix.context = this;
    matrix.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t*) {
      const reference::Block32Weight& w = static_cast<const Block32Source*>(context)->weight;
      const auto groups = static_cast<int64_t>(w.scales.size() / w.n), columns = static_cast<int64_t>(w.k);
      std::copy(&w.values[0] + n0 * columns, &w.values[0] + n1 * columns, values);
      for (auto g = static_cast<std::size_t>(n0 * groups); g < static_cast<std::size_t>(n1 * groups); ++g) {
        *scales++ = w.scales[g];
        if (!w.minima.empty()) *scales++ = w.minima[g];
      }
    };
  }
  Block32Source(const Block32Source&) = delete;
};

inline mortise_weight_source block32_source_of(int32_t dtype, int bits, std::size_t group, std::size_t parts) {
  auto source = sized<mortise_weight_source>();
  source.use = MORTISE_WEIGHT_LINEAR;
  source.dtype = dtype;
  source.bits = bits;
  source.value_type = MORTISE_I8_BLOCK32;
  source.group_size = static_cast<int32_t>(group);
  source.num_parts = static_cast<int32_t>(parts);
  return source;
}

// A quantised matrix in E4M3.
struct Fp8Source {
  reference::Fp8Weight weight;
  mortise_quantized_matrix matrix = sized<mortise_quantized_matrix>();

  Fp8Source(std::mt19937& rng, std::size_t n, std::size_t k, std::size_t group) {
    weight = {n, k, group, {}, {}};
    for (std::size_t i = 0; i < n * k; ++i) {
      weight.values.push_back(static_cast<std::uint8_t>(rng() % 0x7f | (rng() & 0x80)));
    }
    weight.scales = random_values<float>(rng, n * ((k + group - 1) / group));
    matrix.n = static_cast<int64_t>(n);
    matrix.k = static_cast<int64_t>(k);
    matrix.bits = 8;
    matrix.group_size = static_cast<int32_t>(group);
    matrix.value_type = MORTISE_F8_E4M3;
    matrix.context = this;
    matrix.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t*) {
      const reference::Fp8Weight& w = static_cast<const Fp8Source*>(context)->weight;
      const auto groups = static_cast<int64_t>(w.scales.size() / w.n), columns = static_cast<int64_t>(w.k);
      std::copy(&w.values[0] + n0 * columns, &w.values[0] + n1 * columns, values);
      std::copy(&w.scales[0] + n0 * groups, &w.scales[0] + n1 * groups, scales);
    };
  }
  Fp8Source(const Fp8Source&) = delete;
};

// A matrix in MXFP4.
struct Mxfp4Source {
  reference::Mxfp4Weight weight;
  std::vector<float> scales;
  mortise_quantized_matrix matrix = sized<mortise_quantized_matrix>();

  // With exponents from `low` to `high`.
  Mxfp4Source(std::mt19937& rng, std::size_t n, std::size_t k, unsigned low = 116, unsigned high = 123) {
    weight = {n, k, {}, {}};
    for (std::size_t i = 0; i < n * k; ++i) weight.values.push_back(static_cast<std::uint8_t>(rng() % 16));
    for (std::size_t i = 0; i < n * ((k + 31) / 32); ++i) {
      weight.exponents.push_back(static_cast<std::uint8_t>(low + rng() % (high - low + 1)));
    }
    scales = reference::scales_of(weight);
    matrix.n = static_cast<int64_t>(n);
    matrix.k = static_cast<int64_t>(k);
    matrix.bits = 4;
    matrix.group_size = 32;
    matrix.value_type = MORTISE_F4_E2M1;
    matrix.context = this;
    matrix.read = [](void* context, int64_t n0, int64_t n1, uint8_t* values, float* to, uint8_t*) {
      const auto& source = *static_cast<const Mxfp4Source*>(context);
      const reference::Mxfp4Weight& w = source.weight;
      const auto groups = static_cast<int64_t>(source.scales.size() / w.n), columns = static_cast<int64_t>(w.k);
      std::copy(&w.values[0] + n0 * columns, &w.values[0] + n1 * columns, values);
      std::copy(&source.scales[0] + n0 * groups, &source.scales[0] + n1 * groups, to);
    };
  }
  Mxfp4Source(const Mxfp4Source&) = delete;
};

inline mortise_weight_source mxfp4_source_of(int32_t dtype, std::size_t parts) {
  auto source = sized<mortise_weight_source>();
  source.use = MORTISE_WEIGHT_LINEAR;
  source.dtype = dtype;
  source.bits = 4;
  source.value_type = MORTISE_F4_E2M1;
  source.group_size = 32;
  source.num_parts = static_cast<int32_t>(parts);
  return source;
}

inline mortise_weight_source fp8_source_of(int32_t dtype, std::size_t group, std::size_t parts) {
  auto source = sized<mortise_weight_source>();
  source.use = MORTISE_WEIGHT_LINEAR;
  source.dtype = dtype;
  source.bits = 8;
  source.value_type = MORTISE_F8_E4M3;
  source.group_size = static_cast<int32_t>(group);
  source.num_parts = static_cast<int32_t>(parts);
  return source;
}

}  // namespace mortise::cpu
