// workspace.hpp: device memory that an operation needs beside its tensors. It grows at the first call of a size and is
// not given back while the device lives: captured graphs hold its address. One operation at a time uses it, so all work
// of a device that needs workspaces belongs on one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace mortise::cuda {

class Workspace {
 public:
  Workspace() = default;
  ~Workspace() { release(); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // At least `bytes`, 256-byte aligned. Throws Failure: no memory, or it would have to grow while `stream` is captured.
  void* reserve(std::uint64_t bytes, cudaStream_t stream, const char* where);
  void release();

 private:
  std::vector<void*> blocks_;  // the last one is used; the others belong to graphs captured before it grew
  std::uint64_t bytes_ = 0;
};

bool capturing(cudaStream_t stream);

}  // namespace mortise::cuda
