#include "devices/cuda/gpu_class.hpp"

#include "mortise/plugin.hpp"

namespace mortise::cuda {
namespace {

struct Capability {
  int major, minor;
  GpuClass gpu;
};

// Nobody has measured whether two compute capabilities below 9.0 sum alike, so each has classes of its own.
constexpr Capability kCapabilities[] = {
    {8, 0, {KernelSet::kMma, "cuda-bf16-sm80/1", "cuda-fp8-sm80/1"}},
    {8, 6, {KernelSet::kMma, "cuda-bf16-sm86/1", "cuda-fp8-sm86/1"}},
    {8, 9, {KernelSet::kMma, "cuda-bf16-sm89/1", "cuda-fp8-sm89/1"}},
    {9, 0, {KernelSet::kHopper, "cuda-bf16/1", "cuda-fp8/1"}},
};

}  // namespace

GpuClass gpu_class(const std::string& name, int major, int minor, const std::string& isa) {
  for (const Capability& capability : kCapabilities) {
    if (capability.major != major || capability.minor != minor) continue;
    GpuClass gpu = capability.gpu;
    if (isa == "sm_80") gpu.kernels = KernelSet::kMma;
    return gpu;
  }
  throw Failure(MORTISE_UNIMPLEMENTED, "cuda",
                name + " has compute capability " + std::to_string(major) + "." + std::to_string(minor) +
                    "; this build has kernels only for 8.0, 8.6, 8.9 and 9.0 (A100, A10, L4, L40S, H100, H200); use "
                    "another GPU or the device cpu");
}

}  // namespace mortise::cuda
