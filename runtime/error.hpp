// runtime/error.hpp: the only exception type of the host. A mistake in a script, checkpoint, request, plugin or file
// becomes an Error, whose text says what is wrong, where, and what to do. A broken invariant of our own is an assert.
// Errors never cross the C ABI: plugins return a mortise_status, and the host turns it into an Error.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace mortise {

// The kind of failure. A server maps it to an HTTP status, a command to an exit code.
enum class ErrorCode {
  kInvalid,           // the caller's mistake: the same request fails again
  kNotFound,          // a name that does not exist here
  kTooLarge,          // valid, but beyond a limit of this pipeline
  kConflict,          // valid, but for another pipeline
  kOverloaded,        // too much is waiting; the same request may be accepted later
  kDeadlineExceeded,  // the request's own deadline has passed
  kInternal,          // a part broke its contract
  kUnavailable,       // the engine accepts no requests: it drains, or a part that it needs has failed
};

// A value: each thread has its own.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text, ErrorCode code = ErrorCode::kInvalid)
      : std::runtime_error(text), code_(code) {}

  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Throws an Error with a formatted text: fail("{}:{}: unknown option '{}'; expected one of {}", file, line, key, keys).
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// The same for a code other than kInvalid.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...), code);
}

}  // namespace mortise
