// runtime/loader/repeated_messages.hpp: keeps repeated failures from filling the log. The first of each kind is logged,
// the others are counted, and at the end one line for each kind gives their number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "mortise/abi.h"

namespace mortise {

struct CallResult;
class PartError;

// Counts failures by part, function and code. Used by one thread at a time. Invariant: a kind with a count was logged
// once.
class RepeatedMessages {
 public:
  // Gets every failure as "PART: FUNCTION: TEXT (CODE)"; may be empty.
  using Listener = std::function<void(const std::string& failure)>;
  explicit RepeatedMessages(Listener listener = {}) : listener_(std::move(listener)) {}
  ~RepeatedMessages() { summarise(); }
  RepeatedMessages(const RepeatedMessages&) = delete;
  RepeatedMessages& operator=(const RepeatedMessages&) = delete;

  // Logs a warning "PART: FUNCTION: TEXT (CODE); CONSEQUENCE" if this part, function and code occur together for the
  // first time. A call that returned OK but invalid results has the code OK.
  void warn(const std::string& part, const char* function, mortise_status code, const std::string& text,
            const char* consequence);
  // The same for a failed call, with the part's text.
  void warn(const std::string& part, const char* function, const CallResult& failed, const char* consequence);
  void warn(const PartError& failed, const char* consequence);
  // Logs a line for each kind that occurred more than once, then starts anew as if nothing had been logged.
  void summarise();

 private:
  bool is_first(const std::string& part, const char* function, mortise_status code, const std::string& failure);

  const Listener listener_;
  std::map<std::tuple<std::string, std::string, mortise_status>, std::uint64_t> counts_;
};

}  // namespace mortise
