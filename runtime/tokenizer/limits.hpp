// runtime/tokenizer/limits.hpp: what a text may cost. A tokenizer.json is read from anywhere, and a few kilobytes of it
// can ask for more memory or time than there is; what is beyond these limits becomes an Error.
#pragma once

#include <chrono>
#include <cstddef>

namespace mortise::tokenizer {

// How long a text may become. Replacements that feed each other double it with every step.
class GrowthLimit {
 public:
  explicit GrowthLimit(std::size_t input_bytes);
  // Throws Error when `bytes` is too many.
  void check(std::size_t bytes) const;

 private:
  std::size_t max_bytes_;
};

// How long the regular expressions may take for a text: two seconds of the thread's own time, and more for a long text.
// Looked at every few bytes (regex.cpp); PCRE2's match limit ends what begins at one of them.
class TimeLimit {
 public:
  explicit TimeLimit(std::size_t input_bytes);
  bool is_over() const;

 private:
  // Reading the thread's time is a call into the system; it cannot be spent before as much time has passed at all.
  std::chrono::steady_clock::time_point start_;
  std::chrono::nanoseconds thread_start_;
  std::chrono::nanoseconds allowed_;
};

}  // namespace mortise::tokenizer
