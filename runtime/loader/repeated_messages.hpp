// runtime/loader/repeated_messages.hpp: failures that come again and again fill no log: the first of each kind is
// logged as it is, the others are counted, and one line for each kind says at the end how many there were.
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

// One thread at a time.
class RepeatedMessages {
 public:
  // Who hears of every failure, "PART: FUNCTION: TEXT (CODE)"; empty: nobody.
  using Listener = std::function<void(const std::string& failure)>;
  explicit RepeatedMessages(Listener listener = {}) : listener_(std::move(listener)) {}
  ~RepeatedMessages() { summarise(); }
  RepeatedMessages(const RepeatedMessages&) = delete;
  RepeatedMessages& operator=(const RepeatedMessages&) = delete;

  // A warning "PART: FUNCTION: TEXT (CODE); CONSEQUENCE" the first time that this part, function and code come
  // together. A call that returned OK and broke a bound has the code OK.
  void warn(const std::string& part, const char* function, mortise_status code, const std::string& text,
            const char* consequence);
  // The same of a call that failed, with the text that the part gave.
  void warn(const std::string& part, const char* function, const CallResult& failed, const char* consequence);
  void warn(const PartError& failed, const char* consequence);
  // One line for each kind that came more than once; then counting begins anew, with nothing logged yet.
  void summarise();

 private:
  bool is_first(const std::string& part, const char* function, mortise_status code, const std::string& failure);

  const Listener listener_;
  std::map<std::tuple<std::string, std::string, mortise_status>, std::uint64_t> counts_;
};

}  // namespace mortise
