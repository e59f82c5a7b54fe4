// Prepares quantised weights in the order of linear_int/pack.hpp. Float rows are quantised here; rows of quantised
// checkpoints come from the caller's read function. Both pass through a buffer of a few panels per thread.
#include "devices/cpu/int_weights.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "devices/checks/quantized.hpp"
#include "devices/cpu/source_rows.hpp"
#include "kernels/cpu/linear_block32/pack.hpp"
#include "kernels/cpu/linear_fp8/linear_fp8.hpp"
#include "kernels/cpu/linear_fp8/pack.hpp"
#include "kernels/cpu/linear_int/pack.hpp"
#include "kernels/cpu/linear_mxfp4/linear_mxfp4.hpp"
#include "kernels/cpu/linear_mxfp4/pack.hpp"

namespace mortise::cpu {
namespace {

// with 64 rows, checkpoints that pack eight rows in a word are read in whole cache lines
constexpr std::size_t kPanelsAtOnce = 4;
constexpr std::size_t kRowsAtOnce = kPanelsAtOnce * kPanelColumns;
static_assert(kMaxGroup == kMaxQuantizedGroup);
static_assert(kBlock32 == static_cast<std::size_t>(kBlock32Group));
static_assert(kFp8GroupColumns == static_cast<std::size_t>(kFp8Group));
static_assert(kMxfp4GroupColumns == static_cast<std::size_t>(kMxfp4Group));

// A thread's buffer. It holds some rows as values with scales and zero points, and one float row.
struct Staging {
  Staging(std::size_t k, std::size_t groups, std::size_t factors, bool floats)
      : values(std::make_unique_for_overwrite<std::uint8_t[]>(kRowsAtOnce * k)),
        scales(std::make_unique_for_overwrite<float[]>(kRowsAtOnce * factors)),
        zeros(std::make_unique_for_overwrite<std::uint8_t[]>(kRowsAtOnce * groups)),
        row(floats ? std::make_unique_for_overwrite<float[]>(k) : nullptr) {}

  std::unique_ptr<std::uint8_t[]> values;
  std::unique_ptr<float[]> scales;
  std::unique_ptr<std::uint8_t[]> zeros;
  std::unique_ptr<float[]> row;
};

// Packs one quantised weight on the device's threads; each thread has its own buffers.
class IntPacker {
 public:
  IntPacker(mortise_device& device, const mortise_weight& weight, const QuantizedSource& source)
      : device_(device),
        weight_(weight),
        source_(source),
        n_(static_cast<std::size_t>(weight.n)),
        k_(static_cast<std::size_t>(weight.k)),
        groups_(groups_of(k_, weight.group_size)),
        factors_(weight.has_minima ? 2 * groups_ : groups_),
        converters_(converters_for(device, source_.floats.empty() ? 0 : k_)) {
    for (int i = 0; i < device.pool.num_threads(); ++i)
      staging_.emplace_back(k_, groups_, factors_, !source_.floats.empty());
    faults_.resize(staging_.size());
  }

  void run() {
    const auto tasks = static_cast<std::int32_t>((n_ + kRowsAtOnce - 1) / kRowsAtOnce);
    device_.pool.for_each(tasks, [&](std::int32_t task, std::int32_t thread) {
      const std::size_t first = static_cast<std::size_t>(task) * kRowsAtOnce;
      const std::size_t end = std::min(n_, first + kRowsAtOnce);
      source_.floats.empty() ? read_rows(first, end, static_cast<std::size_t>(thread))
                             : quantize_rows(first, end, static_cast<std::size_t>(thread));
      for (std::size_t n = first; n < end; n += kPanelColumns) {
        pack(n, std::min(kPanelColumns, end - n), n - first, static_cast<std::size_t>(thread));
      }
    });
    for (const std::exception_ptr& fault : faults_) {
      if (fault) std::rethrow_exception(fault);
    }
  }

 private:
  void read_rows(std::size_t first, std::size_t end, std::size_t thread) {
    const Staging& to = staging_[thread];
    std::size_t begin = 0;
    for (const mortise_quantized_matrix& part : source_.matrices) {
      const std::size_t n0 = std::max(begin, first), n1 = std::min(begin + static_cast<std::size_t>(part.n), end);
      if (n0 < n1) {
        part.read(part.context, static_cast<int64_t>(n0 - begin), static_cast<int64_t>(n1 - begin),
                  to.values.get() + (n0 - first) * k_, to.scales.get() + (n0 - first) * factors_,
                  to.zeros.get() + (n0 - first) * groups_);
      }
      begin += static_cast<std::size_t>(part.n);
    }
    const auto rows = static_cast<std::int64_t>(end - first), at = static_cast<std::int64_t>(first);
    try {
      if (weight_.value_type == MORTISE_F8_E4M3) refuse_fp8_nan(to.values.get(), rows, weight_.k, at);
      if (weight_.value_type == MORTISE_F4_E2M1) {
        refuse_mxfp4_scales(to.scales.get(), rows, static_cast<std::int64_t>(groups_), at);
      }
    } catch (...) {
      faults_[thread] = std::current_exception();
    }
  }

