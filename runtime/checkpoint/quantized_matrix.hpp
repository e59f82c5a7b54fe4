// runtime/checkpoint/quantized_matrix.hpp: reads a matrix of a quantised checkpoint in any of the supported formats, as
// rows of values, scales and zero points:
//   w[n, order[j]] = scale[n, g] * (value[n, j] - zero[n, g]),  g = j / group_size
//   w[n, j]        = scale[n, g] * value[n, j]                  for E4M3 and E2M1, which have no zero points and no
//   order
//   w[n, j]        = scale[n, g] * (value[n, j] - zero) + minimum[n, g]   for kBlock32, which has no order
// The tensors of "P.weight" with their shapes, by format. A word of 32 bits holds W = 32 / bits values, lowest bits
// first:
//   gptq        P.qweight i32 [K/W, N], word = W neighbouring k; P.qzeros i32 [groups, N/W], word = W neighbouring n;
//               P.scales [groups, N]; P.g_idx i32 [K], the group of each k (act-order), may be absent
//   awq         P.qweight i32 [K, N/8], P.qzeros i32 [groups, N/8]: a word holds n = 0 2 4 6 1 3 5 7 of its eight;
//               P.scales [groups, N]
//   compressed-tensors, packed   P.weight_packed i32 [N, ceil(K/W)], word = W neighbouring k; P.weight_shape [2];
//               P.weight_scale [N, groups], [N, 1] or [1]; P.weight_zero_point, if any, i32 [ceil(N/W), groups], word =
//               W neighbouring n, or i8 [N, groups]; P.weight_g_idx i32 [K], may be absent. Values are signed +
//               2^(bits-1).
//   compressed-tensors, int8     P.weight i8 [N, K], the rest as above, zero points i8
//   fp8 and compressed-tensors, float   P.weight E4M3 [N, K]; P.weight_scale_inv or, if there is none, P.weight_scale,
//   a
//               factor in spite of the name: [1] or no dimension (tensor), [N] or [N, 1] (channel), or [ceil(N/128),
//               ceil(K/128)] (block)
//   compressed-tensors, MXFP4   P.weight_packed u8 [N, K/2], a byte = two neighbouring k in E2M1, lowest bits first;
//               P.weight_scale u8 [N, K/32], E8M0: 2^(byte - 127), 255: NaN
//   gguf        P.weight, blocks of a type that kept_integers() knows (gguf/types.hpp), as kBlock32
// Checked against excerpts of public code: packing and unpacking in QuantLinear (gptq; its zero points wrap around),
// pack_awq and unpack_awq, compressed-tensors' PackedQuantizationCompressor and MXFP4PackedCompressor, and vLLM's
// CompressedTensorsW4A16Mxfp4. Not checked against vLLM's other loaders, nor against a released checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/quantization.hpp"
#include "checkpoint/safetensors.hpp"

namespace mortise {

// A view of the tensors of one matrix. Invariant: their shapes and types fit together. Immutable and thread-safe.
class QuantizedMatrix {
 public:
  // The matrix that replaces tensor `name`; nullopt if the checkpoint has none. Throws an Error, with `where` and the
  // tensor's name, if its tensors are missing, or have a wrong shape or type. Refers to `tensors`, which must outlive
  // it.
  static std::optional<QuantizedMatrix> find(const TensorMap& tensors, const QuantizationConfig& config,
                                             std::string_view name, const std::string& where);

  std::int64_t rows() const { return n_; }
  std::int64_t columns() const { return k_; }
  int bits() const { return bits_; }
  QuantizedType type() const { return type_; }                       // values of E4M3 and E2M1 are the numbers' bits
  std::int64_t group_size() const { return group_size_; }            // columns() if a row is one group
  const std::vector<std::int32_t>& order() const { return order_; }  // empty: 0, 1, 2, ..

  // Set for kBlock32 only: its zero point, whether groups have minima, and whether f16 has all scales and minima.
  const std::optional<GgufIntegers>& block32() const { return gguf_; }

  // Reads rows [n0, n1): values [n1 - n0, K], scales and zeros [n1 - n0, groups]. E4M3, E2M1 and kBlock32 leave zeros
  // as they are. With minima, scales [n1 - n0, groups, 2] are pairs of a scale and a minimum. Thread-safe.
  void read(std::int64_t n0, std::int64_t n1, std::uint8_t* values, float* scales, std::uint8_t* zeros) const;

 private:
  // How values or zero points are packed in a tensor.
  enum class Packing : std::uint8_t {
    kColumns,      // gptq, compressed-tensors: W neighbours
    kInterleaved,  // awq: 0 2 4 6 1 3 5 7
    kSignedBytes,  // a byte each, no words
    kConstant      // zero points only: 2^(bits - 1)
  };
  class Finder;

  std::int64_t groups() const { return (k_ + group_size_ - 1) / group_size_; }
  void read_values(std::int64_t n0, std::int64_t n1, std::uint8_t* values) const;
  void read_gguf(std::int64_t n0, std::int64_t n1, std::uint8_t* values, float* scales) const;
  std::uint8_t zero(std::int64_t n, std::int64_t g) const;
  float scale(std::int64_t n, std::int64_t g) const;
  std::uint8_t in_word(const TensorView& tensor, std::int64_t word, std::int64_t index) const;

  std::int64_t n_ = 0, k_ = 0;
  int bits_ = 0;
  QuantizedType type_ = QuantizedType::kInteger;
  std::int64_t group_size_ = 0;
  std::vector<std::int32_t> order_;      // column j of the values is column order_[j] of the matrix
  std::vector<std::int32_t> positions_;  // the inverse of order_

  const TensorView* values_ = nullptr;
  std::optional<GgufIntegers> gguf_;  // set: values_ has blocks, and none of the members below is used
  bool values_by_row_ = false;        // [N, K..]; otherwise [K.., N..]
  bool words_along_k_ = false;
  Packing packing_ = Packing::kColumns;
  const TensorView* scales_ = nullptr;
  std::int64_t scale_row_stride_ = 0, scale_group_stride_ = 0;
  std::int64_t scale_rows_ = 1;  // rows that share their scales
  const TensorView* zeros_ = nullptr;
  Packing zero_packing_ = Packing::kConstant;
  bool zeros_by_group_ = false;  // [groups, N/W]; otherwise [N/W, groups]
  bool zeros_minus_one_ = false;
};

}  // namespace mortise
