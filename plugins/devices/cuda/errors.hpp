// plugins/devices/cuda/errors.hpp: turns CUDA errors into Failures.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "mortise/plugin.hpp"

namespace mortise::cuda {

// Throws Failure unless `status` is success: RESOURCE_EXHAUSTED for memory, INTERNAL for anything else, after which the
// device's state is unknown. `where` is a static text.
void check_cuda(cudaError_t status, const char* where, const std::string& what = {});

// Calls cudaMalloc. If memory runs out, the Failure says what the memory was for, how much is free, and how to make
// room (`way_out`; empty if the caller knows no way).
void* allocate_for(const std::string& what, unsigned long long bytes, const char* where, const std::string& way_out);

// Returns the text of the Failure that allocate_for throws.
std::string no_memory_text(const std::string& what, unsigned long long bytes, unsigned long long free_bytes,
                           unsigned long long total_bytes, const std::string& way_out);

std::string gib_text(unsigned long long bytes);  // "12.3 GiB"

}  // namespace mortise::cuda
