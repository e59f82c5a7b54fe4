#include "trial/memory_use.hpp"

#include <fstream>
#include <string>

namespace mortise {

std::uint64_t process_memory(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  std::uint64_t kilobytes = 0;
  for (std::string key; status >> key;) {
    std::uint64_t count = 0;
    if ((key == "RssAnon:" || key == "RssShmem:") && status >> count) kilobytes += count;
  }
  return kilobytes << 10;
}

}  // namespace mortise
