// plugins/devices/cuda/workspace.hpp: device memory that an operation needs beside its tensors. It grows when a size is
// needed for the first time, and is freed with the device only, because captured graphs hold its address. One operation
// at a time uses it, so all work of a device that needs workspaces must be on one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace mortise::cuda {

// A growing buffer of one device. Invariant: memory that it returned stays allocated. Used by the thread that runs
// steps.
class Workspace {
 public:
  Workspace() = default;
  ~Workspace() { release(); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Returns at least `bytes` of memory, 256-byte aligned. Throws Failure if there is no memory, or if it would have to
  // grow while `stream` is captured.
  void* reserve(std::uint64_t bytes, cudaStream_t stream, const char* where);
  void release();

 private:
  // The last block is in use. Earlier blocks belong to graphs that were captured before the workspace grew.
  std::vector<void*> blocks_;
  std::uint64_t bytes_ = 0;
};

bool capturing(cudaStream_t stream);

}  // namespace mortise::cuda
