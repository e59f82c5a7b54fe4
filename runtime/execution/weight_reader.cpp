#include "execution/weight_reader.hpp"

#include <fmt/format.h>

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
    case QuantizedType::kInteger:
      break;
  }
  return 0;
}

void read_quantized_rows(void* context, std::int64_t n0, std::int64_t n1, std::uint8_t* values, float* scales,
                         std::uint8_t* zeros) {
  static_cast<const QuantizedMatrix*>(context)->read(n0, n1, values, scales, zeros);
}

// Returns the bytes of a tensor once it is prepared. Integer tensors keep their size. The layers' matrices may become
// integers. Tensors with a row per token, such as the embedding, keep their type.
std::uint64_t prepared_bytes(const TensorView& view, const mortise_model_dims& dims) {
  const std::uint64_t element_bytes = dims.dtype == MORTISE_BF16 ? 2 : 4;
  const bool is_float = view.dtype == Dtype::kBf16 || view.dtype == Dtype::kF16 || view.dtype == Dtype::kF32;
  if (view.dtype == Dtype::kOther) return 0;
  if (!is_float) return view.bytes.size();
  const std::uint64_t count = view.bytes.size() / dtype_size(view.dtype);
  const bool layer = view.shape.size() == 2 && view.shape[0] != dims.vocab_size;
  if (dims.weight_bits == 0 || !layer) return count * element_bytes;
  // A scale and a zero point, or an exponent.
  const std::uint64_t group_bytes = dims.weight_type == MORTISE_F4_E2M1 ? 1 : 5;
  const auto rows = static_cast<std::uint64_t>(view.shape[0]), columns = static_cast<std::uint64_t>(view.shape[1]);
  const auto group = dims.weight_group_size == 0 ? columns : static_cast<std::uint64_t>(dims.weight_group_size);
  return count * static_cast<std::uint64_t>(dims.weight_bits) / 8 +
         rows * ((columns + group - 1) / group) * group_bytes;
}

}  // namespace

// Gives a dense view. NOT_FOUND: unknown name; DATA_LOSS: the ABI has no type for the tensor.
mortise_status WeightReader::get(void* context, mortise_string_view name, mortise_tensor* tensor) {
  const TensorView* view =
      static_cast<const WeightReader*>(context)->checkpoint_.find({name.data, static_cast<std::size_t>(name.size)});
  if (view == nullptr) return MORTISE_NOT_FOUND;
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
    result.order = kept.order().empty() ? nullptr : kept.order().data();
    result.context = const_cast<QuantizedMatrix*>(&kept);
    result.read = read_quantized_rows;
    *matrix = result;
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
  for (const auto& [name, view] : checkpoint.tensors()) bytes += prepared_bytes(view, dims);
  return bytes;
}

}  // namespace mortise
