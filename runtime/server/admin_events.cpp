#include "server/admin_events.hpp"

#include <spdlog/spdlog.h>

#include <chrono>

namespace mortise {

void AdminEvents::add(nlohmann::ordered_json event) {
  nlohmann::ordered_json timed = {
      {"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()}};
  timed.update(event);
  // Names and texts may come from a client: bytes that are not UTF-8 are replaced.
  const std::string line = timed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  spdlog::info("{}", line);
  const std::lock_guard lock(mutex_);
  lines_.push_back(line + '\n');
  if (lines_.size() > kMaxKept) lines_.pop_front();
}

std::string AdminEvents::lines() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const std::string& line : lines_) all += line;
  return all;
}

}  // namespace mortise
