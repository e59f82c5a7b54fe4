// runtime/jsonl/output_lines.hpp: a file to which lines are appended as soon as they are known. The lines of an earlier
// run can be read and continued; the file does not change before start(). Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "jsonl/input_lines.hpp"

namespace mortise {

// Log probabilities of long prompts with alternatives make long lines. A file with a longer line is not continued.
inline constexpr std::size_t kMaxOutputLineBytes = std::size_t{1} << 28;

// Invariant: a regular file is locked by this process until the destructor. Used by one thread.
class OutputLines {
 public:
  // "-" is standard output. Opens or creates the file and locks it. Throws an Error if it cannot be written, or another
  // run is writing it.
  explicit OutputLines(const std::string& path);
  ~OutputLines();
  OutputLines(const OutputLines&) = delete;
  OutputLines& operator=(const OutputLines&) = delete;

  const std::string& name() const { return name_; }  // for messages
  bool is_same_file(int fd) const;
  // Returns the existing lines; nullptr if there are none, or for standard output, a pipe or a device.
  InputLines* existing() { return existing_.get(); }
  // Whether a run that is interrupted can be continued.
  bool can_continue() const { return regular_; }

  // Keeps the first `keep_bytes` bytes of the file and continues after them.
  // REQUIRES: called before write().
  void start(std::uint64_t keep_bytes);
  // Appends a line and passes it to the system, so it survives the end of the process. Throws an Error. Once `stopped`
  // returns true, a pipe that no process reads gets only a part of the line.
  // REQUIRES: the line has at most kMaxOutputLineBytes.
  void write(std::string_view line, bool (*stopped)() = nullptr);

 private:
  std::string name_;
  int fd_ = -1;
  bool regular_ = false;
  std::unique_ptr<InputLines> existing_;
};

}  // namespace mortise
