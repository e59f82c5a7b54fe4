#include "devices/cuda/int_weights.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "devices/checks/quantized.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/temporary.hpp"
#include "devices/cuda/weight_memory.hpp"
#include "kernels/cuda/fp8_pack.hpp"
#include "kernels/cuda/int_pack.hpp"
#include "kernels/cuda/mxfp4_pack.hpp"

namespace mortise::cuda {
namespace {

constexpr const char* kWhere = kPrepareWeight;
constexpr std::int64_t kMaxThreads = 8;       // threads that unpack a checkpoint's rows; with more, memory is the limit
constexpr std::int64_t kRowsOfThread = 64;    // so checkpoints that pack eight rows in a word are read in cache lines
constexpr std::uint8_t kSymmetricZero = 128;  // zero point of symmetric 8-bit weights
static_assert(kMaxIntGroup == kMaxQuantizedGroup);
static_assert(kFp8Chunk == kFp8Group);
static_assert(kMxfp4Columns == kMxfp4Group);

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// A whole weight in plain form (int_pack.hpp, fp8_pack.hpp, mxfp4_pack.hpp) in device memory, until it is packed.
// Invariant: memory_ has room for values, scales and zero points, each at a multiple of 256 bytes.
class Plain {
 public:
  Plain(std::int64_t n, std::int64_t k, std::int64_t groups)
      : scales_at_(round_up(static_cast<std::uint64_t>(n * k))),
        zeros_at_(scales_at_ + round_up(static_cast<std::uint64_t>(n * groups) * sizeof(float))),
        memory_(weight_memory(zeros_at_ + round_up(static_cast<std::uint64_t>(n * groups)))) {}

  PlainIntWeight view() const {
    auto* const memory = static_cast<std::byte*>(memory_.get());
    return {reinterpret_cast<std::uint8_t*>(memory), reinterpret_cast<float*>(memory + scales_at_),
            reinterpret_cast<std::uint8_t*>(memory + zeros_at_)};
  }
  PlainFp8Weight fp8_view() const { return {view().values, view().scales}; }
  PlainMxfp4Weight mxfp4_view() const { return {view().values, view().scales}; }

