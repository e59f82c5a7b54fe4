#include "cli/repl/pipe_lines.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cli/interrupt.hpp"
#include "error.hpp"
#include "jsonl/input_lines.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise {
namespace {

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace

Line to_line(std::string_view bytes) {
  Line line;
  tokenizer::append_lossy(bytes, /*is_end=*/true, line.text);
  line.num_replaced =
      count(line.text, tokenizer::kReplacementCharacter) - count(bytes, tokenizer::kReplacementCharacter);
  return line;
}

bool PipeLines::fill() {
  std::array<char, 65536> chunk;
  while (!ended_ && wait_for_input(descriptor_, InterruptGuard::interrupted)) {
    const ssize_t n = ::read(descriptor_, chunk.data(), chunk.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) {
      ended_ = true;
      if (n < 0) fail("standard input cannot be read: {}", std::strerror(errno));
      return false;
    }
    buffer_.append(chunk.data(), static_cast<std::size_t>(n));
    return true;
  }
  ended_ = true;
  return false;
}

std::optional<Line> PipeLines::read(const std::string& /*prompt*/) {
  ++number_;
  bool too_long = false;
  std::size_t searched = start_;
  std::size_t end;
  while ((end = buffer_.find('\n', searched)) == buffer_.npos) {
    buffer_.erase(0, start_);
    start_ = 0;
    if (buffer_.size() > kMaxInputLineBytes) {  // skips the rest of the line
      too_long = true;
      buffer_.clear();
    }
    searched = buffer_.size();
    if (!fill()) break;
  }
  if (end == buffer_.npos && buffer_.empty() && !too_long) return std::nullopt;
  end = std::min(end, buffer_.size());
  const std::string_view line = std::string_view(buffer_).substr(start_, end - start_);
  start_ = std::min(end + 1, buffer_.size());
  if (too_long || line.size() > kMaxInputLineBytes) {
    fail("is longer than {} MiB; no model accepts such a long prompt", kMaxInputLineBytes >> 20);
  }
  return to_line(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
}

std::string PipeLines::where() const {
  return fmt::format("line {}: ", number_);
}

}  // namespace mortise
