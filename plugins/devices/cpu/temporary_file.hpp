// temporary_file.hpp: a file that gets its name when it is complete, so that nobody ever sees a part of it.
// Until then it is NAME.tmp-XXXXXX and locked (flock). A writer that is killed leaves it behind without the lock: that
// is how remove_leftovers() tells it from one that is being written.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mortise::cpu {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }  // negative: none

 private:
  int fd_;
};

// Failures of all functions say that `final_path` cannot be written, and why. Removed unless published.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& final_path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_.get(); }
  void write(std::uint64_t at, std::span<const std::byte> bytes) const;
  // Renames the file to its final name. Processes that have the previous file open keep it. The owner may read the
  // file, and so may those who may read all files `*EXTENSION` in the folder, as far as the umask allows; nobody else.
  void publish(std::string_view extension);

 private:
  const std::filesystem::path final_path_;
  std::string path_;  // empty: published
  Descriptor fd_{-1};
};

[[noreturn]] void cannot_write(const std::filesystem::path& path, int reason);  // an errno

// Removes temporary files of PREFIX*EXTENSION in the folder that no process writes any more. What cannot be removed,
// or locked (a file system without locks), stays.
void remove_leftovers(const std::filesystem::path& folder, std::string_view prefix, std::string_view extension);

}  // namespace mortise::cpu
