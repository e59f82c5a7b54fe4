// runtime/jsonl/input_lines.hpp: reads a file or standard input line by line. Memory is bounded by the limit of one
// line, whatever the file holds. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace mortise {

// The limit for lines that people and programs write. No prompt is as long, so a longer line is an accident, and a
// stream without newlines must not fill the memory.
inline constexpr std::size_t kMaxInputLineBytes = std::size_t{16} << 20;

// A line of the input and its place in the file. A value.
struct InputLine {
  std::size_t number = 0;   // from 1; includes blank lines
  std::string text;         // without the line end (\n or \r\n) and without a byte order mark
  bool too_long = false;    // text has only the beginning
  bool terminated = true;   // false: the last line has no line end
  std::uint64_t begin = 0;  // offset of its first byte
  std::uint64_t end = 0;    // offset after its line end
  std::uint64_t num_bytes() const { return end - begin; }
};

// Invariant: buffered text is at most one line of max_line_bytes_ and one read. Used by one thread.
class InputLines {
 public:
  // "-" is standard input. Throws an Error if `path` cannot be read. A line longer than `max_line_bytes` is cut to that
  // length.
  InputLines(const std::string& path, std::size_t max_line_bytes);
  ~InputLines();
  InputLines(const InputLines&) = delete;
  InputLines& operator=(const InputLines&) = delete;

  enum class Next { kLine, kEnd, kNotYet };
  // Reads the next line that is not blank. kNotYet: a pipe or terminal has no data now; poll fd() and try again.
  Next next(InputLine& line);
  // The same, but waits for data. Returns false at the end.
  bool wait_next(InputLine& line);
  // Makes the last line read the next one again.
  void put_back(InputLine line) { put_back_ = std::move(line); }

  const std::string& name() const { return name_; }  // for messages
  std::size_t max_line_bytes() const { return max_line_bytes_; }
  int fd() const { return fd_; }
  std::optional<std::uint64_t> size() const { return size_; }  // nullopt: not a regular file
  // When a regular file was last modified, in Unix seconds; otherwise the current time.
  std::int64_t modified() const { return modified_; }

 private:
  bool take_line(InputLine& line);  // false: the buffer has no whole line
  void keep(const char* data, std::size_t size);
  void finish_line(InputLine& line, bool terminated);

  std::string name_;
  std::size_t max_line_bytes_;
  int fd_ = -1;
  bool always_ready_ = false;
  std::optional<std::uint64_t> size_;
  std::int64_t modified_ = 0;

  std::string buffer_;  // read, but not returned yet
  std::size_t buffer_begin_ = 0;
  std::string partial_;  // part of the current line; at most max_line_bytes_
  bool partial_too_long_ = false;
  std::uint64_t line_begin_ = 0, offset_ = 0;
  std::size_t number_ = 0;
  bool ended_ = false;
  std::optional<InputLine> put_back_;
};

}  // namespace mortise
