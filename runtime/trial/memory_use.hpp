// runtime/trial/memory_use.hpp: measures the private memory of a process.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace mortise {

// Resident bytes that do not belong to a file (mapped weights are in the page cache, which processes share). 0: there
// is no such process.
std::uint64_t process_memory(pid_t process);

}  // namespace mortise
