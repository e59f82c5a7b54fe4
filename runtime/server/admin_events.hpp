// runtime/server/admin_events.hpp: the changes that were made to a running server, and who made them. Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

namespace mortise {

// The latest events. Invariant: the oldest line comes first. Thread-safe.
class AdminEvents {
 public:
  static constexpr std::size_t kMaxKept = 1000;  // older events are dropped

  // Adds the time to the event, and writes it into the log as one line.
  void add(nlohmann::ordered_json event);
  // Returns one JSON event per line, the oldest first.
  std::string lines() const;

 private:
  mutable std::mutex mutex_;  // guards lines_
  std::deque<std::string> lines_;
};

}  // namespace mortise
