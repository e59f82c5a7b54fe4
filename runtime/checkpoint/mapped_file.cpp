#include "checkpoint/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "file_descriptor.hpp"

namespace mortise {
namespace {

// Two changes of a file within one tick of the file system's clock get the same time. Linux uses the timer's ticks of
// up to 10 ms.
constexpr std::int64_t kClockTick = 100'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::optional<std::string> identity_of(const struct stat& status) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t changed = nanoseconds(status.st_ctim);
  if (nanoseconds(now) < changed + kClockTick) return std::nullopt;
  return fmt::format("{} {} {} {} {}", status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim),
                     changed);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a named pipe must fail below instead of waiting.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    const int reason = errno;
    fail("{}: cannot be opened: {}{}", path.native(), std::strerror(reason),
         reason == ENOENT ? "; download the checkpoint again" : "; check its permissions");
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail("{}: cannot be read: {}", path.native(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("{}: is not a file; expected a file of a checkpoint here", path.native());
  identity_ = identity_of(status);
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) fail("{}: {} bytes cannot be mapped: {}", path.native(), size, std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), identity_(std::move(other.identity_)) {}

}  // namespace mortise
