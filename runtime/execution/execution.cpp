#include "execution/execution.hpp"

#include <utility>

namespace mortise {

Execution::Execution(std::vector<ShardParts> shards, const ExecutionLimits& limits, std::uint64_t generation,
                     const std::function<void()>& between)
    : limits_(limits), snapshot_(std::make_shared<const PartsSnapshot>(PartsSnapshot{std::move(shards), generation})) {
  shards_ = make_shards(*snapshot(), between);
}

Execution::Shards Execution::make_shards(const PartsSnapshot& parts, const std::function<void()>& between) const {
  Shards shards;
  const auto world = static_cast<std::int32_t>(parts.shards.size());
  for (std::int32_t rank = 0; rank < world; ++rank) {
    shards.push_back(std::make_unique<Shard>(parts.shards[static_cast<std::size_t>(rank)], rank, world,
                                             parts.generation, limits_, between));
  }
  return shards;
}

std::optional<std::string> Execution::failure() const {
  for (const ShardParts& parts : snapshot()->shards) {
    if (std::optional<std::string> why = parts.failure()) return why;
  }
  return std::nullopt;
}

void Execution::replace(std::vector<ShardParts> shards, std::uint64_t generation) {
  auto parts = std::make_shared<const PartsSnapshot>(PartsSnapshot{std::move(shards), generation});
  // Of several shards, a later one could fail when an earlier one has its new attention already.
  if (shards_.size() == 1 && shards_.front()->differs_in_attention_alone(parts->shards.front())) {
    shards_.front()->replace_attention(parts->shards.front(), generation);
  } else {
    shards_ = make_shards(*parts, {});
  }
  snapshot_.store(std::move(parts));
}

// Shards run one after the other here: there is one until models can be cut.
void Execution::launch(const StepWork& work, const std::function<void()>& evaluating, SideRun* beside) {
  for (const auto& shard : shards_) shard->forward(work, beside);
  if (evaluating) evaluating();
  for (const auto& shard : shards_) shard->evaluate(work);
}

StepResults Execution::collect() {
  StepResults results = shards_.front()->collect();
  for (std::size_t i = 1; i < shards_.size(); ++i) shards_[i]->collect();
  return results;
}

void Execution::copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to) {
  for (const auto& shard : shards_) shard->copy_blocks(from, to);
}

}  // namespace mortise
