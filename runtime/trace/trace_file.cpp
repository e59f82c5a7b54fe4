#include "trace/trace_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "error.hpp"

namespace mortise {
namespace {

constexpr std::size_t kFlushBytes = 1 << 16;
constexpr std::int64_t kFlushAfterNs = 200'000'000;  // a killed process loses at most this much
constexpr std::string_view kEnd = "\n]\n";

}  // namespace

TraceFile::TraceFile(const std::string& path) : path_(path) {
  // Not O_TRUNC: the file may be this very command's output, which holds a lock on it.
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  struct stat status {};
  const bool known = fd_ >= 0 && ::fstat(fd_, &status) == 0;
  seekable_ = known && S_ISREG(status.st_mode);
  const bool mine = known && (!seekable_ || (::flock(fd_, LOCK_EX | LOCK_NB) == 0 && ::ftruncate(fd_, 0) == 0));
  if (!mine) {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    fail("{}: the trace cannot be written: {}; name a file in an existing folder", path,
         error == EWOULDBLOCK ? "something else is writing this file" : std::strerror(error));
  }
  pending_.push_back('[');
  flush();
}

TraceFile::~TraceFile() {
  try {
    close();
  } catch (const Error&) {  // call close() to learn of errors
  }
}

int TraceFile::add_process(const std::string& name, const std::string& thread) {
  int pid;
  {
    const std::lock_guard lock(mutex_);
    pid = ++num_processes_;
  }
  const auto metadata = [&](const char* what, const std::string& value) {
    const nlohmann::ordered_json event = {{"ph", "M"}, {"pid", pid},   {"tid", 1},
                                          {"ts", 0},   {"name", what}, {"args", {{"name", value}}}};
    add(event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  metadata("process_name", name);
  metadata("thread_name", thread);
  return pid;
}

std::int64_t TraceFile::now_ns() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
}

void TraceFile::add(std::string_view events) {
  if (events.empty()) return;
  const std::lock_guard lock(mutex_);
  if (fd_ < 0) return;
  pending_ += any_event_ ? ",\n" : "\n";
  pending_ += events;
  any_event_ = true;
  if (pending_.size() >= kFlushBytes || now_ns() - last_flush_ns_ >= kFlushAfterNs) flush_locked();
}

void TraceFile::flush() {
  const std::lock_guard lock(mutex_);
  if (!pending_.empty() && fd_ >= 0) flush_locked();
}

void TraceFile::flush_locked() {
  last_flush_ns_ = now_ns();
  const std::size_t size = pending_.size();
  if (seekable_) pending_ += kEnd;
  for (std::size_t done = 0; done < pending_.size() && error_ == 0;) {
    const char* data = pending_.data() + done;
    const ssize_t n = seekable_ ? ::pwrite(fd_, data, pending_.size() - done, end_ + static_cast<std::int64_t>(done))
                                : ::write(fd_, data, pending_.size() - done);
    if (n >= 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  end_ += static_cast<std::int64_t>(size);
  pending_.clear();
}

void TraceFile::close() {
  const std::lock_guard lock(mutex_);
  if (fd_ >= 0) {
    if (!seekable_) pending_ += kEnd;
    if (!pending_.empty()) flush_locked();
    if (::close(std::exchange(fd_, -1)) != 0 && error_ == 0) error_ = errno;
  }
  if (error_ != 0) fail("{}: the trace could not be written: {}; it is incomplete", path_, std::strerror(error_));
}

}  // namespace mortise
