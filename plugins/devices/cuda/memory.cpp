// Memory of the device, and page-locked host memory.
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/ops.hpp"
#include "kernels/cuda/rows.hpp"

namespace mortise::cuda {

mortise_status memory_info(mortise_device* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  std::size_t free = 0, total = 0;
  native(device, nullptr);
  if (device->reaper != nullptr) device->reaper->finish();  // null before activate
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return MORTISE_INTERNAL;
  *free_bytes = free;
  *total_bytes = total;
  return MORTISE_OK;
}

mortise_status allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error) {
  return guard(error, "allocate", [&] {
    const cudaStream_t stream = native(device, nullptr);
    void* result = nullptr;
    const auto take = [&] { return cudaMalloc(&result, bytes == 0 ? 1 : bytes); };
    cudaError_t status = take();
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      device->reaper->finish();
      status = take();
    }
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      std::size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      throw Failure(MORTISE_RESOURCE_EXHAUSTED, "allocate",
                    gib_text(bytes) + " do not fit: " + gib_text(free) + " of the " + gib_text(total) + " of " +
                        device->name + " are free");
    }
    check_cuda(status, "allocate");
    const cudaError_t filled = cudaMemsetAsync(result, 0, bytes, stream);
    // Waits until the memory is zero, so that any stream may use it.
    const cudaError_t done = filled == cudaSuccess ? cudaStreamSynchronize(stream) : filled;
    if (done != cudaSuccess) cudaFree(result);
    check_cuda(done, "allocate");
    *memory = result;
  });
}

void free_memory(mortise_device* device, void* memory) {
  if (memory != nullptr) device->reaper->free(memory);
}

mortise_status host_allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error) {
  return guard(error, "host_allocate", [&] {
    native(device, nullptr);
    check_cuda(cudaHostAlloc(memory, bytes == 0 ? 1 : bytes, cudaHostAllocPortable), "host_allocate",
               gib_text(bytes) + " of page-locked memory");
  });
}

void host_free(mortise_device* device, void* memory) {
  if (memory != nullptr) device->reaper->free_host(memory);
}

namespace {

// Returns whether this copies few bytes from the GPU to page-locked host memory, such as the tokens of a step. A kernel
// does that in 1 us. The copy engine takes 6 us, most of it for the hand-over between engines. Uploads always use the
// copy engine: the next kernel may read an upload before it waits for the kernel before it (launch.cuh).
bool is_small_download(void* to, const void* from, uint64_t bytes) {
  if (bytes > kMaxSmallCopy) return false;
  const auto type_of = [](const void* memory) {
    cudaPointerAttributes attributes{};
    check_cuda(cudaPointerGetAttributes(&attributes, memory), "copy");
    return attributes.type;
  };
  return type_of(to) == cudaMemoryTypeHost && type_of(from) == cudaMemoryTypeDevice;
}

}  // namespace

// Copies from pageable memory go through page-locked buffers of the driver, and return when the driver has read the
// source.
mortise_status copy(mortise_device* device, mortise_stream* stream, void* to, const void* from, uint64_t bytes,
                    mortise_error* error) {
  return guard(error, "copy", [&] {
    if (bytes == 0) return;
    const cudaStream_t on = native(device, stream);
    const cudaError_t status =
        is_small_download(to, from, bytes)
            ? launch_small_copy(static_cast<const std::byte*>(from), static_cast<std::byte*>(to), bytes, on)
            : cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, on);
    check_cuda(status, "copy");
  });
}

mortise_status fill(mortise_device* device, mortise_stream* stream, void* memory, uint8_t value, uint64_t bytes,
                    mortise_error* error) {
  return guard(error, "fill", [&] {
    if (bytes == 0) return;
    check_cuda(cudaMemsetAsync(memory, value, bytes, native(device, stream)), "fill");
  });
}

}  // namespace mortise::cuda
