#include "plugin_index/whole_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.hpp"
#include "file_descriptor.hpp"

namespace mortise {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail_errno(const fs::path& path) {
  fail("{}: {}", path.string(), std::strerror(errno));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string read_whole_file(const fs::path& path, std::size_t limit) {
  // A pipe or a device could keep the caller waiting, so it is opened without waiting and then refused.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) fail_errno(path);
  if (!S_ISREG(status.st_mode)) fail("{}: this is not a regular file", path.string());
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t size = ::read(file.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail_errno(path);
    if (size == 0) return bytes;
    if (bytes.size() + static_cast<std::size_t>(size) > limit) {
      fail("{}: has more than {} bytes, which is too large for its purpose", path.string(), limit);
    }
    bytes.append(buffer, static_cast<std::size_t>(size));
  }
}

void write_whole_file(const fs::path& path, std::string_view bytes) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) fail("{}: {}", path.parent_path().string(), error.message());
  std::string fresh = path.string() + ".XXXXXX";
  FileDescriptor file(::mkostemp(fresh.data(), O_CLOEXEC));
  if (file.get() < 0) fail_errno(path);
  const bool good = write_all(file.get(), bytes) && ::fchmod(file.get(), 0644) == 0 && ::fsync(file.get()) == 0 &&
                    ::rename(fresh.c_str(), path.c_str()) == 0;
  if (good) return;
  const int reason = errno;
  ::unlink(fresh.c_str());
  errno = reason;
  fail_errno(path);
}

}  // namespace mortise
