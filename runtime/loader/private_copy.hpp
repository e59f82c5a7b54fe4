// runtime/loader/private_copy.hpp: the file that dlopen really sees. A plugin's own file may be overwritten while it
// runs (a rebuild), which kills a process that maps it, and dlopen takes a path or inode it has seen for the old image.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace mortise {

// A copy of a plugin file on a path that this process never used before, in $TMPDIR (or /tmp), removed by the
// destructor: an image that is mapped by then stays whole, and nothing is left behind when the process dies. With
// MORTISE_PLUGIN_COPIES=DIR the copies go to DIR and stay, for debuggers, profilers and sanitizers, which want a file
// to read symbols from, and for machines whose /tmp is mounted noexec.
class PrivateCopy {
 public:
  // `stem` becomes part of the name, so that a backtrace tells which plugin it is in. Throws an Error when it cannot be
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
