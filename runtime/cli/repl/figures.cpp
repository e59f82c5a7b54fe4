#include "cli/repl/figures.hpp"

#include <fmt/format.h>

#include "counted.hpp"

namespace mortise {

Figures::Speed Figures::speed_of(const Generation& generation) {
  Speed speed;
  if (generation.tokens.empty()) return speed;
  speed.num_answers = 1;
  speed.num_tokens = generation.tokens.size();
  speed.num_timed = generation.tokens.size() - 1;
  speed.decode_s = generation.total_s - generation.first_token_s;
  speed.first_token_s = generation.first_token_s;
  return speed;
}

void Figures::add(const Generation& generation) {
  const Speed speed = speed_of(generation);
  if (speed.num_answers == 0) return;
  last_ = speed;
  all_.num_answers += speed.num_answers;
  all_.num_tokens += speed.num_tokens;
  all_.num_timed += speed.num_timed;
  all_.decode_s += speed.decode_s;
  all_.first_token_s += speed.first_token_s;
}

std::string Figures::show(const Speed& speed) {
  const double rate = speed.decode_s > 0 ? static_cast<double>(speed.num_timed) / speed.decode_s : 0;
  return fmt::format("{}, {:.1f} tokens/s, first token after {:.1f} ms", counted(speed.num_tokens, "token"), rate,
                     speed.first_token_s / static_cast<double>(speed.num_answers) * 1e3);
}

std::string acceptance_bars(const ProposerStats& stats) {
  constexpr std::size_t kWidth = 30;
  std::string text;
  for (std::size_t i = 0; i < stats.drafted_at.size(); ++i) {
    const std::uint64_t drafted = stats.drafted_at[i], accepted = stats.accepted_at[i];
    if (drafted == 0) continue;
    const double share = static_cast<double>(accepted) / static_cast<double>(drafted);
    const auto filled = static_cast<std::size_t>(share * kWidth + 0.5);
    text += fmt::format("  position {:>2}  ", i + 1);
    for (std::size_t at = 0; at < kWidth; ++at) text += at < filled ? "█" : "░";
    text += fmt::format("  {:>5.1f} %  {} of {}\n", 100 * share, accepted, drafted);
  }
  return text;
}

std::string Figures::text(const EngineStats& stats, const EngineLimits& limits) const {
  std::string text;
  if (last_) {
    text += fmt::format("last answer  {}\n", show(*last_));
    text += fmt::format("{:<11}  {}{}\n", counted(all_.num_answers, "answer"), show(all_),
                        all_.num_answers == 1 ? "" : " on average");
  } else {
    text += "no answers yet\n";
  }
  text += fmt::format("KV blocks    {} used, {} cached, {} free, of {} with {} tokens each\n",
                      stats.num_blocks - stats.num_free_blocks - stats.num_cached_free_blocks,
                      stats.num_cached_free_blocks, stats.num_free_blocks, stats.num_blocks, limits.block_size);
  const std::uint64_t admitted = stats.num_admitted_tokens;
  const std::uint64_t cached = stats.num_cached_tokens;
  text += fmt::format("prompts      {}, {} of them from the cache\n", counted(admitted, "token"), cached);
  const std::uint64_t evicted = stats.num_evicted_blocks;
  if (evicted > 0) text += fmt::format("evictions    {}\n", counted(evicted, "cached block"));
  text += fmt::format("preemptions  {}\n", stats.num_preemptions);
  const std::uint64_t drafts = stats.num_drafts;
  const std::uint64_t accepted = stats.num_accepted;
  if (drafts > 0) {
    text += fmt::format("drafts       {} of {} accepted ({:.1f} %)\n", accepted, drafts,
                        100.0 * static_cast<double>(accepted) / static_cast<double>(drafts));
    for (const ProposerStats& proposer : stats.speculation.proposers) {
      if (proposer.num_verified > 0) text += describe(proposer) + "\n" + acceptance_bars(proposer);
    }
    const std::vector<std::string> lines = describe(stats.speculation);
    if (!lines.empty()) text += lines.back() + "\n";  // the last line is the time for verification
  }
  const std::uint64_t failures = stats.num_proposer_failures;
  if (failures > 0)
    text +=
        fmt::format("proposer     failed {}; the first failure was logged as a warning\n", counted(failures, "time"));
  const std::uint64_t rejected = stats.num_rejected_plans;
  if (rejected > 0)
    text += fmt::format("scheduler    {}; the first one was logged as a warning\n", counted(rejected, "bad plan"));
  return text;
}

}  // namespace mortise
