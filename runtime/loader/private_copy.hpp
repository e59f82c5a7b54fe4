// runtime/loader/private_copy.hpp: the copy of a plugin file that dlopen gets. Overwriting the original (a rebuild)
// would kill a process that maps it, and dlopen would take a path or inode that it knows for the old image.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace mortise {

// A copy of a plugin file at a path that this process never used before, in $TMPDIR or /tmp. The destructor removes it;
// an image that is mapped by then stays valid, and a process that dies leaves no file behind. With
// MORTISE_PLUGIN_COPIES=DIR copies are made in DIR and stay there: for debuggers, profilers and sanitizers, which read
// symbols from a file, and for machines whose /tmp is mounted noexec. Used by one thread. Invariant: no other object
// has the same path.
class PrivateCopy {
 public:
  // `stem` becomes part of the name, so that a backtrace shows the plugin. Throws an Error if the copy cannot be
  // written.
  PrivateCopy(std::span<const char> bytes, const std::string& stem);
  ~PrivateCopy();
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool keep_ = false;
};

}  // namespace mortise
