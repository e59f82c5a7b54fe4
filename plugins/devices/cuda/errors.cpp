#include "devices/cuda/errors.hpp"

#include <cstdio>

namespace mortise::cuda {

void check_cuda(cudaError_t status, const char* where, const std::string& what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next check does not report it again
  std::string text = (what.empty() ? "" : what + ": ") + std::string(cudaGetErrorString(status)) + " (" +
                     cudaGetErrorName(status) + ")";
  // Callers without a text of their own allocate GPU memory indirectly, as for a graph or a stream.
  std::size_t free_bytes = 0, total_bytes = 0;
  if (what.empty() && status == cudaErrorMemoryAllocation && cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
    text += "; " + gib_text(free_bytes) + " of the GPU's " + gib_text(total_bytes) +
            " are free: lower kv_cache.memory to leave more memory free";
  }
  throw Failure(status == cudaErrorMemoryAllocation ? MORTISE_RESOURCE_EXHAUSTED : MORTISE_INTERNAL, where, text);
}

void* allocate_for(const std::string& what, unsigned long long bytes, const char* where, const std::string& way_out) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes == 0 ? 1 : bytes);
  if (status != cudaErrorMemoryAllocation) {
    check_cuda(status, where, what);
    return memory;
  }
  cudaGetLastError();  // clears the error, so that the next check does not report it again
  std::size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  throw Failure(MORTISE_RESOURCE_EXHAUSTED, where, no_memory_text(what, bytes, free_bytes, total_bytes, way_out));
}

std::string no_memory_text(const std::string& what, unsigned long long bytes, unsigned long long free_bytes,
                           unsigned long long total_bytes, const std::string& way_out) {
  return what + " of " + gib_text(bytes) + " does not fit: " + gib_text(free_bytes) + " of the GPU's " +
         gib_text(total_bytes) + " are free" + (way_out.empty() ? "" : "; " + way_out);
}

std::string gib_text(unsigned long long bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1u << 30));
  return text;
}

}  // namespace mortise::cuda
