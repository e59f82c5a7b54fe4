#include "loader/repeated_messages.hpp"

#include <spdlog/spdlog.h>

#include "loader/active_part.hpp"

namespace mortise {

void RepeatedMessages::warn(const std::string& part, const char* function, mortise_status code, const std::string& text,
                            const char* consequence) {
  const std::string failure = fmt::format("{}: {}: {} ({})", part, function, text, status_name(code));
  if (is_first(part, function, code, failure)) spdlog::warn("{}; {}", failure, consequence);
}

void RepeatedMessages::warn(const std::string& part, const char* function, const CallResult& failed,
                            const char* consequence) {
  warn(PartError(part, function, failed.status, failed.error), consequence);
}

void RepeatedMessages::warn(const PartError& failed, const char* consequence) {
  if (is_first(failed.part(), failed.function(), failed.status(), failed.what())) {
    spdlog::warn("{}; {}", failed.what(), consequence);
  }
}

bool RepeatedMessages::is_first(const std::string& part, const char* function, mortise_status code,
                                const std::string& failure) {
  if (listener_) listener_(failure);
  return counts_[{part, function, code}]++ == 0;
}

void RepeatedMessages::summarise() {
  for (const auto& [kind, count] : counts_) {
    const auto& [part, function, code] = kind;
    if (count > 1) spdlog::warn("{}: {}: {} more times ({})", part, function, count - 1, status_name(code));
  }
  counts_.clear();
}

}  // namespace mortise
