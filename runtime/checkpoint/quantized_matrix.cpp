#include "checkpoint/quantized_matrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "checkpoint/gguf/types.hpp"
#include "checkpoint/half.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// The place of column c of eight in a word of AWQ.
constexpr std::int64_t kInterleave[8] = {0, 4, 1, 5, 2, 6, 3, 7};
constexpr std::int64_t kMaxColumns = std::int64_t{1} << 24;

template <typename T>
T element(const TensorView& tensor, std::int64_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof value);
  return value;
}

float float_element(const TensorView& tensor, std::int64_t i) {
  if (tensor.dtype == Dtype::kF32) return element<float>(tensor, i);
  const auto bits = element<std::uint16_t>(tensor, i);
  return tensor.dtype == Dtype::kF16 ? half_to_float(bits) : std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

// Finds the tensors of one matrix and checks them against each other.
class QuantizedMatrix::Finder {
 public:
  Finder(const TensorMap& tensors, const QuantizationConfig& config, std::string stem, const std::string& where)
      : tensors_(tensors), config_(config), stem_(std::move(stem)), where_(where) {}

  std::optional<QuantizedMatrix> find() {
    switch (config_.layout) {
      case QuantizedLayout::kGptq:
        return gptq();
      case QuantizedLayout::kAwq:
        return awq();
      case QuantizedLayout::kFp8:
        return fp8();
      case QuantizedLayout::kGguf:
        return gguf();
      case QuantizedLayout::kCompressedTensors:
        break;
    }
    if (auto found = fp8()) return found;
    if (auto found = mxfp4()) return found;
    return compressed_tensors();
  }

 private:
  const TensorView* optional(const char* suffix) const {
    const auto found = tensors_.find(stem_ + suffix);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  [[noreturn]] void wrong(const char* suffix, const TensorView& tensor, const std::string& expected) const {
    fail("{}: tensor {}{} is {} [{}]; expected {}", where_, stem_, suffix, tensor.dtype_name,
         fmt::join(tensor.shape, ", "), expected);
  }

  const TensorView& need(const char* suffix) const {
    const TensorView* tensor = optional(suffix);
    if (tensor == nullptr) {
      fail("{}: tensor {}{} is missing, but a quantised matrix needs it; download the checkpoint again", where_, stem_,
           suffix);
    }
    return *tensor;
  }

  const TensorView& matrix(const char* suffix, Dtype dtype, const char* type, std::int64_t rows,
                           std::int64_t columns) const {
    const TensorView& tensor = need(suffix);
    if (tensor.dtype != dtype || tensor.shape != std::vector<std::int64_t>{rows, columns}) {
      wrong(suffix, tensor, fmt::format("{} [{}, {}]", type, rows, columns));
    }
    return tensor;
  }

  // The tensor from which the sizes follow.
  const TensorView& words(const char* suffix) const {
    const TensorView& tensor = need(suffix);
    const bool fits = tensor.dtype == Dtype::kI32 && tensor.shape.size() == 2 && tensor.shape[0] > 0 &&
                      tensor.shape[1] > 0 && tensor.shape[0] < kMaxColumns && tensor.shape[1] < kMaxColumns;
    if (!fits) wrong(suffix, tensor, "I32 with two dimensions");
    return tensor;
  }

  static bool is_float(const TensorView& tensor) {
    return tensor.dtype == Dtype::kF16 || tensor.dtype == Dtype::kBf16 || tensor.dtype == Dtype::kF32;
  }

  std::int64_t configured_group(std::int64_t k) const {
    return config_.group_size == 0 || config_.group_size >= k ? k : config_.group_size;
  }

  void scales_by_group(QuantizedMatrix& out) const {
    const TensorView& tensor = need(".scales");
    if (!is_float(tensor) || tensor.shape != std::vector<std::int64_t>{out.groups(), out.n_}) {
      wrong(".scales", tensor, fmt::format("F16, BF16 or F32 [{}, {}]", out.groups(), out.n_));
    }
    out.scales_ = &tensor;
    out.scale_row_stride_ = 1;
    out.scale_group_stride_ = out.n_;
  }

  // Computes the permutation that sorts columns by their group. It is stable, so that every reader gets the same one.
  void order_from(const char* suffix, QuantizedMatrix& out) const {
    const TensorView* tensor = optional(suffix);
    if (tensor == nullptr) return;
    if (tensor->dtype != Dtype::kI32 || tensor->shape != std::vector<std::int64_t>{out.k_}) {
      wrong(suffix, *tensor, fmt::format("I32 [{}]", out.k_));
    }
    const std::int64_t groups = out.groups();
    std::vector<std::int64_t> next(static_cast<std::size_t>(groups));
    for (std::int64_t g = 0; g < groups; ++g) next[static_cast<std::size_t>(g)] = g * out.group_size_;
    bool sorted = true;
    std::vector<std::int32_t> order(static_cast<std::size_t>(out.k_)), positions(order.size());
    for (std::int64_t k = 0; k < out.k_; ++k) {
      const auto g = element<std::int32_t>(*tensor, k);
      const bool known = g >= 0 && g < groups;
      const std::int64_t end = known ? std::min((g + 1) * out.group_size_, out.k_) : 0;
      if (!known || next[static_cast<std::size_t>(g)] == end) {
        fail("{}: tensor {}{} puts column {} into group {}; expected {} groups of {} columns each", where_, stem_,
             suffix, k, g, groups, out.group_size_);
      }
      const std::int64_t j = next[static_cast<std::size_t>(g)]++;
      order[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(k);
      positions[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(j);
      sorted = sorted && j == k;
    }
    if (sorted) return;
    out.order_ = std::move(order);
    out.positions_ = std::move(positions);
  }

  std::optional<QuantizedMatrix> gptq() const {
    if (optional(".qweight") == nullptr) return std::nullopt;
    const std::int64_t per_word = 32 / config_.bits;
    QuantizedMatrix out;
    out.bits_ = config_.bits;
    out.values_ = &words(".qweight");
    out.words_along_k_ = true;
    out.k_ = out.values_->shape[0] * per_word;
    out.n_ = out.values_->shape[1];
    out.group_size_ = configured_group(out.k_);
    scales_by_group(out);
    out.zeros_ = &matrix(".qzeros", Dtype::kI32, "I32", out.groups(), ceil_div(out.n_, per_word));
    out.zero_packing_ = Packing::kColumns;
    out.zeros_by_group_ = true;
    out.zeros_minus_one_ = config_.zeros_minus_one;
    order_from(".g_idx", out);
    return out;
  }

  std::optional<QuantizedMatrix> awq() const {
    if (optional(".qweight") == nullptr) return std::nullopt;
    QuantizedMatrix out;
    out.bits_ = config_.bits;
    out.values_ = &words(".qweight");
    out.packing_ = Packing::kInterleaved;
    out.k_ = out.values_->shape[0];
    out.n_ = out.values_->shape[1] * 8;
    out.group_size_ = configured_group(out.k_);
    scales_by_group(out);
    out.zeros_by_group_ = true;
    if (optional(".qzeros") == nullptr) return out;
    out.zeros_ = &matrix(".qzeros", Dtype::kI32, "I32", out.groups(), out.n_ / 8);
    out.zero_packing_ = Packing::kInterleaved;
    return out;
  }

  std::optional<QuantizedMatrix> compressed_tensors() const {
    QuantizedMatrix out;
    out.values_by_row_ = true;
    if (optional(".weight_packed") != nullptr) {
      packed_values(out);
    } else {
      const TensorView* weight = optional(".weight");
      if (weight == nullptr || weight->dtype != Dtype::kI8) return std::nullopt;
      if (weight->shape.size() != 2 || weight->shape[0] < 1 || weight->shape[1] < 1) {
        wrong(".weight", *weight, "I8 with two dimensions");
      }
      out.values_ = weight;
      out.packing_ = Packing::kSignedBytes;
      out.n_ = weight->shape[0];
      out.k_ = weight->shape[1];
      out.bits_ = 8;
    }
    scales_by_row(out);
    zeros_by_row(out);
    order_from(".weight_g_idx", out);
    return out;
  }

  // Floats are read as such.
  std::optional<QuantizedMatrix> gguf() const {
    const TensorView* weight = optional(".weight");
    if (weight == nullptr || !weight->gguf || weight->shape.size() != 2) return std::nullopt;
    const auto integers = kept_integers(weight->gguf->type);
    if (!integers) return std::nullopt;
    QuantizedMatrix out;
    out.type_ = QuantizedType::kBlock32;
    out.bits_ = integers->bits;
    out.values_ = weight;
    out.gguf_ = *integers;
    out.n_ = weight->shape[weight->gguf->transposed ? 1 : 0];
    out.k_ = weight->shape[weight->gguf->transposed ? 0 : 1];
    out.group_size_ = integers->group_size;
    if (out.k_ >= kMaxColumns) wrong(".weight", *weight, "fewer columns");
    return out;
  }

  std::optional<QuantizedMatrix> fp8() const {
    const TensorView* weight = optional(".weight");
    if (weight == nullptr || !weight->dtype_name.starts_with("F8_")) return std::nullopt;
    if (weight->dtype != Dtype::kF8E4M3 || weight->shape.size() != 2 || weight->shape[0] < 1 || weight->shape[1] < 1 ||
        weight->shape[1] >= kMaxColumns) {
      wrong(".weight", *weight, "F8_E4M3 with two dimensions; use a checkpoint in E4M3, or the unquantised one");
    }
    QuantizedMatrix out;
    out.type_ = QuantizedType::kE4m3;
    out.bits_ = 8;
    out.values_ = weight;
    out.values_by_row_ = true;
    out.packing_ = Packing::kSignedBytes;
    out.n_ = weight->shape[0];
    out.k_ = weight->shape[1];
    fp8_scales(optional(".weight_scale_inv") != nullptr ? ".weight_scale_inv" : ".weight_scale", out);
    return out;
  }

  // Packed integers are I32.
  std::optional<QuantizedMatrix> mxfp4() const {
    const TensorView* packed = optional(".weight_packed");
    if (packed == nullptr || packed->dtype == Dtype::kI32) return std::nullopt;
    constexpr std::int64_t kGroup = 32;
    const bool fits = packed->dtype == Dtype::kU8 && packed->shape.size() == 2 && packed->shape[0] > 0 &&
                      packed->shape[1] > 0 && packed->shape[1] < kMaxColumns / 2 &&
                      packed->shape[1] % (kGroup / 2) == 0;
    if (!fits) wrong(".weight_packed", *packed, "U8 [rows, columns / 2] of MXFP4, with columns in groups of 32");
    QuantizedMatrix out;
    out.type_ = QuantizedType::kE2m1;
    out.bits_ = 4;
    out.values_ = packed;
    out.values_by_row_ = true;
    out.n_ = packed->shape[0];
    out.k_ = packed->shape[1] * 2;
    out.group_size_ = kGroup;
    out.scale_row_stride_ = out.k_ / kGroup;
    out.scale_group_stride_ = 1;
    out.scales_ = &matrix(".weight_scale", Dtype::kU8, "U8", out.n_, out.k_ / kGroup);
    check_exponents(out);
    return out;
  }

  // A product with MXFP4 has the bits of the product with its numbers in bf16, so they must be bf16 numbers. With a
  // scale of 2^126 or more, some of a group's numbers are too large.
  void check_exponents(const QuantizedMatrix& out) const {
    constexpr std::uint8_t kNan = 255, kLargest = 252;
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(out.scales_->bytes.data());
    const std::int64_t groups = out.k_ / out.group_size_;
    const std::int64_t at =
        std::find_if(bytes, bytes + out.n_ * groups, [](std::uint8_t e) { return e > kLargest; }) - bytes;
    if (at == out.n_ * groups) return;
    const std::string place = fmt::format("{}: tensor {}.weight_scale: the scale of row {}, columns {} to {}", where_,
                                          stem_, at / groups, at % groups * 32, at % groups * 32 + 31);
    if (bytes[at] == kNan) {
      fail("{} is NaN (255); the checkpoint is damaged: download it again, or use another one", place);
    }
    fail(
        "{} is 2^{} ({}): its numbers exceed bf16, which ends at 2^128, and would not be exact; use the checkpoint "
        "that it "
        "was made from",
        place, bytes[at] - 127, bytes[at]);
  }

  void fp8_scales(const char* suffix, QuantizedMatrix& out) const {
    constexpr std::int64_t kBlock = 128;
    const TensorView& tensor = need(suffix);
    using Shape = std::vector<std::int64_t>;
    const Shape& shape = tensor.shape;
    const Shape blocks = {ceil_div(out.n_, kBlock), ceil_div(out.k_, kBlock)};
    out.scales_ = &tensor;
    out.scale_group_stride_ = 1;
    out.group_size_ = out.k_;
    bool known = is_float(tensor);
    if (shape.empty() || shape == Shape{1} || shape == Shape{1, 1}) {
      out.scale_row_stride_ = 0;
    } else if (shape == Shape{out.n_} || shape == Shape{out.n_, 1}) {
      out.scale_row_stride_ = 1;
    } else if (shape == blocks) {
      out.scale_rows_ = kBlock;
      out.scale_row_stride_ = blocks[1];
      out.group_size_ = std::min(kBlock, out.k_);
    } else {
      known = false;
    }
    if (!known) {
      wrong(
          suffix, tensor,
          fmt::format("F32, BF16 or F16 [1] for the matrix, [{}, 1] for its rows, or [{}, {}] for blocks of 128 x 128",
                      out.n_, blocks[0], blocks[1]));
    }
    const auto count = static_cast<std::int64_t>(tensor.bytes.size() / dtype_size(tensor.dtype));
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::isfinite(float_element(tensor, i))) continue;
      fail("{}: tensor {}{}: scale {} is not finite; the checkpoint is damaged: download it again", where_, stem_,
           suffix, i);
    }
  }

  void packed_values(QuantizedMatrix& out) const {
    out.values_ = &words(".weight_packed");
    out.words_along_k_ = true;
    const TensorView& shape = need(".weight_shape");
    const bool wide = shape.dtype == Dtype::kI64;
    if ((!wide && shape.dtype != Dtype::kI32) || shape.shape != std::vector<std::int64_t>{2}) {
      wrong(".weight_shape", shape, "I64 [2]");
    }
    out.n_ = wide ? element<std::int64_t>(shape, 0) : element<std::int32_t>(shape, 0);
    out.k_ = wide ? element<std::int64_t>(shape, 1) : element<std::int32_t>(shape, 1);
    for (const int bits : {4, 8}) {
      const bool fits = out.k_ > 0 && out.k_ < kMaxColumns && ceil_div(out.k_, 32 / bits) == out.values_->shape[1];
      if (fits && (out.bits_ == 0 || bits == config_.bits)) out.bits_ = bits;
    }
    if (out.bits_ == 0 || out.n_ != out.values_->shape[0]) {
      wrong(".weight_packed", *out.values_,
            fmt::format("I32 [{0}, {1}] of 4 bits or [{0}, {2}] of 8 for .weight_shape [{0}, {3}]", out.n_,
                        ceil_div(out.k_, 8), ceil_div(out.k_, 4), out.k_));
    }
  }

  // Scales [N, groups], [N, 1], [N] or [1]: the checkpoint determines the number of groups.
  void scales_by_row(QuantizedMatrix& out) const {
    const TensorView& tensor = need(".weight_scale");
    const std::vector<std::int64_t>& shape = tensor.shape;
    const bool single = shape == std::vector<std::int64_t>{1} || shape.empty();
    const bool rows = !single && shape.size() <= 2 && shape[0] == out.n_;
    const std::int64_t groups = rows && shape.size() == 2 ? shape[1] : 1;
    const bool divides = groups > 0 && out.k_ % groups == 0;
    const std::int64_t group = divides ? out.k_ / groups : 0;
    if (!is_float(tensor) || (!single && !rows) || !divides || (groups > 1 && group != 32 && group % 64 != 0)) {
      wrong(".weight_scale", tensor,
            fmt::format("F16, BF16 or F32 [{}, groups] for {} columns in groups of 32, a multiple of 64, or all",
                        out.n_, out.k_));
    }
    out.scales_ = &tensor;
    out.group_size_ = group;
    out.scale_row_stride_ = single ? 0 : groups;
    out.scale_group_stride_ = 1;
  }

  void zeros_by_row(QuantizedMatrix& out) const {
    const TensorView* tensor = optional(".weight_zero_point");
    if (tensor == nullptr) return;
    const std::int64_t groups = out.groups();
    const std::vector<std::int64_t> by_row = {out.n_, groups}, packed = {ceil_div(out.n_, 32 / out.bits_), groups};
    const bool bytes = tensor->dtype == Dtype::kI8 &&
                       (tensor->shape == by_row || (groups == 1 && tensor->shape == std::vector<std::int64_t>{out.n_}));
    if (!bytes && !(tensor->dtype == Dtype::kI32 && tensor->shape == packed)) {
      wrong(".weight_zero_point", *tensor,
            fmt::format("I32 [{}, {}] or I8 [{}, {}]", packed[0], groups, out.n_, groups));
    }
    out.zeros_ = tensor;
    out.zero_packing_ = bytes ? Packing::kSignedBytes : Packing::kColumns;
  }

  const TensorMap& tensors_;
  const QuantizationConfig& config_;
  const std::string stem_;
  const std::string& where_;
};

std::optional<QuantizedMatrix> QuantizedMatrix::find(const TensorMap& tensors, const QuantizationConfig& config,
                                                     std::string_view name, const std::string& where) {
  constexpr std::string_view kSuffix = ".weight";
  if (!name.ends_with(kSuffix)) return std::nullopt;
  return Finder(tensors, config, std::string(name.substr(0, name.size() - kSuffix.size())), where).find();
}

std::uint8_t QuantizedMatrix::in_word(const TensorView& tensor, std::int64_t word, std::int64_t index) const {
  const auto shift = static_cast<int>(index) * bits_;
  return static_cast<std::uint8_t>(element<std::uint32_t>(tensor, word) >> shift & ((1u << bits_) - 1));
}

// Reads word by word, each row of the tensor from left to right, so that the file is read in order.
void QuantizedMatrix::read_values(std::int64_t n0, std::int64_t n1, std::uint8_t* values) const {
  const std::int64_t per_word = 32 / bits_;
  if (type_ == QuantizedType::kE4m3) {
    std::memcpy(values, values_->bytes.data() + n0 * k_, static_cast<std::size_t>((n1 - n0) * k_));
    return;
  }
  if (type_ == QuantizedType::kE2m1) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(values_->bytes.data()) + n0 * (k_ / 2);
    for (std::int64_t i = 0; i < (n1 - n0) * (k_ / 2); ++i) {
      values[2 * i] = bytes[i] & 15;
      values[2 * i + 1] = bytes[i] >> 4;
    }
    return;
  }
  const auto put = [&](std::int64_t n, std::int64_t k, std::uint8_t value) {
    const std::int64_t j = positions_.empty() ? k : positions_[static_cast<std::size_t>(k)];
    values[(n - n0) * k_ + j] = value;
  };
  if (packing_ == Packing::kSignedBytes) {
    for (std::int64_t n = n0; n < n1; ++n) {
      for (std::int64_t k = 0; k < k_; ++k) {
        put(n, k, static_cast<std::uint8_t>(element<std::uint8_t>(*values_, n * k_ + k) ^ 0x80u));
      }
    }
  } else if (packing_ == Packing::kInterleaved) {
    for (std::int64_t k = 0; k < k_; ++k) {
      for (std::int64_t n = n0; n < n1; ++n) put(n, k, in_word(*values_, k * (n_ / 8) + n / 8, kInterleave[n % 8]));
    }
  } else if (values_by_row_) {
    const std::int64_t row_words = ceil_div(k_, per_word);
    for (std::int64_t n = n0; n < n1; ++n) {
      for (std::int64_t k = 0; k < k_; ++k) put(n, k, in_word(*values_, n * row_words + k / per_word, k % per_word));
    }
  } else {
    for (std::int64_t word = 0; word < k_ / per_word; ++word) {
      for (std::int64_t n = n0; n < n1; ++n) {
        for (std::int64_t i = 0; i < per_word; ++i) put(n, word * per_word + i, in_word(*values_, word * n_ + n, i));
      }
    }
  }
}

std::uint8_t QuantizedMatrix::zero(std::int64_t n, std::int64_t g) const {
  const std::int64_t per_word = 32 / bits_;
  switch (zero_packing_) {
    case Packing::kConstant:
      return static_cast<std::uint8_t>(1u << (bits_ - 1));
    case Packing::kSignedBytes:  // masked, because a byte can hold more than 4 bits, but kernels expect 4
      return static_cast<std::uint8_t>((element<std::uint8_t>(*zeros_, n * groups() + g) + (1u << (bits_ - 1))) &
                                       ((1u << bits_) - 1));
    case Packing::kInterleaved:
      return in_word(*zeros_, g * (n_ / 8) + n / 8, kInterleave[n % 8]);
    case Packing::kColumns:
      break;
  }
  const std::int64_t word = zeros_by_group_ ? g * ceil_div(n_, per_word) + n / per_word : n / per_word * groups() + g;
  const unsigned stored = in_word(*zeros_, word, n % per_word);
  // Wraps around, as QuantLinear does: the largest stored value means zero point 0.
  return static_cast<std::uint8_t>((stored + (zeros_minus_one_ ? 1u : 0u)) & ((1u << bits_) - 1));
}

float QuantizedMatrix::scale(std::int64_t n, std::int64_t g) const {
  if (type_ == QuantizedType::kE2m1) {
    const std::uint32_t exponent = element<std::uint8_t>(*scales_, n * scale_row_stride_ + g);
    return std::bit_cast<float>(exponent == 0 ? 1u << 22 : exponent << 23);  // 2^-127 is a denormal
  }
  return float_element(*scales_, n / scale_rows_ * scale_row_stride_ + g * scale_group_stride_);
}

// A row is a sequence of blocks, each with the factors of its groups.
void QuantizedMatrix::read_gguf(std::int64_t n0, std::int64_t n1, std::uint8_t* values, float* scales) const {
  const GgufStorage& storage = *values_->gguf;
  const std::size_t row_bytes = values_->bytes.size() / static_cast<std::size_t>(n_);
  const std::size_t row_factors = gguf_->factors(static_cast<std::size_t>(k_));
  for (std::int64_t n = n0; n < n1; ++n, values += k_, scales += row_factors) {
    const auto row = static_cast<std::size_t>(storage.stored_row(n, n_));
    read_gguf_integers(storage.type, values_->bytes.subspan(row * row_bytes, row_bytes), values, scales);
  }
}

void QuantizedMatrix::read(std::int64_t n0, std::int64_t n1, std::uint8_t* values, float* scales,
                           std::uint8_t* zeros) const {
  if (gguf_) {
    read_gguf(n0, n1, values, scales);
    return;
  }
  read_values(n0, n1, values);
  for (std::int64_t n = n0; n < n1; ++n) {
    for (std::int64_t g = 0; g < groups(); ++g) {
      *scales++ = scale(n, g);
      if (type_ == QuantizedType::kInteger) *zeros++ = zero(n, g);
    }
  }
}

}  // namespace mortise
