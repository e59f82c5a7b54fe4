// Prepares weights: several host threads convert them to bf16 and upload them through page-locked buffers
// (row_uploader.hpp).
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "devices/checks/source_tensors.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/int_weights.hpp"
#include "devices/cuda/ops.hpp"
#include "devices/cuda/temporary.hpp"
#include "devices/cuda/weight_memory.hpp"

namespace mortise::cuda {
namespace {

constexpr const char* kWhere = kPrepareWeight;

using Bf16 = std::uint16_t;

float bits_to_float(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Rounds to nearest, ties to even; NaN becomes the canonical NaN.
Bf16 narrow(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return static_cast<Bf16>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

// Converts an IEEE half, exactly.
float widen_f16(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16, exponent = h >> 10 & 0x1fu;
  const std::uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return bits_to_float(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return bits_to_float(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

void check_source(const mortise_weight_source& source) {
  constexpr int32_t kMatrixUses = MORTISE_WEIGHT_LINEAR | MORTISE_WEIGHT_EMBEDDING;
  if (source.use != MORTISE_WEIGHT_VECTOR && ((source.use & kMatrixUses) == 0 || (source.use & ~kMatrixUses) != 0)) {
    invalid(kWhere, "use is " + std::to_string(source.use) + "; expected linear, embedding, both, or vector");
  }
  if (source.dtype == MORTISE_F32) {
    throw Failure(MORTISE_UNIMPLEMENTED, kWhere,
                  "the device cuda does not support f32; set dtype = \"bf16\", or use the device cpu");
  }
  if (source.dtype != MORTISE_BF16) {
    invalid(kWhere, "dtype code " + std::to_string(source.dtype) + "; expected bf16");
  }
}

// Converts row `row` of a tensor to bf16.
void convert_row(const SourceTensor& tensor, std::int64_t row, Bf16* out) {
  if (tensor.dtype == MORTISE_BF16 && tensor.column_stride == 1) {
    std::memcpy(out, tensor.at(row, 0), static_cast<std::size_t>(tensor.columns) * sizeof(Bf16));
    return;
  }
  for (std::int64_t i = 0; i < tensor.columns; ++i) {
    const std::byte* at = tensor.at(row, i);
    if (tensor.dtype == MORTISE_F32) {
      float x;
      std::memcpy(&x, at, sizeof x);
      out[i] = narrow(x);
      continue;
    }
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    out[i] = tensor.dtype == MORTISE_BF16 ? bits : narrow(widen_f16(bits));
  }
}

// Converts rows [first, last) of a tensor, without gaps.
void convert_rows(const SourceTensor& tensor, std::int64_t first, std::int64_t last, Bf16* out) {
  if (tensor.dtype == MORTISE_BF16 && tensor.column_stride == 1 && tensor.row_stride == tensor.columns) {
    const auto bytes = static_cast<std::size_t>((last - first) * tensor.columns) * sizeof(Bf16);
    std::memcpy(out, tensor.at(first, 0), bytes);
    return;
  }
  for (std::int64_t row = first; row < last; ++row, out += tensor.columns) convert_row(tensor, row, out);
}

void upload_rows(const std::vector<SourceTensor>& tensors, std::int64_t rows, std::byte* to, RowUploader& uploader) {
  const auto row_bytes = static_cast<std::size_t>(tensors[0].columns) * sizeof(Bf16);
  if (row_bytes > RowUploader::kPieceBytes) {
    invalid(kWhere, "rows of " + std::to_string(row_bytes) + " bytes; up to " +
                        std::to_string(RowUploader::kPieceBytes) + " are served");
  }
  uploader.upload(to, rows, row_bytes, [&](std::int64_t first, std::int64_t last, std::byte* out) {
    for (const SourceTensor& tensor : tensors) {
      const std::int64_t end = std::min(last, tensor.rows);
      if (first < end) {
        convert_rows(tensor, first, end, reinterpret_cast<Bf16*>(out));
        out += static_cast<std::size_t>(end - first) * row_bytes;
      }
      first = std::max<std::int64_t>(0, first - tensor.rows);
      last -= tensor.rows;
    }
  });
}

void upload_vector(const std::vector<SourceTensor>& tensors, const mortise_weight& weight) {
  std::vector<Bf16> values;
  for (const SourceTensor& tensor : tensors) {
    for (std::int64_t row = 0; row < tensor.rows; ++row) convert_row(tensor, row, &values.emplace_back());
  }
  std::vector<float> wide;
  for (const Bf16 value : values) wide.push_back(bits_to_float(static_cast<std::uint32_t>(value) << 16));
  check_cuda(cudaMemcpy(weight.data, values.data(), values.size() * sizeof(Bf16), cudaMemcpyHostToDevice), kWhere);
  check_cuda(cudaMemcpy(weight.wide, wide.data(), wide.size() * sizeof(float), cudaMemcpyHostToDevice), kWhere);
}

}  // namespace

mortise_status prepare_weight(mortise_device* device, const mortise_weight_source* source, mortise_weight** weight,
                              mortise_error* error) {
  return guard(error, kWhere, [&] {
    device->reaper->finish();  // may free the memory that this weight needs
    const auto in = known(source);
    if (in.bits != 0) {
      *weight = prepare_int_weight(*device, in).release();
      return;
    }
    check_source(in);
    const std::vector<SourceTensor> tensors = read_source_tensors(in);
    auto prepared = std::make_unique<mortise_weight>();
    prepared->use = in.use;
    prepared->k = tensors[0].columns;
    prepared->n = tensors.back().first_row + tensors.back().rows;
    if (prepared->n > INT32_MAX || prepared->k > INT32_MAX) invalid(kWhere, "more than 2^31 - 1 rows or columns");
    const cudaStream_t stream = native(device, nullptr);
    const bool vector = in.use == MORTISE_WEIGHT_VECTOR;
    const auto count = static_cast<std::uint64_t>(prepared->n) * static_cast<std::uint64_t>(prepared->k);
    const std::uint64_t narrow_bytes = (count * sizeof(Bf16) + 255) / 256 * 256;
    Temporary memory = weight_memory(vector ? narrow_bytes + count * sizeof(float) : narrow_bytes);
    prepared->data = memory.get();
    if (vector) {
      prepared->wide = reinterpret_cast<float*>(static_cast<std::byte*>(memory.get()) + narrow_bytes);
      upload_vector(tensors, *prepared);
    } else {
      if (device->row_uploader == nullptr) device->row_uploader = std::make_unique<RowUploader>(stream);
      upload_rows(tensors, prepared->n, static_cast<std::byte*>(memory.get()), *device->row_uploader);
    }
    memory.release();
    *weight = prepared.release();
  });
}

void free_weight(mortise_device* device, mortise_weight* weight) {
  if (weight == nullptr) return;
  device->reaper->free(weight->data);
  delete weight;
}

const void* vector_weight(mortise_device*, const mortise_weight* weight, int64_t* n, int32_t* dtype) {
  if (weight == nullptr || weight->use != MORTISE_WEIGHT_VECTOR) return nullptr;
  *n = weight->n;
  *dtype = MORTISE_BF16;
  return weight->data;
}

}  // namespace mortise::cuda
