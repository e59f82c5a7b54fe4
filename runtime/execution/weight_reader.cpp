#include "execution/weight_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <string_view>
#include <utility>

namespace mortise {
namespace {

std::int32_t abi_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return MORTISE_BF16;
    case Dtype::kF16:
      return MORTISE_F16;
    case Dtype::kF32:
      return MORTISE_F32;
    case Dtype::kI8:
      return MORTISE_I8;
    case Dtype::kU8:
      return MORTISE_U8;
    case Dtype::kI32:
      return MORTISE_I32;
    case Dtype::kI64:
      return MORTISE_I64;
    case Dtype::kF8E4M3:
      return MORTISE_F8_E4M3;
    default:
      return 0;
  }
}

std::int32_t abi_type(QuantizedType type) {
  switch (type) {
    case QuantizedType::kE4m3:
      return MORTISE_F8_E4M3;
    case QuantizedType::kE2m1:
      return MORTISE_F4_E2M1;
    case QuantizedType::kBlock32:
      return MORTISE_I8_BLOCK32;
    case QuantizedType::kInteger:
      break;
  }
  return 0;
}

void read_quantized_rows(void* context, std::int64_t n0, std::int64_t n1, std::uint8_t* values, float* scales,
                         std::uint8_t* zeros) {
  static_cast<const QuantizedMatrix*>(context)->read(n0, n1, values, scales, zeros);
}

// The numbers of elements of a tensor of floats; of a GGUF file, of the floats that its blocks become.
std::uint64_t num_floats(const TensorView& view) {
  if (view.gguf) {
    const GgufTypeInfo& info = info_of(view.gguf->type);
    return view.bytes.size() / info.block_bytes * info.block_elements;
  }
  const bool is_float = view.dtype == Dtype::kBf16 || view.dtype == Dtype::kF16 || view.dtype == Dtype::kF32;
  return is_float ? view.bytes.size() / dtype_size(view.dtype) : 0;
}

// The bytes of a matrix whose blocks are kept as integers.
std::uint64_t kept_bytes(const GgufIntegers& integers, std::uint64_t count) {
  return count * static_cast<std::uint64_t>(integers.bits) / 8 + integers.factors(count) * integers.factor_bytes();
}

// Returns the bytes of a tensor once it is prepared. Integer tensors keep their size. The layers' matrices may become
// integers. Tensors with a row per token, such as the embedding, keep their type.
std::uint64_t prepared_bytes(const TensorView& view, const mortise_model_dims& dims) {
  const std::uint64_t element_bytes = dims.dtype == MORTISE_BF16 ? 2 : 4;
  const std::uint64_t count = num_floats(view);
  if (count == 0) return view.dtype == Dtype::kOther ? 0 : view.bytes.size();
  const bool layer = view.shape.size() == 2 && view.shape[0] != dims.vocab_size;
  if (dims.weight_bits == 0 || !layer) return count * element_bytes;
  const auto bits = static_cast<std::uint64_t>(dims.weight_bits);
  auto group = static_cast<std::uint64_t>(dims.weight_group_size);
  // An exponent; a scale and, with 4 bits, a minimum in f16; a scale and a zero point.
  const std::uint64_t group_bytes = dims.weight_type == MORTISE_F4_E2M1      ? 1
                                    : dims.weight_type == MORTISE_I8_BLOCK32 ? (dims.weight_bits == 4 ? 4 : 2)
                                                                             : 5;
  const auto rows = static_cast<std::uint64_t>(view.shape[0]), columns = static_cast<std::uint64_t>(view.shape[1]);
  if (group == 0) group = columns;
  return count * bits / 8 + rows * ((columns + group - 1) / group) * group_bytes;
}

// The same for a tensor of a GGUF file. An embedding becomes floats; one that is the head, too, is also kept.
std::uint64_t prepared_bytes(const std::string& name, const TensorView& view, const mortise_model_dims& dims,
                             bool has_head) {
  const std::uint64_t count = num_floats(view), floats = count * (dims.dtype == MORTISE_BF16 ? 2 : 4);
  const auto integers = dims.weight_bits != 0 && view.shape.size() == 2 ? kept_integers(view.gguf->type) : std::nullopt;
  if (!integers) return floats;
  const bool embedding = Checkpoint::is_embedding(name), also_head = view.shape[0] == dims.vocab_size && !has_head;
  return (embedding ? floats : 0) + (!embedding || also_head ? kept_bytes(*integers, count) : 0);
}

}  // namespace

