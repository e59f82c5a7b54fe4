// runtime/bench_command/link_probe.hpp: measures the links between the devices of a pipeline of several ranks, with the
// exchange that its models use (all_gather of mortise/ext/collective.h), while no step runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench_command/probes.hpp"
#include "engine/parts.hpp"
#include "execution/device_memory.hpp"
#include "execution/rank_group.hpp"
#include "mortise/batch.h"

namespace mortise::bench {

// By rank, for a RankGroup.
std::vector<DevicePart> devices_of(const Parts& parts);

// Exchanges rows between all ranks, each on a thread of its own, over connections of its own. Used by one thread, which
// starts the others. Invariant: rows_ has room for kBytes on each rank.
class LinkProbe {
 public:
  static constexpr std::int64_t kBytes = std::int64_t{64} << 20;  // of the rows of a large exchange, on each rank

  // Rows are as long as the model's; a step has up to `step_rows`. REQUIRES: there are several ranks. Throws an Error
  // if a device has no memory left or cannot be connected.
  LinkProbe(const Parts& parts, const mortise_model_dims& dims, std::int64_t step_rows);

  LinkLimits sample();

 private:
  // An exchange, and how many of them a sample has.
  struct Size {
    std::int64_t num_rows;
    std::size_t repeats = 1;
  };

  void choose_repeats(Size& size);
  double seconds(const Size& size);  // of one exchange
  double bytes_per_s(const Size& size);
  void exchange(std::int32_t rank, std::int64_t num_rows) const;

  const std::vector<ShardParts> parts_;  // by rank
  RankGroup group_;
  const std::int32_t dtype_;
  const std::int64_t columns_;
  std::vector<std::int64_t> bounds_;                 // of the ranks' columns
  std::vector<std::unique_ptr<DeviceBuffer>> rows_;  // by rank
  Size one_, step_, large_;
};

// The limits of one rank, and of the links between all. Used by one thread. Invariant: never null.
class RankProbes : public LimitProbes {
 public:
  // `rank` measures the limits of the slowest rank.
  RankProbes(std::shared_ptr<LimitProbes> rank, const Parts& parts, const mortise_model_dims& dims,
             std::int64_t step_rows)
      : rank_(std::move(rank)),
        links_(parts, dims, step_rows),
        num_ranks_(static_cast<std::int32_t>(parts.further_ranks.size()) + 1) {}

  Limits sample() override {
    Limits limits = rank_->sample();
    limits.links = links_.sample();
    return limits;
  }
  std::string movement() const override { return rank_->movement(); }
  std::size_t working_set_bytes() const override { return rank_->working_set_bytes(); }
  std::optional<std::string> unit() const override { return rank_->unit(); }
  std::int32_t num_ranks() const override { return num_ranks_; }

 private:
  std::shared_ptr<LimitProbes> rank_;
  LinkProbe links_;
  std::int32_t num_ranks_;
};

}  // namespace mortise::bench
