// errors.hpp: CUDA's errors as the ABI's.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "mortise/plugin.hpp"

namespace mortise::cuda {

[[noreturn]] void invalid(const char* where, const std::string& message);

// Throws Failure unless `status` is success: RESOURCE_EXHAUSTED for memory, INTERNAL for anything else, after which the
// device's state is unknown. `where` is a static text.
void check_cuda(cudaError_t status, const char* where, const std::string& what = {});

std::string gib_text(unsigned long long bytes);  // "12.3 GiB"

}  // namespace mortise::cuda
