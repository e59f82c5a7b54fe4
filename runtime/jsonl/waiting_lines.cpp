#include "jsonl/waiting_lines.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "jsonl/json_line.hpp"
#include "jsonl/output_lines.hpp"

namespace mortise {
namespace {

constexpr std::string_view kMark = R"({"mortise_waiting":1,)";  // the beginning of every file
constexpr std::string_view kTail = "}\n";
constexpr std::size_t kMaxRecordBytes = kMaxOutputLineBytes + 64;
// The file is rewritten without results that no longer wait, once these take more bytes than the others and more than
// this.
constexpr std::uint64_t kMaxIdleBytes = std::uint64_t{64} << 20;

std::string record_begin(std::size_t line) {
  return fmt::format(R"({{"line":{},"result":)", line);
}

// The bytes of a record's whole line in the file.
std::uint64_t record_bytes(std::size_t line, std::uint64_t result_bytes) {
  return record_begin(line).size() + result_bytes + kTail.size();
}

bool write_all(int fd, std::string_view text, std::uint64_t at) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    at += static_cast<std::uint64_t>(written);
  }
  return true;
}

[[noreturn]] void fail_foreign(const std::string& path) {
  fail(
      "{}: a run stores results there that wait for earlier lines, but another kind of file is there; move it or give "
      "another -o",
      path);
}

}  // namespace

WaitingLines::WaitingLines(std::string path) : path_(std::move(path)) {
  struct stat status {};
  exists_ = ::lstat(path_.c_str(), &status) == 0;
  if (!exists_) return;
  if (!S_ISREG(status.st_mode)) fail_foreign(path_);
  read_records();
}

WaitingLines::~WaitingLines() {
  if (fd_ >= 0) ::close(fd_);
  if (fd_ >= 0 && records_.empty()) ::unlink(path_.c_str());
}

// Reads the records. A line that is not a record was cut off by a kill, or damaged; it and all later lines run again.
void WaitingLines::read_records() {
  InputLines lines(path_, kMaxRecordBytes);
  InputLine line;
  if (!lines.wait_next(line) || !line.terminated) {
    const std::string_view begin = std::string_view(line.text).substr(0, kMark.size());
    if (!kMark.starts_with(begin)) fail_foreign(path_);
    return;  // a kill left less than the head
  }
  if (!line.text.starts_with(kMark)) fail_foreign(path_);
  try {
    head_ = parse_json_line(line, kMaxRecordBytes);
  } catch (const Error&) {
    fail_foreign(path_);
  }
  end_ = head_end_ = line.end;
  while (lines.wait_next(line) && line.terminated) {
    std::size_t number = 0;
    try {
      number = parse_json_line(line, kMaxRecordBytes).at("line").get<std::size_t>();
    } catch (const std::exception&) {
      return;
    }
    const std::string begin = record_begin(number);
    // Requires the exact form with nothing between two records, so that offsets follow from lengths.
    if (line.begin != end_ || !line.text.starts_with(begin) || line.num_bytes() != line.text.size() + 1) return;
    Record record{line.begin + begin.size(), line.num_bytes() - begin.size() - kTail.size()};
    end_ = line.end;
    if (records_.contains(number)) waiting_bytes_ -= record_bytes(number, records_[number].bytes);
    waiting_bytes_ += line.num_bytes();
    records_[number] = record;  // if a line ran again, its last result counts
  }
}

void WaitingLines::start(const nlohmann::json& head) {
  if (head_) {
    ::unlink(temporary_path().c_str());  // a kill may have left it
    fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(end_)) != 0) {
      fail("{}: cannot be continued: {}; check its permissions", path_, std::strerror(errno));
    }
    return;
  }
  remove();
  head_ = head;
}

bool WaitingLines::append(std::string_view text) {
  if (write_all(fd_, text, end_)) {
    end_ += text.size();
    return true;
  }
  spdlog::info("{}: cannot be written: {}; results wait in memory", path_, std::strerror(errno));
  failed_ = true;
  return false;
}

bool WaitingLines::keep(std::size_t line, std::string_view result) {
  if (failed_) return false;
  if (fd_ < 0) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) {
      spdlog::info("{}: cannot be written: {}; results wait in memory", path_, std::strerror(errno));
      failed_ = true;
      return false;
    }
    exists_ = true;
    std::string head(kMark);
    head += head_->dump().substr(1) + '\n';
    if (!append(head)) return false;
    head_end_ = end_;
  }
  const std::string begin = record_begin(line);
  const Record record{end_ + begin.size(), result.size()};
  if (!append(begin + std::string(result) + std::string(kTail))) return false;
  records_.emplace(line, record);
  waiting_bytes_ += record_bytes(line, record.bytes);
  return true;
}

std::optional<std::string> WaitingLines::read(std::size_t line) const {
  const auto found = records_.find(line);
  if (found == records_.end()) return std::nullopt;
  std::string text(found->second.bytes, '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n =
        ::pread(fd_, text.data() + done, text.size() - done, static_cast<off_t>(found->second.begin + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("{}: cannot be read: {}", path_, n < 0 ? std::strerror(errno) : "it became shorter");
    done += static_cast<std::size_t>(n);
  }
  return text;
}

void WaitingLines::drop(std::size_t line) {
  const auto found = records_.find(line);
  if (found == records_.end()) return;
  const std::uint64_t bytes = record_bytes(line, found->second.bytes);
  records_.erase(found);
  dropped(bytes);
}

void WaitingLines::drop_up_to(std::size_t line) {
  while (!records_.empty() && records_.begin()->first <= line) drop(records_.begin()->first);
}

void WaitingLines::remove() {
  records_.clear();
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (std::exchange(exists_, false)) ::unlink(path_.c_str());
  head_.reset();
  end_ = head_end_ = waiting_bytes_ = 0;
}

// Counts bytes of results that no longer wait, and rewrites the file when there are too many. Otherwise it would grow
// to the size of the output.
void WaitingLines::dropped(std::uint64_t bytes) {
  waiting_bytes_ -= bytes;
  const std::uint64_t idle = end_ - head_end_ - waiting_bytes_;
  if (records_.empty()) {
    if (::ftruncate(fd_, static_cast<off_t>(head_end_)) == 0) end_ = head_end_;
  } else if (!failed_ && idle > kMaxIdleBytes + waiting_bytes_ && !rewrite()) {
    spdlog::info("{}: cannot be written again: {}; results wait in memory", path_, std::strerror(errno));
    failed_ = true;
  }
}

// Replaces the file as a whole, so that a kill leaves either the old or the new one.
bool WaitingLines::rewrite() {
  const std::string temporary = temporary_path();
  const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return false;
  std::string text(head_end_, '\0');
  bool good = ::pread(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) && write_all(fd, text, 0);
  std::uint64_t end = head_end_;
  std::map<std::size_t, Record> moved;
  for (auto it = records_.begin(); good && it != records_.end(); ++it) {
    const std::string begin = record_begin(it->first);
    text = begin + *read(it->first) + std::string(kTail);
    good = write_all(fd, text, end);
    moved.emplace_hint(moved.end(), it->first, Record{end + begin.size(), it->second.bytes});
    end += text.size();
  }
  good = good && ::rename(temporary.c_str(), path_.c_str()) == 0;
  if (!good) {
    const int why = errno;
    ::close(fd);
    ::unlink(temporary.c_str());
    errno = why;
    return false;
  }
  ::close(std::exchange(fd_, fd));
  records_ = std::move(moved);
  end_ = end;
  return true;
}

}  // namespace mortise
