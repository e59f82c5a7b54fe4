// runtime/trial/memory_use.hpp: how much memory a process has for itself.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace mortise {

// Bytes that are resident and of no file: mapped weights are the page cache's, which all processes share. 0: there is
// no such process.
std::uint64_t process_memory(pid_t process);

}  // namespace mortise
