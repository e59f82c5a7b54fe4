#include "jsonl/output_lines.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "error.hpp"

namespace mortise {
namespace {

// Whether there is room for more data, now or soon: always in a file, and in a pipe if a process reads it.
bool has_room(int fd) {
  constexpr int kPatienceMs = 1000;
  pollfd ready{fd, POLLOUT, 0};
  int n;
  do n = ::poll(&ready, 1, kPatienceMs);
  while (n < 0 && errno == EINTR);
  return n > 0;
}

}  // namespace

OutputLines::OutputLines(const std::string& path) : name_(path == "-" ? "standard output" : path) {
  // Not O_TRUNC: the file may have hours of results, and nothing has been checked yet.
  fd_ = path == "-" ? STDOUT_FILENO : ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail("{}: cannot be written: {}; give a file in an existing folder, or - for standard output", path,
         std::strerror(errno));
  }
  struct stat status {};
  regular_ = path != "-" && ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular_) return;
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd_);
    fail("{}: another run is already writing this file (wait for its end), or this run is (give another file)", name_);
  }
  if (status.st_size > 0) existing_ = std::make_unique<InputLines>(path, kMaxOutputLineBytes);
}

OutputLines::~OutputLines() {
  if (fd_ != STDOUT_FILENO) ::close(fd_);
}

bool OutputLines::is_same_file(int fd) const {
  struct stat mine {
  }, other{};
  return regular_ && ::fstat(fd_, &mine) == 0 && ::fstat(fd, &other) == 0 && mine.st_dev == other.st_dev &&
         mine.st_ino == other.st_ino;
}

void OutputLines::start(std::uint64_t keep_bytes) {
  existing_.reset();
  if (!regular_) return;
  const auto offset = static_cast<off_t>(keep_bytes);
  if (::ftruncate(fd_, offset) != 0 || ::lseek(fd_, offset, SEEK_SET) < 0) {
    fail("{}: cannot be written: {}", name_, std::strerror(errno));
  }
}

void OutputLines::write(std::string_view line, bool (*stopped)()) {
  std::string text(line);
  text += '\n';
  for (std::size_t done = 0; done < text.size();) {
    // Writing to a pipe waits for its reader, and a signal comes only once. If a pipe has any room, it has room for
    // this much.
    const bool hurries = stopped != nullptr && stopped();
    if (hurries && !has_room(fd_)) return;
    const std::size_t left = text.size() - done, most = hurries ? std::min<std::size_t>(left, PIPE_BUF) : left;
    const ssize_t n = ::write(fd_, text.data() + done, most);
    if (n < 0 && errno != EINTR) fail("{}: cannot be written: {}", name_, std::strerror(errno));
    done += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  }
}

}  // namespace mortise
