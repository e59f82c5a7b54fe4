#include "devices/cuda/weight_memory.hpp"

#include "devices/checks/source_tensors.hpp"

namespace mortise::cuda {

Temporary weight_memory(std::uint64_t bytes) {
  return {
      bytes, "a weight", kPrepareWeight,
      "a smaller model needs less, and so do weights = \"int8\" or \"int4\" of it; other programs that hold memory of "
      "the GPU are listed by nvidia-smi"};
}

}  // namespace mortise::cuda
