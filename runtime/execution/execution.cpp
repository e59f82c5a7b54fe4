#include "execution/execution.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <utility>

#include "execution/warm_up_progress.hpp"

namespace mortise {
namespace {

// The longest host time of the largest batch at which the device is taken to know its algorithms. If it knows them,
// checking four sizes takes about a tenth of this.
constexpr std::chrono::milliseconds kLongestKnown{300};

}  // namespace

Execution::Execution(std::vector<ShardParts> shards, const ExecutionLimits& limits, std::uint64_t generation,
                     const std::function<void()>& between, WarmUp warm_up)
    : limits_(limits),
      warm_up_(warm_up),
      snapshot_(std::make_shared<const PartsSnapshot>(PartsSnapshot{std::move(shards), generation})) {
  shards_ = make_shards(*snapshot(), between);
}

template <typename Body>
void Execution::on_all(const std::shared_ptr<Shards>& shards, Body body) {
  shards->ranks.run([shards, body](std::int32_t rank) { body(*shards->list[static_cast<std::size_t>(rank)], rank); });
}

std::shared_ptr<Execution::Shards> Execution::make_shards(const PartsSnapshot& parts,
                                                          const std::function<void()>& between) const {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<DevicePart> devices;
  for (const ShardParts& shard : parts.shards) devices.push_back(shard.device);
  const auto shards = std::shared_ptr<Shards>(new Shards{RankGroup(std::move(devices)), {}});
  for (std::int32_t rank = 0; rank < shards->ranks.world(); ++rank) {
    shards->list.push_back(std::make_unique<Shard>(parts.shards[static_cast<std::size_t>(rank)], rank, shards->ranks,
                                                   parts.generation, limits_));
  }
  on_all(shards, [](Shard& shard, std::int32_t) { shard.run_largest(); });
  if (between) between();
  const bool searches = std::chrono::steady_clock::now() - begin > kLongestKnown;
  if (warm_up_ == WarmUp::kAtOnce || searches || between) try_sizes(shards, between);
  return shards;
}

void Execution::try_sizes(const std::shared_ptr<Shards>& shards, const std::function<void()>& between) {
  const Shard& first = *shards->list.front();
  if (first.num_untried_sizes() == 0) return;
  const auto begin = std::chrono::steady_clock::now();
  // No progress line during a swap: the terminal then belongs to other output.
  std::optional<WarmUpProgress> progress;
  if (!between) progress.emplace(first.device().name, first.num_untried_sizes());
  while (first.num_untried_sizes() > 0) {
    on_all(shards, [](Shard& shard, std::int32_t) { shard.try_next_size(); });
    if (between) between();
    if (progress) progress->step_done();
  }
  for (const auto& shard : shards->list) synchronize(shard->device());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (took.count() > 1)
    spdlog::info("{}: steps of all sizes were tried in {:.1f} s", first.device().name, took.count());
}

void Execution::try_next_size() {
  on_all(shards_, [](Shard& shard, std::int32_t) { shard.try_next_size(); });
}

std::optional<std::string> Execution::failure() const {
  for (const ShardParts& parts : snapshot()->shards) {
    if (std::optional<std::string> why = parts.failure()) return why;
  }
  return std::nullopt;
}

void Execution::replace(std::vector<ShardParts> shards, std::uint64_t generation) {
  auto parts = std::make_shared<const PartsSnapshot>(PartsSnapshot{std::move(shards), generation});
  // With several shards, a later shard could fail after an earlier one has already got its new attention.
  if (shards_ != nullptr && parts->shards.size() == 1 && shards_->list.size() == 1 &&
      shards_->list.front()->differs_in_attention_alone(parts->shards.front())) {
    shards_->list.front()->replace_attention(parts->shards.front(), generation);
  } else {
    shards_ = make_shards(*parts, {});
  }
  snapshot_.store(std::move(parts));
}

void Execution::launch(const StepWork& work, const std::function<void()>& evaluating, SideRun* beside) {
  on_all(shards_, [&work, &evaluating, beside](Shard& shard, std::int32_t rank) {
    shard.forward(work, beside);
    if (rank == 0 && evaluating) evaluating();
    shard.evaluate(work);
  });
}

StepResults Execution::collect() {
  StepResults results;
  on_all(shards_, [&results](Shard& shard, std::int32_t rank) {
    StepResults own = shard.collect();
    if (rank == 0) results = std::move(own);
  });
  return results;
}

void Execution::copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to) {
  for (const auto& shard : shards_->list) shard->copy_blocks(from, to);
}

}  // namespace mortise
