// runtime/tokenizer/limits.hpp: limits memory and time for a text. A tokenizer.json may come from anywhere, and a few
// kilobytes of it can demand more memory or time than there is. Exceeding a limit is an Error.
#pragma once

#include <chrono>
#include <cstddef>

namespace mortise::tokenizer {

// Limits the length of a text. (Replacements that feed each other double it with every step.) Immutable: any thread may
// use it.
class GrowthLimit {
 public:
  explicit GrowthLimit(std::size_t input_bytes);
  // Throws an Error if `bytes` is too large.
  void check(std::size_t bytes) const;

 private:
  std::size_t max_bytes_;
};

// Limits the time of regular expressions for a text: two seconds of the thread's CPU time, more for a long text.
// Checked every few bytes (regex.cpp); PCRE2's match limit ends a match between two checks. Used by the thread that
// made it, whose CPU time it measures. Invariant: once it is over, it stays over.
class TimeLimit {
 public:
  explicit TimeLimit(std::size_t input_bytes);
  bool is_over() const;

 private:
  // Reading the CPU time is a system call, so it is read only after that much wall time has passed.
  std::chrono::steady_clock::time_point start_;
  std::chrono::nanoseconds thread_start_;
  std::chrono::nanoseconds allowed_;
};

}  // namespace mortise::tokenizer
