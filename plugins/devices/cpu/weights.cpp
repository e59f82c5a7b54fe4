// Prepares weights in the form that the kernels read: matrices for linear in the packed order of linear/pack.hpp (a
// tied embedding is read from the same memory), other embeddings row-major, vectors as f32. Quantised weights:
// int_weights.cpp.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/int_weights.hpp"
#include "devices/cpu/ops.hpp"
#include "devices/cpu/source_rows.hpp"
#include "kernels/cpu/linear/pack.hpp"

namespace mortise::cpu {
namespace {

// --- the packed order ---

template <typename T>
using Panel = void (*)(const T* const (&rows)[kPanelColumns], std::size_t k, void* panel);

template <typename T>
void pack_panel(Panel<T> pack, const void* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  const T* typed[kPanelColumns];
  for (std::size_t i = 0; i < kPanelColumns; ++i) typed[i] = static_cast<const T*>(rows[i]);
  pack(typed, k, panel);
}

// Packs a panel of `dtype` from rows of type `from`.
// REQUIRES: packs_from() accepts them.
void pack_panel(int32_t dtype, int32_t from, const void* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  if (dtype == MORTISE_BF16) return pack_panel<Bf16>(pack_panel_bf16, rows, k, panel);
  if (from == MORTISE_BF16) return pack_panel<Bf16>(pack_panel_f32_from_bf16, rows, k, panel);
  if (from == MORTISE_F16) return pack_panel<F16>(pack_panel_f32_from_f16, rows, k, panel);
  return pack_panel<float>(pack_panel_f32, rows, k, panel);
}

// Returns whether the kernel can pack the rows in place, without a conversion first.
bool packs_from(const SourceTensor& tensor, int32_t dtype) {
  return tensor.column_stride == 1 && (dtype == MORTISE_F32 || tensor.dtype == MORTISE_BF16);
}

// Packs one float weight, panel by panel, on the device's threads; each thread has its own buffers.
class Packer {
 public:
  Packer(mortise_device& device, const std::vector<SourceTensor>& tensors, const mortise_weight& weight)
      : device_(device),
        tensors_(tensors),
        weight_(weight),
        n_(static_cast<std::size_t>(weight.n)),
        k_(static_cast<std::size_t>(weight.k)),
        panel_bytes_(weight.dtype == MORTISE_BF16 ? packed_bytes_bf16(kPanelColumns, k_)
                                                  : packed_bytes_f32(kPanelColumns, k_)),
        converters_(converters_for(device, k_)) {
    for (int i = 0; i < device.pool.num_threads(); ++i) {
      staged_.push_back(std::make_unique_for_overwrite<float[]>(kPanelColumns * k_));
    }
  }

  void run() {
    const std::size_t panels = (n_ + kPanelColumns - 1) / kPanelColumns;
    const std::size_t per_task = std::max<std::size_t>(1, kWeightTaskBytes / panel_bytes_);
    const auto tasks = static_cast<std::int32_t>((panels + per_task - 1) / per_task);
    device_.pool.for_each(tasks, [&](std::int32_t task, std::int32_t thread) {
      const std::size_t first = static_cast<std::size_t>(task) * per_task;
      for (std::size_t p = first; p < std::min(panels, first + per_task); ++p)
        pack(p, static_cast<std::size_t>(thread));
    });
  }

 private:
  // Packs directly from the file's memory if all rows have one type that the kernel reads.
  void pack(std::size_t panel, std::size_t thread) {
    const std::size_t first = panel * kPanelColumns, count = std::min(kPanelColumns, n_ - first);
    const SourceTensor& tensor = tensor_of(tensors_, static_cast<std::int64_t>(first));
    bool direct = true;
    for (std::size_t i = 0; i < count && direct; ++i) {
      const SourceTensor& p = tensor_of(tensors_, static_cast<std::int64_t>(first + i));
      direct = p.dtype == tensor.dtype && packs_from(p, weight_.dtype);
    }
    const void* rows[kPanelColumns] = {};
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::int64_t>(first + i);
      rows[i] = direct ? source_row(row) : staged_row(row, i, thread);
    }
    pack_panel(weight_.dtype, direct ? tensor.dtype : weight_.dtype, rows, k_,
               static_cast<std::byte*>(weight_.data) + panel * panel_bytes_);
  }

  const void* source_row(std::int64_t row) const {
    const SourceTensor& tensor = tensor_of(tensors_, row);
    return tensor.at(row - tensor.first_row, 0);
  }

  const void* staged_row(std::int64_t row, std::size_t i, std::size_t thread) {
    const SourceTensor& tensor = tensor_of(tensors_, row);
    float* const staged = staged_[thread].get() + i * k_;
    converters_[thread].convert(tensor, row - tensor.first_row, weight_.dtype, staged);
    return staged;
  }

