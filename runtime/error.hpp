// runtime/error.hpp: the one exception type of the host. A mistake of a user (script, checkpoint, request, plugin, file)
// becomes an Error whose text says what is wrong, where, and what to do; a broken invariant of ours is an assert.
// Errors never cross the C ABI: plugins return a mortise_status, and the host turns it into an Error.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace mortise {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws an Error with a formatted text: fail("{}:{}: unknown option '{}'; expected one of {}", file, line, key, keys).
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace mortise
