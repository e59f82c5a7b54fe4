// plugins/devices/cpu/temporary_file.hpp: a file that gets its name when it is complete, so that no process ever sees a
// partial file. Until then it is named NAME.tmp-XXXXXX and locked (flock). A writer that is killed leaves the file
// behind without the lock, which is how remove_leftovers() recognises it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mortise::cpu {

// Owns a file descriptor. Used by one thread. Invariant: fd_ is open, or -1.
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

// A temporary file, which is removed unless it is published. Failures say that `final_path` cannot be written, and why.
// Used by one thread. Invariant: until publish() the file at path_ is locked by this process.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& final_path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_.get(); }
  void write(std::uint64_t at, std::span<const std::byte> bytes) const;
  // Renames the file to its final name. Processes that have the previous file open keep it. The owner may read the
  // file, and as far as the umask allows, also users who may read all files `*EXTENSION` of the folder.
  void publish(std::string_view extension);

 private:
  const std::filesystem::path final_path_;
  std::string path_;  // empty after publish()
  Descriptor fd_{-1};
};

[[noreturn]] void cannot_write(const std::filesystem::path& path, int reason);  // reason: an errno

// Removes temporary files PREFIX*EXTENSION of the folder that no process is writing. Files that cannot be locked (on a
// file system without locks) or removed remain.
void remove_leftovers(const std::filesystem::path& folder, std::string_view prefix, std::string_view extension);

}  // namespace mortise::cpu
