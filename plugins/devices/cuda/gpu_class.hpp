// plugins/devices/cuda/gpu_class.hpp: which kernels serve a GPU, and the numerics classes of its results
// (docs/numerics.md, "Linear on CUDA"). According to published models, tensor cores of compute capability 8 sum
// otherwise than those of 9.0. This was not measured here, so the classes follow the GPU, not the kernels.
#pragma once

#include <string>

namespace mortise::cuda {

enum class KernelSet {
  kHopper,  // wgmma, TMA, clusters
  kMma,     // mma.sync and cp.async alone
};

// A value.
struct GpuClass {
  KernelSet kernels = KernelSet::kHopper;
  // The classes of linear with bf16 weights and of all that is not quantised, and of linear with E4M3 weights. Static
  // texts.
  const char* bf16 = "cuda-bf16/1";
  const char* fp8 = "cuda-fp8/1";

  // Returns what `isa` says of the kernels in mortise_device_info.
  const char* isa() const { return kernels == KernelSet::kHopper ? "sm_90" : "sm_80"; }
};

// Returns the class of a GPU of this compute capability. `isa`: "auto", or "sm_80" for the kernels of compute
// capability 8 on a newer GPU. `name`: the GPU's, for messages. Throws Failure if no kernels serve the GPU.
GpuClass gpu_class(const std::string& name, int major, int minor, const std::string& isa);

}  // namespace mortise::cuda
