#include "engine/drafting.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace mortise {

Drafting::Drafting(const Parts& parts, const EngineLimits& limits, std::int32_t vocab_size)
    : parts_(parts), limits_(limits), vocab_size_(vocab_size) {}

void Drafting::failed(const char* call, const char* message) {
  if (num_failures_++ == 0) spdlog::warn("{}: {}: {}; going on without drafts", parts_.proposer.name, call, message);
}

std::int32_t Drafting::allowance(const Sequence& sequence) const {
  if (!parts_.proposer || !sequence.wants_tokens() || sequence.wants_scores()) return 0;
  // The step itself yields one token more than the accepted drafts, and the last token of all is never run.
  const std::int32_t left = sequence.request().sampling.max_tokens - sequence.num_generated() - 1;
  const std::int32_t room = limits_.max_model_len - sequence.num_tokens() - 1;
  const std::int32_t rows = limits_.max_batched_tokens - 1;  // beside the row that the drafts follow
  return std::clamp(std::min({left, room, rows}), 0, limits_.max_draft_tokens);
}

void Drafting::propose(const mortise_step& step, std::span<ScheduledSequence> scheduled) {
  if (!parts_.proposer) return;
  std::vector<std::size_t> asked;
  std::vector<std::uint64_t> ids, keys;
  std::vector<std::int32_t> max_drafts;
  std::vector<float> temperatures;
  std::vector<std::int64_t> positions;
  std::int32_t width = 0;
  for (std::size_t i = 0; i < scheduled.size(); ++i) {
    const Sequence& sequence = *scheduled[i].sequence;
    const bool decodes = sequence.num_computed + scheduled[i].num_new_tokens == sequence.num_tokens();
    const std::int32_t allowed = decodes ? std::min(allowance(sequence), scheduled[i].max_drafts) : 0;
    if (allowed == 0) continue;
    asked.push_back(i);
    ids.push_back(sequence.id);
    keys.push_back(sequence.key);
    max_drafts.push_back(allowed);
    temperatures.push_back(sequence.request().sampling.temperature);
    positions.push_back(sequence.num_tokens());
    width = std::max(width, allowed);
  }
  if (asked.empty()) return;

  std::vector<std::int32_t> tokens(asked.size() * static_cast<std::size_t>(width), -1), lengths(asked.size(), 0);
  mortise_proposal_args args{};
  args.struct_size = sizeof args;
  args.num_seqs = static_cast<std::int32_t>(asked.size());
  args.max_draft = width;
  args.seq_ids = ids.data();
  args.max_drafts = max_drafts.data();
  args.keys = keys.data();
  args.temperatures = temperatures.data();
  args.positions = positions.data();
  args.tokens = tokens.data();
  args.num_drafts = lengths.data();
  mortise_error error = empty_error();
  if (parts_.proposer.api->propose(parts_.proposer.self, &step, &args, &error) != MORTISE_OK) {
    return failed("propose", error.message);
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::int32_t length = lengths[i];
    if (length < 0 || length > max_drafts[i]) {
      failed("propose", "more drafts than asked for");
      continue;
    }
    const auto row = std::span(tokens).subspan(i * static_cast<std::size_t>(width), static_cast<std::size_t>(length));
    if (std::any_of(row.begin(), row.end(), [&](std::int32_t id) { return id < 0 || id >= vocab_size_; })) {
      failed("propose", "a draft is not a token of the vocabulary");
      continue;
    }
    scheduled[asked[i]].sequence->drafts.assign(row.begin(), row.end());
  }
}

void Drafting::observe(std::span<const Outcome> outcomes, std::span<const std::uint64_t> ended) {
  if (!parts_.proposer) return;
  if (known_generation_ != parts_.generation) {
    known_.clear();
    known_generation_ = parts_.generation;
  }
  std::vector<std::uint64_t> ids;
  std::vector<std::int32_t> offsets{0}, tokens, accepted;
  for (const Outcome& outcome : outcomes) {
    const Sequence& sequence = *outcome.sequence;
    const bool known = std::binary_search(known_.begin(), known_.end(), sequence.id);
    if (!known) known_.insert(std::upper_bound(known_.begin(), known_.end(), sequence.id), sequence.id);
    const auto from = known ? sequence.tokens.end() - outcome.num_committed : sequence.tokens.begin();
    tokens.insert(tokens.end(), from, sequence.tokens.end());
    offsets.push_back(static_cast<std::int32_t>(tokens.size()));
    ids.push_back(sequence.id);
    accepted.push_back(outcome.num_accepted);
  }
  for (std::uint64_t id : ended) {
    const auto at = std::lower_bound(known_.begin(), known_.end(), id);
    if (at != known_.end() && *at == id) known_.erase(at);
  }
  mortise_observation observation{};
  observation.struct_size = sizeof observation;
  observation.num_seqs = static_cast<std::int32_t>(ids.size());
  observation.num_ended = static_cast<std::int32_t>(ended.size());
  observation.seq_ids = ids.data();
  observation.token_offsets = offsets.data();
  observation.tokens = tokens.data();
  observation.num_accepted = accepted.data();
  observation.ended_ids = ended.data();
  mortise_error error = empty_error();
  if (parts_.proposer.api->observe(parts_.proposer.self, &observation, &error) != MORTISE_OK) {
    failed("observe", error.message);
  }
}

}  // namespace mortise
