#include "devices/cpu/temporary_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "mortise/plugin.hpp"

namespace mortise::cpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";
constexpr std::string_view kRandom = "XXXXXX";  // replaced by mkostemp

// Calls f(name) for each entry of the folder. Returns false if not all could be read. Does not use std::filesystem's
// iterator, which ends the process when memory runs out.
template <typename F>
bool for_each_name(const fs::path& folder, F&& f) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), &::closedir);
  if (stream == nullptr) return false;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) return errno == 0;
    f(std::string_view(entry->d_name));
  }
}

// Reads /proc, because umask() can only tell the mask by changing it, which other threads would notice.
mode_t process_umask() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word; in.ignore(1 << 16, '\n')) {
    unsigned mask = 0;
    if (word == "Umask:" && in >> std::oct >> mask) return static_cast<mode_t>(mask);
  }
  return 077;
}

// Returns the mode of a file of `group`: besides its owner, only users who may read all files *EXTENSION of the folder
// may read it.
mode_t mode_beside(const fs::path& folder, std::string_view extension, gid_t group) {
  bool any = false;
  mode_t mode = 0644 & ~process_umask();  // no write permission for others: the file is only ever replaced
  const bool all = for_each_name(folder, [&](std::string_view name) {
    if (!name.ends_with(extension)) return;
    any = true;
    struct stat status {};  // a file that cannot be examined counts as private
    if (::stat((folder / name).c_str(), &status) != 0) status.st_mode = 0;
    const mode_t others = status.st_mode & 07;
    // If the file has another group, members of `group` count as others.
    const mode_t members = status.st_gid == group ? (status.st_mode >> 3) & 07 : others;
    mode &= 0600 | members << 3 | others;
  });
  return 0600 | (any && all ? mode : 0);
}

bool is_temporary(std::string_view name, std::string_view prefix, std::string_view extension) {
  if (name.size() < kRandom.size() || !name.starts_with(prefix)) return false;
  const std::string_view random = name.substr(name.size() - kRandom.size());
  const auto is_letter = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  name.remove_suffix(kRandom.size());
  if (!name.ends_with(kMark) || !std::all_of(random.begin(), random.end(), is_letter)) return false;
  name.remove_suffix(kMark.size());
  return name.size() >= prefix.size() && name.ends_with(extension);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void cannot_write(const fs::path& path, int reason) {
  throw Failure(MORTISE_DATA_LOSS, "packed_cache", path.native() + ": cannot be written: " + std::strerror(reason));
}

TemporaryFile::TemporaryFile(const fs::path& final_path) : final_path_(final_path) {
  // Another process may remove the file as a leftover before it is locked. Then this tries again with a new file.
  constexpr int kMaxTries = 8;
  struct stat status {};
  for (int tries = 0; tries < kMaxTries && status.st_nlink == 0; ++tries) {
    if (tries > 0) ::unlink(path_.c_str());  // for file systems that do not count links
    path_ = final_path_.native() + std::string(kMark) + std::string(kRandom);
    fd_ = Descriptor(::mkostemp(path_.data(), O_CLOEXEC));
    if (fd_.get() < 0) cannot_write(final_path_, errno);
    while (::flock(fd_.get(), LOCK_EX) != 0 && errno == EINTR) {
    }  // without locks, no process removes leftovers either
    if (::fstat(fd_.get(), &status) != 0) break;
  }
}

TemporaryFile::~TemporaryFile() {
  if (fd_.get() >= 0 && !path_.empty()) ::unlink(path_.c_str());
}

void TemporaryFile::write(std::uint64_t at, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) cannot_write(final_path_, written < 0 ? errno : ENOSPC);
    at += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void TemporaryFile::publish(std::string_view extension) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0 ||
      ::fchmod(fd_.get(), mode_beside(final_path_.parent_path(), extension, status.st_gid)) != 0 ||
      ::rename(path_.c_str(), final_path_.c_str()) != 0) {
    cannot_write(final_path_, errno);
  }
  path_.clear();
}

void remove_leftovers(const fs::path& folder, std::string_view prefix, std::string_view extension) {
  for_each_name(folder, [&](std::string_view name) {
    if (!is_temporary(name, prefix, extension)) return;
    const fs::path path = folder / name;
    // Locking over a network file system requires a file that is open for writing.
    const Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    struct stat status {};
    if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  });
}

}  // namespace mortise::cpu