 private:
  std::uint64_t scales_at_, zeros_at_;
  Temporary memory_;
};

// Returns the number of rows that fit into a buffer of the uploader.
std::int64_t rows_at_once(std::int64_t row_bytes) {
  const auto rows = static_cast<std::int64_t>(Uploader::kStageBytes) / row_bytes;
  if (rows > 0) return rows;
  invalid(kWhere, "rows of " + std::to_string(row_bytes) + " bytes; up to " + std::to_string(Uploader::kStageBytes) +
                      " are served");
}

// Copies rows [begin, end) of a part without gaps.
void copy_rows(const SourceTensor& tensor, std::int64_t begin, std::int64_t end, std::byte* out) {
  const std::size_t bytes = tensor.element_bytes(), row_bytes = static_cast<std::size_t>(tensor.columns) * bytes;
  for (std::int64_t row = begin; row < end; ++row, out += row_bytes) {
    if (tensor.column_stride == 1) {
      std::memcpy(out, tensor.at(row, 0), row_bytes);
      continue;
    }
    for (std::int64_t i = 0; i < tensor.columns; ++i) {
      std::memcpy(out + static_cast<std::size_t>(i) * bytes, tensor.at(row, i), bytes);
    }
  }
}

FloatType float_type(int32_t dtype) {
  return dtype == MORTISE_BF16 ? FloatType::kBf16 : dtype == MORTISE_F16 ? FloatType::kF16 : FloatType::kF32;
}

// Uploads floats unchanged through one buffer of device memory and quantises them there, by calls of quantize(rows,
// type, number of rows, first row of the weight). Copies and kernels are on one stream, so a copy cannot overwrite rows
// that a kernel still reads.
template <class Quantize>
void quantize_tensors(const std::vector<SourceTensor>& tensors, Uploader& uploader, const Quantize& quantize) {
  const Temporary floats = weight_memory(Uploader::kStageBytes);
  for (const SourceTensor& tensor : tensors) {
    const std::int64_t row_bytes = tensor.columns * dtype_bytes(tensor.dtype), most = rows_at_once(row_bytes);
    for (std::int64_t begin = 0; begin < tensor.rows; begin += most) {
      const std::int64_t end = std::min(tensor.rows, begin + most);
      copy_rows(tensor, begin, end, uploader.begin());
      uploader.send(static_cast<std::byte*>(floats.get()), static_cast<std::size_t>((end - begin) * row_bytes));
      check_cuda(quantize(floats.get(), float_type(tensor.dtype), end - begin, tensor.first_row + begin), kWhere);
    }
  }
  uploader.wait();
}

// The offsets of values, scales and zero points in a buffer.
struct Staged {
  std::uint8_t* values;
  float* scales;
  std::uint8_t* zeros;
};

// Reads rows of a part, which begins at row `first` of the weight, with several threads. Refuses E4M3 values that are
// NaN, and scales that MXFP4 does not have.
void read_rows(const mortise_quantized_matrix& part, std::int64_t first, std::int64_t begin, std::int64_t end,
               std::int64_t groups, const Staged& to) {
  const std::int64_t count = end - begin;
  const std::int64_t threads = std::clamp<std::int64_t>(
      std::min<std::int64_t>(static_cast<std::int64_t>(std::thread::hardware_concurrency()), count / kRowsOfThread), 1,
      kMaxThreads);
  const std::int64_t each = ((count + threads - 1) / threads + kRowsOfThread - 1) / kRowsOfThread * kRowsOfThread;
  const auto read = [&](std::int64_t from) {
    const std::int64_t until = std::min(count, from + each);
    part.read(part.context, begin + from, begin + until, to.values + from * part.k, to.scales + from * groups,
              to.zeros + from * groups);
    if (part.value_type == MORTISE_F8_E4M3) {
      refuse_fp8_nan(to.values + from * part.k, until - from, part.k, first + begin + from);
    }
    if (part.value_type == MORTISE_F4_E2M1) {
      refuse_mxfp4_scales(to.scales + from * groups, until - from, groups, first + begin + from);
    }
  };
  std::vector<std::exception_ptr> faults(static_cast<std::size_t>((count + each - 1) / each));
  {
    std::vector<std::jthread> others;
    for (std::int64_t from = 0; from < count; from += each) {
      const auto caught = [&read, &fault = faults[static_cast<std::size_t>(from / each)], from] {
        try {
          read(from);
        } catch (...) {
          fault = std::current_exception();
        }
      };
      from + each < count ? static_cast<void>(others.emplace_back(caught)) : caught();
    }
  }
  for (const std::exception_ptr& fault : faults) {
    if (fault) std::rethrow_exception(fault);
  }
}

// Uploads a checkpoint's integers in plain form. Returns whether all zero points are the symmetric one.
bool upload_quantized(const std::vector<mortise_quantized_matrix>& parts, std::int64_t groups, const PlainIntWeight& to,
                      Uploader& uploader) {
  bool symmetric = true;
  std::int64_t first = 0;
  for (const mortise_quantized_matrix& part : parts) {
    const std::int64_t k = part.k, most = rows_at_once(k + 5 * groups + 8);  // 8: scales at a multiple of their size
    for (std::int64_t begin = 0; begin < part.n; begin += most) {
      const std::int64_t end = std::min(part.n, begin + most), count = end - begin;
      auto* const scales = reinterpret_cast<float*>(uploader.begin());
      auto* const zeros = reinterpret_cast<std::uint8_t*>(scales + count * groups);
      const Staged staged = {zeros + count * groups, scales, zeros};
      read_rows(part, first, begin, end, groups, staged);
      symmetric = symmetric && part.value_type == 0 &&
                  std::all_of(zeros, zeros + count * groups, [](std::uint8_t zero) { return zero == kSymmetricZero; });
      const std::int64_t row = first + begin;
      uploader.send_pieces(
          {{reinterpret_cast<std::byte*>(to.scales + row * groups), scales,
            static_cast<std::size_t>(count * groups) * sizeof(float)},
           {reinterpret_cast<std::byte*>(to.zeros + row * groups), zeros, static_cast<std::size_t>(count * groups)},
           {reinterpret_cast<std::byte*>(to.values + row * k), staged.values, static_cast<std::size_t>(count * k)}});
    }
    first += part.n;
  }
  uploader.wait();
  return symmetric;
}

// Makes weight.data from E4M3 values, or from floats that it quantises to E4M3.
void prepare_fp8(mortise_device& device, const QuantizedSource& read, mortise_weight& weight, cudaStream_t stream) {
  const Fp8Format format = weight.fp8_format();
  const Fp8Layout layout(format);
  Temporary memory = weight_memory(static_cast<std::uint64_t>(layout.bytes));
  weight.data = memory.get();
  const Plain plain(weight.n, weight.k, layout.groups);
  if (read.floats.empty()) {
    upload_quantized(read.matrices, layout.groups, plain.view(), *device.uploader);
  } else {
    quantize_tensors(read.floats, *device.uploader,
                     [&](const void* rows, FloatType type, std::int64_t count, std::int64_t first) {
                       return launch_quantize_fp8(rows, type, count, first, weight.k, plain.fp8_view(), stream);
                     });
  }
  check_cuda(launch_pack_fp8(plain.fp8_view(), format, static_cast<std::byte*>(weight.data), stream), kWhere);
  check_cuda(cudaStreamSynchronize(stream), kWhere);
  memory.release();
}

// What kernels find out about an MXFP4 weight while it is prepared, in device memory.
struct Mxfp4Findings {
  unsigned long long first_odd = ~0ull;  // row
  unsigned largest = 0;                  // biased exponent, if it is above kMxfp4SmallExponent
};

// The same for MXFP4.
void prepare_mxfp4(mortise_device& device, const QuantizedSource& read, mortise_weight& weight, cudaStream_t stream) {
  const Mxfp4Layout layout(weight.n, weight.k);
  Temporary memory = weight_memory(static_cast<std::uint64_t>(layout.bytes));
  weight.data = memory.get();
  const Plain plain(weight.n, weight.k, layout.groups);
  constexpr Mxfp4Findings kNothing;
  Mxfp4Findings found = kNothing;
  const Temporary place_of_findings = weight_memory(sizeof found);
  auto* const findings = static_cast<Mxfp4Findings*>(place_of_findings.get());
  check_cuda(cudaMemcpyAsync(findings, &found, sizeof found, cudaMemcpyHostToDevice, stream), kWhere);
  if (read.floats.empty()) {
    upload_quantized(read.matrices, layout.groups, plain.view(), *device.uploader);
  } else {
    quantize_tensors(read.floats, *device.uploader,
                     [&](const void* rows, FloatType type, std::int64_t count, std::int64_t first) {
                       return launch_quantize_mxfp4(rows, type, count, first, weight.k, plain.mxfp4_view(),
                                                    &findings->first_odd, stream);
                     });
  }
  check_cuda(launch_pack_mxfp4(plain.mxfp4_view(), weight.n, weight.k, static_cast<std::byte*>(weight.data),
                               &findings->largest, stream),
             kWhere);
  check_cuda(cudaMemcpyAsync(&found, findings, sizeof found, cudaMemcpyDeviceToHost, stream), kWhere);
  check_cuda(cudaStreamSynchronize(stream), kWhere);
  if (found.first_odd != kNothing.first_odd) refuse_mxfp4_row(static_cast<std::int64_t>(found.first_odd));
  weight.small_scales = found.largest == 0;
  memory.release();
}

}  // namespace

std::unique_ptr<mortise_weight> prepare_int_weight(mortise_device& device, const mortise_weight_source& source) {
  const QuantizedSource read = read_quantized_source(source);
  const int32_t* const order = read.order;
  if (source.dtype != MORTISE_BF16) {
    throw Failure(MORTISE_UNIMPLEMENTED, kWhere,
                  "the device cuda multiplies rows in bf16 only; set dtype = \"bf16\", or use the device cpu");
  }
  if (read.value_type == MORTISE_I8_BLOCK32) {
    throw Failure(MORTISE_UNIMPLEMENTED, kWhere,
                  "the device cuda has no product with activations in blocks of 32 (int8-block32, int4-block32); use "
                  "weights = \"int8\" or \"int4\", or the device cpu");
  }
  auto weight = std::make_unique<mortise_weight>();
  weight->n = read.n;
  weight->k = read.k;
  weight->use = source.use;
  weight->bits = source.bits;
  weight->group_size = read.group_size;
  weight->value_type = read.value_type;

  const cudaStream_t stream = native(&device, nullptr);
  if (device.uploader == nullptr) device.uploader = std::make_unique<Uploader>(stream);
  if (read.value_type != 0) {
    const auto prepare = read.value_type == MORTISE_F8_E4M3 ? prepare_fp8 : prepare_mxfp4;
    prepare(device, read, *weight, stream);
    return weight;
  }
  const IntFormat format = weight->format();
  const IntLayout layout(format);
  const auto order_bytes = order == nullptr ? 0 : static_cast<std::uint64_t>(weight->k) * sizeof(int32_t);
  Temporary memory = weight_memory(static_cast<std::uint64_t>(layout.bytes) + order_bytes);
  weight->data = memory.get();
  if (order != nullptr) {
    weight->order = reinterpret_cast<int32_t*>(static_cast<std::byte*>(weight->data) + layout.bytes);
    check_cuda(cudaMemcpy(weight->order, order, order_bytes, cudaMemcpyHostToDevice), kWhere);
  }
  const Plain plain(weight->n, weight->k, layout.groups);
  if (read.floats.empty()) {
    weight->symmetric =
        upload_quantized(read.matrices, layout.groups, plain.view(), *device.uploader) && weight->bits == 8;
  } else {
    quantize_tensors(read.floats, *device.uploader,
                     [&](const void* rows, FloatType type, std::int64_t count, std::int64_t first) {
                       return launch_quantize_weights(rows, type, count, first, format, plain.view(), stream);
                     });
    weight->symmetric = weight->bits == 8;
  }
  std::uint32_t unusual = 0;
  const Temporary place_of_unusual = weight_memory(sizeof unusual);
  auto* const found = static_cast<std::uint32_t*>(place_of_unusual.get());
  check_cuda(cudaMemsetAsync(found, 0, sizeof unusual, stream), kWhere);
  check_cuda(launch_pack_weights(plain.view(), format, static_cast<std::byte*>(weight->data), found, stream), kWhere);
  check_cuda(cudaMemcpyAsync(&unusual, found, sizeof unusual, cudaMemcpyDeviceToHost, stream), kWhere);
  check_cuda(cudaStreamSynchronize(stream), kWhere);
  weight->usual_scales = unusual == 0;
  memory.release();
  return weight;
}

}  // namespace mortise::cuda
