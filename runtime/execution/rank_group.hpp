// runtime/execution/rank_group.hpp: the ranks of a tensor-parallel pipeline: their communicators, and a thread for each
// rank but the first. Ranks wait for each other within their steps, so all of them run at the same time. With one rank
// there is neither a communicator nor a thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "execution/parts.hpp"
#include "mortise/ext/collective.h"

namespace mortise {

// Returns how many ranks the options of a device ask for, at least 1.
std::int32_t num_ranks_of(const DevicePart& device);

// Used by the thread that runs steps. Invariant: between two calls of run() no rank's thread does anything, unless
// a rank has hung; such a thread is never used again, and what it uses is kept.
class RankGroup {
 public:
  using Body = std::function<void(std::int32_t rank)>;

  // Connects the devices, by rank. Throws a PartError if they cannot be connected, and an Error if there are several
  // and they have no collective extension.
  // `patience`: how long a rank may stay away after another one has failed. A device ends the wait of a rank for
  // another one by itself, so a rank that is away for longer hangs.
  explicit RankGroup(std::vector<DevicePart> devices, std::chrono::milliseconds patience = std::chrono::seconds(60));
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  std::int32_t world() const { return static_cast<std::int32_t>(devices_.size()); }
  // For mortise_step; null with one rank.
  mortise_communicator* communicator(std::int32_t rank) const;
  const mortise_collective_table* table() const { return table_; }

  // Calls body(rank) for all ranks, for rank 0 on the calling thread and for the others on theirs, and returns when all
  // have returned. If a rank throws, the others are told to give up; then the ranks are connected anew, and the error
  // of the rank that failed first is thrown. If a rank does not come back, its device counts as failed, and an Error
  // names it. REQUIRES: what `body` uses lives as long as `body`.
  void run(Body body);

 private:
  struct Job;
  struct Thread;

  void start_threads();
  void connect();
  void disconnect();
  void connect_anew();
  static void run_one(const std::shared_ptr<Job>& job, std::int32_t rank);
  void wait_for_all(const std::shared_ptr<Job>& job);

  const std::vector<DevicePart> devices_;
  const std::chrono::milliseconds patience_;
  const mortise_collective_table* table_ = nullptr;
  std::vector<mortise_communicator*> communicators_;
  std::vector<std::unique_ptr<Thread>> threads_;  // of the ranks from 1 on
  bool hung_ = false;
};

}  // namespace mortise