  mortise_device& device_;
  const std::vector<SourceTensor>& tensors_;
  const mortise_weight& weight_;
  std::size_t n_, k_, panel_bytes_;
  std::vector<RowConverter> converters_;          // one per thread
  std::vector<std::unique_ptr<float[]>> staged_;  // one per thread: the rows of a panel
};

void copy_rows(mortise_device& device, const std::vector<SourceTensor>& tensors, const mortise_weight& weight) {
  const auto n = static_cast<std::size_t>(weight.n), k = static_cast<std::size_t>(weight.k);
  const std::size_t row_bytes = k * static_cast<std::size_t>(dtype_bytes(weight.dtype));
  const std::size_t per_task = std::max<std::size_t>(1, kWeightTaskBytes / row_bytes);
  std::vector<RowConverter> converters = converters_for(device, k);
  const auto tasks = static_cast<std::int32_t>((n + per_task - 1) / per_task);
  device.pool.for_each(tasks, [&](std::int32_t task, std::int32_t thread) {
    const std::size_t first = static_cast<std::size_t>(task) * per_task;
    for (std::size_t row = first; row < std::min(n, first + per_task); ++row) {
      const auto at = static_cast<std::int64_t>(row);
      const SourceTensor& tensor = tensor_of(tensors, at);
      std::byte* const out = static_cast<std::byte*>(weight.data) + row * row_bytes;
      if (tensor.dtype == weight.dtype && tensor.column_stride == 1) {
        std::memcpy(out, tensor.at(at - tensor.first_row, 0), row_bytes);
      } else {
        converters[static_cast<std::size_t>(thread)].convert(tensor, at - tensor.first_row, weight.dtype, out);
      }
    }
  });
}

// A vector is one row: the rows of all tensors, one after the other. In a bf16 model it is rounded to bf16 and kept in
// both types, because norms read bf16, while linear adds its bias in f32.
void copy_vector(mortise_device& device, const std::vector<SourceTensor>& tensors, const mortise_weight& weight) {
  const DenormalsOff denormals_off;
  const auto n = static_cast<std::size_t>(weight.n);
  RowConverter converter(device.kernels, n);
  for (const SourceTensor& tensor : tensors) {
    const SourceTensor as_row = {tensor.data, tensor.dtype, 0, 1, tensor.rows, 0, tensor.row_stride};
    converter.convert(as_row, 0, MORTISE_F32, weight.vector() + tensor.first_row);
  }
  if (weight.dtype == MORTISE_F32) return;
  device.kernels.elementwise.f32_to_bf16(weight.vector(), weight.vector_bf16(), n);
  device.kernels.elementwise.bf16_to_f32(weight.vector_bf16(), weight.vector(), n);
}

// Returns a weight without its data. Throws if this device cannot prepare it.
mortise_weight describe_weight(const mortise_weight_source& source, const std::vector<SourceTensor>& tensors) {
  constexpr int32_t kMatrixUses = MORTISE_WEIGHT_LINEAR | MORTISE_WEIGHT_EMBEDDING;
  if (source.use != MORTISE_WEIGHT_VECTOR && ((source.use & kMatrixUses) == 0 || (source.use & ~kMatrixUses) != 0)) {
    invalid(kPrepareWeight, "use is " + std::to_string(source.use) + "; expected linear, embedding, both, or vector");
  }
  if (source.dtype != MORTISE_BF16 && source.dtype != MORTISE_F32) {
    invalid(kPrepareWeight, "dtype code " + std::to_string(source.dtype) + "; expected bf16 or f32");
  }
  mortise_weight weight = {};
  weight.use = source.use;
  weight.dtype = source.dtype;
  weight.n = tensors.back().first_row + tensors.back().rows;
  weight.k = tensors[0].columns;
  weight.packed = (source.use & MORTISE_WEIGHT_LINEAR) != 0;
  constexpr int64_t kLargest = INT32_MAX;  // ids and columns are int32 in the ABI
  if (weight.n > kLargest || weight.k > kLargest) invalid(kPrepareWeight, "more than 2^31 - 1 rows or columns");
  return weight;
}

std::size_t weight_bytes(const mortise_weight& weight) {
  const auto n = static_cast<std::size_t>(weight.n), k = static_cast<std::size_t>(weight.k);
  if (weight.use == MORTISE_WEIGHT_VECTOR) return n * (sizeof(float) + sizeof(Bf16));
  if (!weight.packed) return n * k * static_cast<std::size_t>(dtype_bytes(weight.dtype));
  return weight.dtype == MORTISE_BF16 ? packed_bytes_bf16(n, k) : packed_bytes_f32(n, k);
}

void fill_weight(mortise_device& device, const std::vector<SourceTensor>& tensors, const mortise_weight& weight) {
  if (weight.use == MORTISE_WEIGHT_VECTOR) return copy_vector(device, tensors, weight);
  if (weight.packed) return Packer(device, tensors, weight).run();
  copy_rows(device, tensors, weight);
}

}  // namespace

mortise_status prepare_weight(mortise_device* device, const mortise_weight_source* source, mortise_weight** weight,
                              mortise_error* error) {
  return guard(error, kPrepareWeight, [&] {
    const auto known_source = known(source);
    if (known_source.bits != 0) {
      *weight = prepare_int_weight(*device, known_source).release();
      return;
    }
    const std::vector<SourceTensor> tensors = read_source_tensors(known_source);
    auto prepared = std::make_unique<mortise_weight>(describe_weight(known_source, tensors));
    const std::size_t bytes = weight_bytes(*prepared);
    std::string key = device->cache.key_of(known_source, *prepared);
    if (!device->cache.find(key, *prepared, bytes)) {
      prepared->data = device->weights.allocate(bytes);
      fill_weight(*device, tensors, *prepared);
    }
    device->cache.keep(std::move(key), *prepared, bytes);
    *weight = prepared.release();
  });
}

void free_weight(mortise_device* device, mortise_weight* weight) {
  if (weight == nullptr) return;
  device->cache.forget(*weight);
  if (weight->file == nullptr) device->weights.free(weight->data);
  delete weight;
}

const void* vector_weight(mortise_device*, const mortise_weight* weight, int64_t* n, int32_t* dtype) {
  if (weight == nullptr || weight->use != MORTISE_WEIGHT_VECTOR) return nullptr;
  *n = weight->n;
  *dtype = weight->dtype;
  return weight->dtype == MORTISE_BF16 ? static_cast<const void*>(weight->vector_bf16()) : weight->vector();
}

}  // namespace mortise::cpu
