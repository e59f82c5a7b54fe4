// The memory of the CPU device is ordinary host memory.
#include <cstring>

#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/ops.hpp"
#include "mortise/plugin.hpp"

namespace mortise::cpu {

mortise_status memory_info(mortise_device*, uint64_t* free_bytes, uint64_t* total_bytes) {
  const MachineMemory memory = machine_memory();
  *free_bytes = memory.free_bytes;
  *total_bytes = memory.total_bytes;
  return MORTISE_OK;
}

mortise_status allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error) {
  return guard(error, "allocate", [&] {
    if (bytes > device->memory_bytes) {
      throw Failure(MORTISE_RESOURCE_EXHAUSTED, "allocate",
                    std::to_string(bytes) + " bytes do not fit the " + std::to_string(device->memory_bytes) +
                        " bytes of memory that this process may use");
    }
    *memory = device->pages.allocate(bytes);
  });
}

void free_memory(mortise_device* device, void* memory) {
  device->pages.free(memory);
}

mortise_status host_allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error) {
  return allocate(device, bytes, memory, error);
}

void host_free(mortise_device* device, void* memory) {
  free_memory(device, memory);
}

mortise_status copy(mortise_device*, mortise_stream*, void* to, const void* from, uint64_t bytes, mortise_error*) {
  if (bytes > 0) std::memmove(to, from, bytes);
  return MORTISE_OK;
}

mortise_status fill(mortise_device*, mortise_stream*, void* memory, uint8_t value, uint64_t bytes, mortise_error*) {
  if (bytes > 0) std::memset(memory, value, bytes);
  return MORTISE_OK;
}

}  // namespace mortise::cpu
