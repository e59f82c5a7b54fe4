#include "devices/cuda/errors.hpp"

#include <cstdio>

namespace mortise::cuda {

void invalid(const char* where, const std::string& message) {
  throw Failure(MORTISE_INVALID_ARGUMENT, where, message);
}

void check_cuda(cudaError_t status, const char* where, const std::string& what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // the next check is not to find it again
  const std::string text = (what.empty() ? "" : what + ": ") + std::string(cudaGetErrorString(status)) + " (" +
                           cudaGetErrorName(status) + ")";
  throw Failure(status == cudaErrorMemoryAllocation ? MORTISE_RESOURCE_EXHAUSTED : MORTISE_INTERNAL, where, text);
}

std::string gib_text(unsigned long long bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1u << 30));
  return text;
}

}  // namespace mortise::cuda
