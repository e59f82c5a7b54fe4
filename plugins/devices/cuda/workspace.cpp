#include "devices/cuda/workspace.hpp"

#include <algorithm>

#include "devices/cuda/errors.hpp"

namespace mortise::cuda {

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

void* Workspace::reserve(std::uint64_t bytes, cudaStream_t stream, const char* where) {
  if (bytes <= bytes_) return blocks_.empty() ? nullptr : blocks_.back();
  if (capturing(stream)) {
    throw Failure(MORTISE_FAILED_PRECONDITION, where,
                  "needs a workspace of " + std::to_string(bytes) +
                      " bytes while it is captured; run it once with this shape before");
  }
  // Grows to at least 1.5 times the old size, because sizes that grow step by step would leave a trail of blocks.
  const std::uint64_t wanted = std::max(bytes, bytes_ + bytes_ / 2);
  void* const memory = allocate_for("a workspace", wanted, where,
                                    "it grows with the rows of a step: lower max_batched_tokens of the scheduler, or "
                                    "lower kv_cache.memory to leave more memory free");
  blocks_.push_back(memory);
  // The kernels read nothing that they have not written, but compute-sanitizer's initcheck does not see the bulk stores
  // of cuBLASLt.
  check_cuda(cudaMemsetAsync(memory, 0, wanted, stream), where);
  check_cuda(cudaStreamSynchronize(stream), where);  // any stream may use it next
  bytes_ = wanted;
  return memory;
}

void Workspace::release() {
  for (void* block : blocks_) cudaFree(block);
  blocks_.clear();
  bytes_ = 0;
}

}  // namespace mortise::cuda