  void quantize_rows(std::size_t first, std::size_t end, std::size_t thread) {
    const Staging& to = staging_[thread];
    for (std::size_t n = first; n < end; ++n) {
      const auto row = static_cast<std::int64_t>(n);
      const SourceTensor& tensor = tensor_of(source_.floats, row);
      converters_[thread].convert(tensor, row - tensor.first_row, MORTISE_F32, to.row.get());
      std::uint8_t* const values = to.values.get() + (n - first) * k_;
      float* const scales = to.scales.get() + (n - first) * factors_;
      if (weight_.value_type == MORTISE_F8_E4M3) {
        quantize_row_fp8(to.row.get(), k_, values, scales);
      } else if (weight_.value_type == MORTISE_F4_E2M1) {
        if (!quantize_row_mxfp4(to.row.get(), k_, values, scales)) return refuse_later(row, thread);
      } else if (weight_.value_type == MORTISE_I8_BLOCK32) {
        quantize_row_block32(to.row.get(), k_, format_of_floats(weight_.bits), values, scales);
      } else {
        quantize_row(to.row.get(), k_, {weight_.bits, weight_.group_size}, values, scales,
                     to.zeros.get() + (n - first) * groups_);
      }
    }
  }

  void refuse_later(std::int64_t row, std::size_t thread) {
    try {
      refuse_mxfp4_row(row);
    } catch (...) {
      faults_[thread] = std::current_exception();
    }
  }

  // Packs the panel of rows n .. n + count - 1, which begin at row `at` of the staging.
  void pack(std::size_t n, std::size_t count, std::size_t at, std::size_t thread) {
    const Staging& from = staging_[thread];
    const std::uint8_t* rows[kPanelColumns] = {};
    if (weight_.value_type == MORTISE_I8_BLOCK32) pack_block32_factors(n, count, at, thread);
    auto* scales = weight_.scales == nullptr ? nullptr : const_cast<float*>(weight_.scales) + n * groups_;
    auto* zeros = weight_.zeros == nullptr ? nullptr : const_cast<std::uint8_t*>(weight_.zeros) + n * groups_;
    for (std::size_t i = 0; i < kPanelColumns; ++i) {
      const bool there = i < count;
      if (there) rows[i] = from.values.get() + (at + i) * k_;
      for (std::size_t g = 0; g < groups_; ++g) {
        const std::size_t entry = (at + i) * groups_ + g, to = g * kPanelColumns + i;
        if (scales != nullptr) scales[to] = there ? from.scales[entry] : 0.0f;
        if (zeros == nullptr) continue;
        const bool exponents = weight_.value_type == MORTISE_F4_E2M1;
        zeros[to] = !there ? std::uint8_t{0} : exponents ? exponent_of_scale(from.scales[entry]) : from.zeros[entry];
      }
    }
    auto* const values = static_cast<std::uint8_t*>(weight_.data);
    pack_panel_int(rows, k_, weight_.bits, values + packed_bytes_int(n, k_, weight_.bits));
  }

  // Packs the scales and minima of a panel, as above.
  void pack_block32_factors(std::size_t n, std::size_t count, std::size_t at, std::size_t thread) {
    const std::size_t numbers = factors_ / groups_;
    const float *scales[kPanelColumns] = {}, *minima[kPanelColumns] = {};
    for (std::size_t i = 0; i < count; ++i) {
      scales[i] = staging_[thread].scales.get() + (at + i) * factors_;
      minima[i] = scales[i] + 1;
    }
    const std::size_t offset = packed_factor_bytes(n, groups_, weight_.half_scales);
    bool exact = true;
    const auto pack_into = [&](const float* const(&from)[kPanelColumns], const void* to) {
      auto* const panel = static_cast<std::byte*>(const_cast<void*>(to)) + offset;
      exact = pack_factors(from, groups_, numbers, weight_.half_scales, panel) && exact;
    };
    pack_into(scales, weight_.block32_scales);
    if (weight_.has_minima) pack_into(minima, weight_.minima);
    if (exact) return;
    try {
      invalid(kPrepareWeight, "a scale or minimum of rows " + std::to_string(n) + " to " +
                                  std::to_string(n + count - 1) +
                                  " is not exact in f16; leave out the flag MORTISE_QUANTIZED_F16_SCALES");
    } catch (...) {
      faults_[thread] = std::current_exception();
    }
  }

