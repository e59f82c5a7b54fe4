// plugins/devices/cuda/cuda_device.hpp: an instance of the device, and a prepared weight.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "devices/checks/weight.hpp"
#include "devices/cuda/collective.hpp"
#include "devices/cuda/gpu_class.hpp"
#include "devices/cuda/linear_plans.hpp"
#include "devices/cuda/reaper.hpp"
#include "devices/cuda/recorder.hpp"
#include "devices/cuda/row_uploader.hpp"
#include "devices/cuda/uploader.hpp"
#include "devices/cuda/workspace.hpp"
#include "kernels/cuda/fp8_weight.hpp"
#include "kernels/cuda/int_weight.hpp"
#include "mortise/device.h"

struct mortise_device {
  int ordinal = 0;
  const mortise_host* host = nullptr;
  std::vector<int> ordinals;  // option: the GPUs of the ranks; empty: one rank
  bool graphs = true;         // options
  std::string isa = "auto";
  mortise::cuda::TuningOption tuning;

  std::once_flag looked_up;  // guards name, gpu and memory_bytes, which look_up_gpu() sets once
  std::string name;
  mortise::cuda::GpuClass gpu;
  uint64_t memory_bytes = 0;

  // Set by activate.
  int64_t most_norm_columns = 0;
  cudaStream_t stream = nullptr;  // serves as the stream NULL, because the legacy stream cannot be captured
  // quantized: the rows of x as int8, or a copy of x whose rows are 16-byte aligned
  mortise::cuda::Workspace gated, scratch, quantized;
  mortise::cuda::Workspace widened;  // weights of MXFP4 or E4M3 as bf16
  mortise::cuda::Recorder recorder;
  mortise::cuda::GatherWatches watches;  // of exchanges with other ranks
  std::unique_ptr<mortise::cuda::Reaper> reaper;
  std::unique_ptr<mortise::cuda::LinearPlans> linear;        // null with KernelSet::kMma
  std::unique_ptr<mortise::cuda::RowUploader> row_uploader;  // null until the first matrix
  std::unique_ptr<mortise::cuda::Uploader> uploader;         // null until the first quantised matrix
};

// A prepared weight in the GPU's memory. Constant once prepare_weight has returned it; any thread may read it.
struct mortise_weight {
  int32_t use;
  int64_t n, k;  // k = 1 for a vector
  // bf16, row-major. A vector has bf16 [n] here and the same values as f32 in `wide`, because norms read bf16, while
  // linear adds its bias in f32.
  void* data;
  float* wide;

  // Quantised with 8 or 4 bits: `data` is in the order of kernels/cuda/int_weight.hpp, followed by `order`; for E4M3
  // in that of kernels/cuda/fp8_weight.hpp, for E2M1 in that of kernels/cuda/mxfp4_weight.hpp.
  int32_t bits;        // 0: not quantised
  int32_t value_type;  // 0: integers; MORTISE_F8_E4M3, MORTISE_F4_E2M1
  int64_t group_size;
  int32_t* order;     // null: 0, 1, 2, ..
  bool symmetric;     // every zero point is 2^(bits - 1)
  bool usual_scales;  // of integers: LinearIntArgs
  bool small_scales;  // of MXFP4: LinearMxfp4Args

  mortise::WeightShape shape() const { return {use, MORTISE_BF16, n, k, bits, value_type}; }
  mortise::cuda::IntFormat format() const { return {bits, group_size, n, k}; }
  mortise::cuda::Fp8Format fp8_format() const { return {group_size < k, n, k}; }
};

namespace mortise::cuda {

inline cudaStream_t stream_of(const mortise_device* device, mortise_stream* stream) {
  return stream == nullptr ? device->stream : reinterpret_cast<cudaStream_t>(stream);
}

// Returns the CUDA stream of an ABI stream, for use right away. Launches what the recorder holds back first. Makes the
// device current for this thread, since host threads come and go.
inline cudaStream_t native(mortise_device* device, mortise_stream* stream) {
  cudaSetDevice(device->ordinal);
  device->recorder.launch_waiting();
  return stream_of(device, stream);
}

}  // namespace mortise::cuda
