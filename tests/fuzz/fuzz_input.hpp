// tests/fuzz/fuzz_input.hpp: what the targets share: an input cut into parts, and files for readers that take a path.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "temp_folder.hpp"

namespace mortise::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The parts of an input between lines of %%%, as in corpus/: at most `count`, missing ones empty. Text, so that a seed
// can be read and written by hand.
inline std::vector<std::string_view> parts_of(std::string_view input, std::size_t count) {
  constexpr std::string_view kSeparator = "\n%%%\n";
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    const std::size_t end = input.find(kSeparator);
    parts.push_back(input.substr(0, end));
    input.remove_prefix(end == input.npos ? input.size() : end + kSeparator.size());
  }
  parts.push_back(input);
  return parts;
}

// A folder of this process alone, in memory where there is such a file system, removed at the end.
class ScratchFolder {
 public:
  const std::filesystem::path& path() const { return folder_.path(); }

  // Writes a file, followed by `hole` zeros that take no room.
  void write(const char* name, std::string_view bytes, std::size_t hole = 0) const {
    const int fd = ::open((path() / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool written = fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
                         ::ftruncate(fd, static_cast<off_t>(bytes.size() + hole)) == 0;
    ::close(fd);
    if (!written) throw std::runtime_error("cannot write the scratch file");
  }
  void remove(const char* name) const { ::unlink((path() / name).c_str()); }

 private:
  const test::TempFolder folder_{std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                                           : std::filesystem::temp_directory_path()};
};

// For what must hold whatever the input was; ends the process, which is what the fuzzer looks for.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace mortise::fuzz