  mortise_device& device_;
  const mortise_weight& weight_;
  const QuantizedSource& source_;
  const std::size_t n_, k_, groups_;
  const std::size_t factors_;               // scales of a row, and minima
  std::vector<RowConverter> converters_;    // a thread's own
  std::vector<Staging> staging_;            // a thread's own
  std::vector<std::exception_ptr> faults_;  // a thread's own, because a task must not throw
};

std::size_t round_up(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// MXFP4 has exponents in the place of zero points, instead of scales.
bool has_scales(const mortise_weight& weight) {
  return weight.value_type != MORTISE_F4_E2M1 && weight.value_type != MORTISE_I8_BLOCK32;
}
bool has_zeros(const mortise_weight& weight) {
  return weight.value_type != MORTISE_F8_E4M3 && weight.value_type != MORTISE_I8_BLOCK32;
}

// The offsets of a weight's parts in its memory, which begins with the values.
struct Layout {
  Layout(const mortise_weight& weight, bool has_order) {
    const auto n = static_cast<std::size_t>(weight.n), k = static_cast<std::size_t>(weight.k);
    const std::size_t per_group = (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
    const std::size_t entries = per_group * groups_of(k, weight.group_size);
    scales = round_up(packed_bytes_int(n, k, weight.bits));
    zeros = scales + (has_scales(weight) ? round_up(entries * sizeof(float)) : 0);
    order = zeros + (has_zeros(weight) ? round_up(entries) : 0);
    if (weight.value_type == MORTISE_I8_BLOCK32) {
      const std::size_t factors = round_up(packed_factor_bytes(n, groups_of(k, weight.group_size), weight.half_scales));
      minima = scales + factors;
      order = minima + (weight.has_minima ? factors : 0);
    }
    bytes = order + (has_order ? k * sizeof(std::int32_t) : 0);
  }

  std::size_t scales, zeros, order, bytes;
  std::size_t minima = 0;  // of I8_BLOCK32, if it has any
};

void point_into(mortise_weight& weight, const Layout& layout, bool has_order) {
  auto* const memory = static_cast<std::byte*>(weight.data);
  weight.scales = has_scales(weight) ? reinterpret_cast<float*>(memory + layout.scales) : nullptr;
  weight.zeros = has_zeros(weight) ? reinterpret_cast<std::uint8_t*>(memory + layout.zeros) : nullptr;
  if (weight.value_type == MORTISE_I8_BLOCK32) {
    weight.block32_scales = memory + layout.scales;
    weight.minima = weight.has_minima ? memory + layout.minima : nullptr;
  }
  weight.order = has_order ? reinterpret_cast<std::int32_t*>(memory + layout.order) : nullptr;
}

}  // namespace

std::unique_ptr<mortise_weight> prepare_int_weight(mortise_device& device, const mortise_weight_source& source) {
  const QuantizedSource read = read_quantized_source(source);
  const int32_t* const order = read.order;
  auto weight = std::make_unique<mortise_weight>();
  weight->n = read.n;
  weight->k = read.k;
  weight->use = source.use;
  weight->dtype = source.dtype;
  weight->packed = true;
  weight->bits = source.bits;
  weight->value_type = read.value_type;
  weight->group_size = static_cast<std::size_t>(read.group_size);
  if (weight->value_type == MORTISE_I8_BLOCK32) {
    const Block32Format made = format_of_floats(weight->bits);
    const bool checkpoint = read.floats.empty();
    weight->zero = checkpoint ? read.zero : made.zero;
    weight->has_minima = checkpoint ? read.has_minima : made.has_minima;
    weight->half_scales = checkpoint ? read.f16_scales : made.half_scales;
  }

  const Layout layout(*weight, order != nullptr);
  const std::size_t order_bytes = layout.bytes - layout.order;
  std::string key = device.cache.key_of(source, *weight);
  bool found = device.cache.find(key, *weight, layout.bytes);
  // An order from a file is a list of indices that nothing has checked yet.
  if (found && order_bytes > 0) {
    found = std::memcmp(static_cast<std::byte*>(weight->data) + layout.order, order, order_bytes) == 0;
  }
  if (!found) {
    weight->file = nullptr;
    weight->data = device.weights.allocate(layout.bytes);
    if (order_bytes > 0) std::memcpy(static_cast<std::byte*>(weight->data) + layout.order, order, order_bytes);
  }
  point_into(*weight, layout, order != nullptr);
  if (!found) IntPacker(device, *weight, read).run();
  device.cache.keep(std::move(key), *weight, layout.bytes);
  return weight;
}

}  // namespace mortise::cpu
