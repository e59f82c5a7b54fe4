// plugins/devices/cpu/collective.hpp: the exchange between the ranks of a CPU device with `shards`: threads of one
// process that read each other's rows in memory.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "mortise/ext/collective.h"

namespace mortise::cpu {

// Where the ranks meet. Each rank's thread calls meet(); abort() may be called by any thread. Invariant: no rank leaves
// a meeting before all ranks have come to it, or the meeting place is closed. Once closed, it stays closed.
class MeetingPlace {
 public:
  enum class Outcome { kMet, kAborted, kLate };

  // A rank that waits longer than `patience` closes the place.
  MeetingPlace(std::int32_t world, std::chrono::milliseconds patience);

  std::int32_t world() const { return static_cast<std::int32_t>(meetings_.size()); }
  // Waits for all ranks. kLate: a rank did not come in time; late_rank() is its number.
  Outcome meet(std::int32_t rank);
  void abort() noexcept;
  std::int32_t late_rank() const { return late_rank_.load(std::memory_order_acquire); }

 private:
  bool all_came(std::uint64_t meeting) const;

  // Padded, because each rank writes its own and all others read it.
  struct alignas(64) Count {
    std::atomic<std::uint64_t> value{0};
  };
  std::vector<Count> meetings_;  // by rank: to how many meetings it has come
  std::atomic<bool> closed_{false};
  std::atomic<std::int32_t> late_rank_{-1};
  std::atomic<std::int32_t> sleeping_{0};
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;  // with wake_, for ranks that wait long
  std::condition_variable wake_;
};

extern const mortise_collective_table kCollective;

}  // namespace mortise::cpu
