// runtime/jsonl/output_lines.hpp: a file that gets line after line, each as soon as it is known. What an earlier run
// left in it can be gone through and continued; nothing in the file changes before start().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "jsonl/input_lines.hpp"

namespace mortise {

// Log probabilities of long prompts with alternatives make long lines; a file is not continued behind a longer one.
inline constexpr std::size_t kMaxOutputLineBytes = std::size_t{1} << 28;

class OutputLines {
 public:
  // "-" is standard output. Opens a file, creates it if need be, and takes a lock on it. Throws an Error: it cannot be
  // written, or another run is writing it.
  explicit OutputLines(const std::string& path);
  ~OutputLines();
  OutputLines(const OutputLines&) = delete;
  OutputLines& operator=(const OutputLines&) = delete;

  const std::string& name() const { return name_; }  // for messages
  bool is_same_file(int fd) const;
  // The lines that are there; nullptr when there are none, or none can be: standard output, a pipe, a device.
  InputLines* existing() { return existing_.get(); }
  // Can a run that ends here be continued?
  bool can_continue() const { return regular_; }

  // Keeps the first bytes of the file and goes on behind them; REQUIRES: write() comes after it.
  void start(std::uint64_t keep_bytes);
  // Adds a line and hands it to the system: it stays when the process dies. Throws an Error. Once `stopped` says that
  // the run is to end, a pipe that nobody reads is left with a part of the line. REQUIRES: it has at most
  // kMaxOutputLineBytes.
  void write(std::string_view line, bool (*stopped)() = nullptr);

 private:
  std::string name_;
  int fd_ = -1;
  bool regular_ = false;
  std::unique_ptr<InputLines> existing_;
};

}  // namespace mortise
