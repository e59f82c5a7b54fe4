// plugins/devices/cuda/collective.hpp: the exchange between the ranks of `devices`: GPUs of one host that read each
// other's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cuda/rank_gather.hpp"
#include "mortise/ext/collective.h"

namespace mortise::cuda {

// The state that the kernels of all ranks share with the host. Its functions may be called by any thread. Invariant:
// the memory is page-locked and lives as long as this.
class GatherWatch {
 public:
  GatherWatch();  // throws Failure
  ~GatherWatch();
  GatherWatch(const GatherWatch&) = delete;
  GatherWatch& operator=(const GatherWatch&) = delete;

  RankState* state() const { return state_; }
  void abort() { state_->aborted = 1; }
  // Throws Failure if an exchange has failed: CANCELLED after abort(), UNAVAILABLE if a rank did not come.
  void check() const;

 private:
  RankState* state_ = nullptr;
};

// Those of all exchanges that a device takes part in. Its functions may be called by any thread.
class GatherWatches {
 public:
  void add(std::shared_ptr<GatherWatch> watch);
  void remove(const std::shared_ptr<GatherWatch>& watch);
  bool empty() const;
  // Throws as GatherWatch::check, of the first that has failed.
  void check() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<GatherWatch>> watches_;
};

extern const mortise_collective_table kCollective;

}  // namespace mortise::cuda