// Gives a dense view; of a tensor that a GGUF file has transposed, one with its strides exchanged. NOT_FOUND: unknown
// name; DATA_LOSS: the ABI has no type for the tensor; RESOURCE_EXHAUSTED: there is no memory for its floats.
mortise_status WeightReader::get(void* context, mortise_string_view name, mortise_tensor* tensor) {
  auto& reader = *static_cast<WeightReader*>(context);
  const std::string wanted(name.data, static_cast<std::size_t>(name.size));
  const TensorView* view = reader.checkpoint_.find(wanted);
  if (view == nullptr) return MORTISE_NOT_FOUND;
  bool transposed = false;
  if (view->gguf) {
    try {
      const GgufFloats& floats = reader.floats_of(wanted, *view);
      view = &floats.view;
      transposed = floats.transposed;
    } catch (const std::bad_alloc&) {
      return MORTISE_RESOURCE_EXHAUSTED;
    }
  }
  mortise_tensor result{};
  result.struct_size = sizeof result;
  result.flags = MORTISE_TENSOR_READ_ONLY;
  result.dtype = abi_dtype(view->dtype);
  if (result.dtype == 0 || view->shape.empty() || view->shape.size() > 4) return MORTISE_DATA_LOSS;
  result.data = const_cast<std::byte*>(view->bytes.data());
  result.bytes = view->bytes.size();
  result.ndim = static_cast<std::int32_t>(view->shape.size());
  std::int64_t stride = 1;
  for (int i = 3; i >= 0; --i) {
    result.shape[i] = i < result.ndim ? static_cast<std::int64_t>(view->shape[static_cast<std::size_t>(i)]) : 1;
    result.stride[i] = i < result.ndim ? stride : 1;
    if (i < result.ndim) stride *= result.shape[i];
  }
  if (transposed && result.ndim == 2) {
    result.stride[0] = 1;
    result.stride[1] = result.shape[0];
  }
  *tensor = result;
  return MORTISE_OK;
}

mortise_status WeightReader::get_quantized(void* context, mortise_string_view name, mortise_quantized_matrix* matrix,
                                           mortise_error* error) {
  auto& reader = *static_cast<WeightReader*>(context);
  try {
    auto found = reader.checkpoint_.find_quantized({name.data, static_cast<std::size_t>(name.size)});
    if (!found) return MORTISE_NOT_FOUND;
    const QuantizedMatrix& kept = reader.keep(std::move(*found));
    mortise_quantized_matrix result{};
    result.struct_size = sizeof result;
    result.n = kept.rows();
    result.k = kept.columns();
    result.bits = kept.bits();
    result.group_size = static_cast<std::int32_t>(kept.group_size());
    result.value_type = abi_type(kept.type());
    if (const auto& block32 = kept.block32()) {
      if (block32->has_minima) result.flags |= MORTISE_QUANTIZED_MINIMA;
      if (block32->half_factors) result.flags |= MORTISE_QUANTIZED_F16_SCALES;
      result.zero = block32->zero;
    }
    result.order = kept.order().empty() ? nullptr : kept.order().data();
    result.context = const_cast<QuantizedMatrix*>(&kept);
    result.read = read_quantized_rows;
    // A plugin of ABI 0.5 has no value_type, and would take every value for a plain integer. GGUF files have floats,
    // too.
    if (matrix->struct_size < sizeof result && result.value_type != 0) return MORTISE_NOT_FOUND;
    result.struct_size = std::min(matrix->struct_size, result.struct_size);
    std::memcpy(matrix, &result, result.struct_size);
    return MORTISE_OK;
  } catch (const std::exception& e) {
    error->code = MORTISE_DATA_LOSS;
    fmt::format_to_n(error->message, sizeof error->message - 1, "{}", e.what()).out[0] = '\0';
    return MORTISE_DATA_LOSS;
  }
}

const QuantizedMatrix& WeightReader::keep(QuantizedMatrix matrix) {
  const std::lock_guard lock(mutex_);
  return quantized_.emplace_back(std::move(matrix));
}

// Holds the lock while it converts: a model loads its tensors one after the other, and must not convert one twice.
const GgufFloats& WeightReader::floats_of(const std::string& name, const TensorView& view) {
  const std::lock_guard lock(mutex_);
  const auto found = floats_.find(name);
  if (found != floats_.end()) return found->second;
  const Dtype type = dtype_ == MORTISE_BF16 ? Dtype::kBf16 : Dtype::kF32;
  return floats_.emplace(name, gguf_floats(view, type)).first->second;
}

std::string WeightReader::widened() const {
  const std::lock_guard lock(mutex_);
  std::set<std::string_view> types;
  std::uint64_t in_file = 0, in_memory = 0;
  for (const auto& [name, floats] : floats_) {
    const TensorView& view = *checkpoint_.find(name);
    if (view.dtype != Dtype::kOther) continue;
    types.insert(info_of(view.gguf->type).name);
    in_file += view.bytes.size();
    in_memory += floats.view.bytes.size();
  }
  if (types.empty()) return {};
  constexpr double kMebibyte = 1 << 20;
  return fmt::format("weights of {} are computed as {}: {:.1f} MiB in memory, {:.1f} MiB in the file",
                     fmt::join(types, ", "), dtype_ == MORTISE_BF16 ? "bf16" : "f32",
                     static_cast<double>(in_memory) / kMebibyte, static_cast<double>(in_file) / kMebibyte);
}

mortise_weight_reader WeightReader::abi() {
  mortise_weight_reader reader{};
  reader.struct_size = sizeof reader;
  reader.context = this;
  reader.get = get;
  reader.get_quantized = get_quantized;
  return reader;
}

std::uint64_t prepared_bytes(const Checkpoint& checkpoint, const mortise_model_dims& dims) {
  std::uint64_t bytes = 0;
  const bool has_head = checkpoint.find("lm_head.weight") != nullptr;
  for (const auto& [name, view] : checkpoint.tensors()) {
    // Without integers in its layers, a GGUF file may become integers like any other checkpoint.
    const bool keeps_blocks = view.gguf && checkpoint.config().quantization;
    bytes += keeps_blocks ? prepared_bytes(name, view, dims, has_head) : prepared_bytes(view, dims);
  }
  return bytes;
}

}  // namespace mortise
