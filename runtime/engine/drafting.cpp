#include "engine/drafting.hpp"

#include <algorithm>

#include "error.hpp"
#include "loader/nearest.hpp"

namespace mortise {

Drafting::Drafting(const Parts& parts, const EngineLimits& limits, std::int32_t vocab_size)
    : parts_(parts), limits_(limits) {
  for (std::size_t i = 0; i < parts.proposers.size(); ++i) drafters_.emplace_back(parts, i, vocab_size);
}

Drafters Drafting::drafters_of(const SpeculationChoice& choice) const {
  Drafters result;
  if (choice.max_tokens) {
    if (*choice.max_tokens < 0) fail("speculation.max_tokens is {}; it must be at least 0", *choice.max_tokens);
    result.max_tokens = *choice.max_tokens;
  }
  if (!choice.proposer) return result;
  std::vector<std::string> names;
  for (const ActiveProposer& proposer : parts_.proposers) names.push_back(proposer.plugin);
  names.emplace_back("none");
  const auto at = std::find(names.begin(), names.end(), *choice.proposer);
  if (at == names.end()) {
    const std::string meant = did_you_mean(*choice.proposer, names);  // ends with its question mark
    fail("speculation.proposer is '{}', which this pipeline does not have{}{} it has: {}", *choice.proposer, meant,
         meant.empty() ? ";" : "", join_names(names));
  }
  const auto index = static_cast<std::size_t>(at - names.begin());
  result.allowed = index < parts_.proposers.size() ? std::uint32_t{1} << index : 0;
  return result;
}

std::int32_t Drafting::allowance(const Sequence& sequence) const {
  // Proposers hear of a sequence with its first token; in the step that makes it they could only guess.
  if (sequence.num_generated() == 0 || !sequence.wants_tokens() || sequence.wants_scores()) return 0;
  const Drafters& drafters = sequence.owner->drafters;
  std::int32_t most = 0;
  for (std::size_t i = 0; i < parts_.proposers.size(); ++i) {
    if (drafters.allows(i)) most = std::max(most, parts_.proposers[i].max_tokens);
  }
  // The step itself yields one token more than the accepted drafts, and the last token of all is never run.
  const std::int32_t left = sequence.request().sampling.max_tokens - sequence.num_generated() - 1;
  const std::int32_t room = limits_.max_model_len - sequence.num_tokens() - 1;
  const std::int32_t rows = limits_.max_batched_tokens - 1;  // beside the row that the drafts follow
  return std::max(0, std::min({left, room, rows, most, drafters.max_tokens}));
}

void Drafting::propose(const mortise_step& step, std::span<ScheduledSequence> scheduled) {
  std::vector<Drafter::Ask> open;
  for (const ScheduledSequence& item : scheduled) {
    Sequence& sequence = *item.sequence;
    const bool decodes = sequence.num_computed + item.num_new_tokens == sequence.num_tokens();
    const std::int32_t allowed = decodes ? std::min(allowance(sequence), item.max_drafts) : 0;
    if (allowed > 0) open.push_back({&sequence, allowed});
  }
  for (std::size_t i = 0; i < drafters_.size() && !open.empty(); ++i) {
    std::vector<Drafter::Ask> asked;
    for (Drafter::Ask ask : open) {
      ask.max_drafts = std::min(ask.max_drafts, parts_.proposers[i].max_tokens);
      if (ask.max_drafts > 0 && ask.sequence->owner->drafters.allows(i)) asked.push_back(ask);
    }
    drafters_[i].propose(step, asked);
    std::erase_if(open, [](const Drafter::Ask& ask) { return !ask.sequence->drafts.empty(); });
  }
}

void Drafting::observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
                       const mortise_tensor* hidden) {
  for (Drafter& drafter : drafters_) drafter.observe(outcomes, ended, hidden);
}

std::uint64_t Drafting::num_failures() const {
  std::uint64_t sum = 0;
  for (const Drafter& drafter : drafters_) sum += drafter.num_failures();
  return sum;
}

std::uint64_t Drafting::num_sequences() const {
  std::uint64_t sum = 0;
  for (const Drafter& drafter : drafters_) sum += drafter.num_sequences();
  return sum;
}

}  // namespace mortise
