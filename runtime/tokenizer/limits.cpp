#include "tokenizer/limits.hpp"

#include <ctime>

#include "error.hpp"

namespace mortise::tokenizer {
namespace {

using std::chrono::nanoseconds;

// The largest growth with a normal file: NFKD turns the 3 bytes of U+FDFA into 33, and the byte alphabet doubles them.
constexpr std::size_t kMaxGrowth = 64;
constexpr std::size_t kAlwaysAllowed = 64 * 1024;

// Published patterns take 0.1 microseconds per byte, and 1 without JIT.
constexpr nanoseconds kTimePerByte{4000};
constexpr nanoseconds kTimeAlways = std::chrono::seconds(2);

nanoseconds thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

}  // namespace

GrowthLimit::GrowthLimit(std::size_t input_bytes) : max_bytes_(kAlwaysAllowed + kMaxGrowth * input_bytes) {}

void GrowthLimit::check(std::size_t bytes) const {
  if (bytes <= max_bytes_) return;
  fail(
      "tokenizer.json makes a text of {} bytes more than {} times as long; check the replacements of its normalizer "
      "and pre_tokenizer",
      (max_bytes_ - kAlwaysAllowed) / kMaxGrowth, kMaxGrowth);
}

TimeLimit::TimeLimit(std::size_t input_bytes)
    : start_(std::chrono::steady_clock::now()),
      thread_start_(thread_time()),
      allowed_(kTimeAlways + kTimePerByte * input_bytes) {}

bool TimeLimit::is_over() const {
  if (std::chrono::steady_clock::now() - start_ < allowed_) return false;
  return thread_time() - thread_start_ >= allowed_;
}

}  // namespace mortise::tokenizer
