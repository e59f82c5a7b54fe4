#include "jsonl/input_lines.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>

#include "error.hpp"

namespace mortise {
namespace {

constexpr std::size_t kReadBytes = 1 << 16;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

}  // namespace

InputLines::InputLines(const std::string& path, std::size_t max_line_bytes)
    : name_(path == "-" ? "standard input" : path), max_line_bytes_(max_line_bytes) {
  fd_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    fail("{}: cannot be read: {}; give an existing file, or - for standard input", path, std::strerror(errno));
  }
  struct stat status {};
  const bool known = ::fstat(fd_, &status) == 0;
  if (known && S_ISDIR(status.st_mode)) {
    if (fd_ != STDIN_FILENO) ::close(fd_);
    fail("{}: is a directory; give a file of JSON lines", name_);
  }
  const bool regular = known && S_ISREG(status.st_mode);
  always_ready_ = regular;
  if (regular) size_ = static_cast<std::uint64_t>(status.st_size);
  modified_ = regular ? status.st_mtim.tv_sec : std::time(nullptr);
}

InputLines::~InputLines() {
  if (fd_ != STDIN_FILENO) ::close(fd_);
}

InputLines::Next InputLines::next(InputLine& line) {
  if (put_back_) {
    line = std::move(*put_back_);
    put_back_.reset();
    return Next::kLine;
  }
  while (true) {
    while (take_line(line)) {
      if (line.too_long || !is_blank(line.text)) return Next::kLine;
    }
    if (ended_) return Next::kEnd;
    pollfd ready{fd_, POLLIN, 0};
    if (!always_ready_ && ::poll(&ready, 1, 0) == 0) return Next::kNotYet;
    buffer_.resize(kReadBytes);
    buffer_begin_ = 0;
    const ssize_t n = ::read(fd_, buffer_.data(), buffer_.size());
    const int error = errno;
    buffer_.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && error == EINTR) return Next::kNotYet;  // lets the caller check whether it should stop
    if (n < 0) fail("{}: cannot be read: {}", name_, std::strerror(error));
    ended_ = n == 0;
  }
}

bool InputLines::wait_next(InputLine& line) {
  while (true) {
    const Next next = this->next(line);
    if (next != Next::kNotYet) return next == Next::kLine;
    pollfd ready{fd_, POLLIN, 0};
    ::poll(&ready, 1, -1);
  }
}

bool InputLines::take_line(InputLine& line) {
  const std::size_t end = buffer_.find('\n', buffer_begin_);
  const std::size_t stop = end == std::string::npos ? buffer_.size() : end;
  keep(buffer_.data() + buffer_begin_, stop - buffer_begin_);
  offset_ += stop - buffer_begin_;
  buffer_begin_ = stop;
  if (end != std::string::npos) {
    ++buffer_begin_;
    ++offset_;
    finish_line(line, /*terminated=*/true);
    return true;
  }
  if (!ended_ || offset_ == line_begin_) return false;
  finish_line(line, /*terminated=*/false);
  return true;
}

void InputLines::keep(const char* data, std::size_t size) {
  const std::size_t room = max_line_bytes_ - partial_.size();
  partial_.append(data, std::min(size, room));
  partial_too_long_ = partial_too_long_ || size > room;
}

void InputLines::finish_line(InputLine& line, bool terminated) {
  line.number = ++number_;
  line.too_long = partial_too_long_;
  line.terminated = terminated;
  line.begin = line_begin_;
  line.end = offset_;
  line.text.swap(partial_);
  partial_ = {};  // not clear(): the memory of one long line must not be kept
  if (line.number == 1 && line.text.starts_with(kByteOrderMark)) line.text.erase(0, kByteOrderMark.size());
  if (!line.too_long && line.text.ends_with('\r')) line.text.pop_back();
  partial_too_long_ = false;
  line_begin_ = offset_;
}

}  // namespace mortise
