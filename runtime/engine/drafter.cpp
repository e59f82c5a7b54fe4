#include "engine/drafter.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace mortise {
namespace {

// The most ended ids that are kept for a proposer whose observe fails.
constexpr std::size_t kMaxOwed = 100'000;

constexpr const char* kStepWithout = "the step continues without its drafts";

}  // namespace

// The arrays that a mortise_observation points to.
struct Drafter::Telling {
  std::vector<std::uint64_t> ids;
  std::vector<std::int32_t> offsets{0}, tokens, accepted, first_positions, hidden_rows;

  void add(const StepOutcome& outcome, std::int32_t num_told) {
    const Sequence& sequence = *outcome.sequence;
    tokens.insert(tokens.end(), sequence.tokens.begin() + num_told, sequence.tokens.end());
    offsets.push_back(static_cast<std::int32_t>(tokens.size()));
    ids.push_back(sequence.id);
    accepted.push_back(outcome.num_accepted);
    first_positions.push_back(num_told);
    hidden_rows.push_back(outcome.hidden_row);
  }

  mortise_observation abi(std::span<const std::uint64_t> ended) const {
    mortise_observation observation{};
    observation.struct_size = sizeof observation;
    observation.num_seqs = static_cast<std::int32_t>(ids.size());
    observation.num_ended = static_cast<std::int32_t>(ended.size());
    observation.seq_ids = ids.data();
    observation.token_offsets = offsets.data();
    observation.tokens = tokens.data();
    observation.num_accepted = accepted.data();
    observation.ended_ids = ended.data();
    observation.first_positions = first_positions.data();
    return observation;
  }
};

Drafter::Drafter(ActiveProposer proposer, const EngineLimits& limits, std::size_t index, std::int32_t vocab_size,
                 RepeatedMessages& messages)
    : proposer_(std::move(proposer)), limits_(limits), index_(index), vocab_size_(vocab_size), messages_(messages) {}

void Drafter::failed(const char* call, const CallResult& result) {
  ++num_failures_;
  if (!first_failure_) {
    first_failure_ = {fmt::format("{} failed: {} ({})", call, result.error.message, status_name(result.status)),
                      std::nullopt};
  }
  last_failure_ = fmt::format("{}: {}", call, result.error.message);
  messages_.warn(proposer().name, call, result,
                 usable() ? kStepWithout : "it will not be called again; requests continue without its drafts");
}

void Drafter::broke_bound(const Sequence& sequence, const std::string& why) {
  ++num_failures_;
  if (!first_failure_) first_failure_ = {why, sequence.id};
  last_failure_ = "propose: " + why;
  messages_.warn(proposer().name, "propose", MORTISE_OK, why, kStepWithout);
}

std::optional<std::string> Drafter::why_replace() const {
  if (!usable()) return proposer().health->reason();
  if (num_failures_ < kMaxFailures) return std::nullopt;
  return fmt::format("{} has failed {} times, the last time in {}", proposer().name, num_failures_, last_failure_);
}

bool Drafter::has_told(const Sequence& sequence) const {
  const auto known = known_.find(sequence.id);
  return known != known_.end() && known->second.num_told == sequence.num_tokens();
}

void Drafter::propose(const mortise_step& step, std::span<const Ask> open) {
  std::vector<Ask> asked;
  std::ranges::copy_if(open, std::back_inserter(asked), [&](const Ask& ask) { return has_told(*ask.sequence); });
  if (asked.empty() || !usable()) return;
  std::vector<std::uint64_t> ids, keys;
  std::vector<std::int32_t> max_drafts, top_ks;
  std::vector<float> temperatures, top_ps, min_ps;
  std::vector<std::int64_t> positions;
  for (const auto& [sequence, allowed] : asked) {
    ids.push_back(sequence->id);
    keys.push_back(sequence->key);
    max_drafts.push_back(allowed);
    const SamplingParams& sampling = sequence->request().sampling;
    temperatures.push_back(sampling.temperature);
    top_ks.push_back(sampling.top_k);
    top_ps.push_back(sampling.top_p);
    min_ps.push_back(sampling.min_p);
    positions.push_back(sequence->num_tokens());
  }
  // Only coupled verification can verify trees.
  const std::size_t max_paths = limits_.rejection ? 1 : static_cast<std::size_t>(proposer().max_paths);
  const auto width = max_paths * static_cast<std::size_t>(*std::max_element(max_drafts.begin(), max_drafts.end()));
  std::vector<std::int32_t> tokens(asked.size() * width, -1), lengths(asked.size(), 0), parents;
  if (max_paths > 1) parents.assign(tokens.size(), -1);
  mortise_proposal_args args{};
  args.struct_size = sizeof args;
  args.num_seqs = static_cast<std::int32_t>(asked.size());
  args.draft_stride = static_cast<std::int32_t>(width);
  args.seq_ids = ids.data();
  args.max_drafts = max_drafts.data();
  args.keys = keys.data();
  args.temperatures = temperatures.data();
  args.positions = positions.data();
  args.top_ks = top_ks.data();
  args.top_ps = top_ps.data();
  args.min_ps = min_ps.data();
  args.tokens = tokens.data();
  args.num_drafts = lengths.data();
  if (!parents.empty()) args.parents = parents.data();
  const std::size_t row_size = gives_distributions() ? width * static_cast<std::size_t>(vocab_size_) : 0;
  std::vector<float> distributions(asked.size() * row_size);
  if (row_size > 0) args.distributions = distributions.data();
  const CallResult result = proposer().try_call<&mortise_proposer_table::propose>("propose", &step, &args);
  if (!result.ok()) return failed("propose", result);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::int32_t length = lengths[i];
    const std::int32_t most = parents.empty() ? asked[i].max_drafts : static_cast<std::int32_t>(width);
    if (length < 0 || length > most) {
      broke_bound(*asked[i].sequence, fmt::format("{} drafts, but at most {} were asked for", length, most));
      continue;
    }
    const auto row = std::span(tokens).subspan(i * width, static_cast<std::size_t>(length));
    const auto wrong =
        std::find_if(row.begin(), row.end(), [&](std::int32_t id) { return id < 0 || id >= vocab_size_; });
    if (wrong != row.end()) {
      broke_bound(*asked[i].sequence,
                  fmt::format("token id {} is not in the vocabulary of {} tokens", *wrong, vocab_size_));
      continue;
    }
    if (parents.empty()) {
      asked[i].sequence->drafts.assign(row.begin(), row.end());
    } else if (!take_tree(asked[i], row, std::span(parents).subspan(i * width, row.size()))) {
      continue;
    }
    asked[i].sequence->drafted_by = static_cast<std::int32_t>(index_);
    if (row_size > 0 && !take_distributions(*asked[i].sequence, std::span(distributions).subspan(i * row_size))) {
      asked[i].sequence->drafts.clear();
    }
  }
}

// Returns false if the drafts are not a tree, or if one of its paths is too long.
bool Drafter::take_tree(const Ask& ask, std::span<const std::int32_t> tokens, std::span<const std::int32_t> parents) {
  std::string why;
  std::vector<std::vector<std::int32_t>> paths = paths_of(tokens, parents, ask.max_drafts, why);
  if (!why.empty()) {
    broke_bound(*ask.sequence, why);
    return false;
  }
  for (std::vector<std::int32_t>& path : paths) {
    if (ask.sequence->drafts.empty()) {
      ask.sequence->drafts = std::move(path);
    } else if (ask.sequence->num_tokens() - ask.sequence->num_computed == 1) {
      // If the step also runs other tokens, the fork's copy of the last block would lack their KV.
      ask.sequence->forks.push_back({std::move(path), {}, 0});
    }
  }
  return true;
}

bool Drafter::gives_distributions() const {
  return limits_.rejection && (proposer().capabilities & MORTISE_CAP_DISTRIBUTION) != 0;
}

// Stores the distributions that the sequence's drafts were drawn from, one row for each draft. Returns false if a row
// is not a distribution.
bool Drafter::take_distributions(Sequence& sequence, std::span<const float> rows) {
  if (sequence.request().sampling.temperature == 0) return true;  // greedy: a draft is compared with the arg max
  const auto vocab = static_cast<std::size_t>(vocab_size_);
  for (std::size_t i = 0; i < sequence.drafts.size(); ++i) {
    const std::span<const float> row = rows.subspan(i * vocab, vocab);
    const bool valid = std::ranges::all_of(row, [](float q) { return q >= 0 && std::isfinite(q); });
    if (valid && row[static_cast<std::size_t>(sequence.drafts[i])] > 0) continue;
    broke_bound(sequence, valid ? "a draft that has no probability in its own distribution"
                                : "the distribution of a draft has numbers that are not probabilities");
    return false;
  }
  sequence.draft_distributions.assign(rows.begin(),
                                      rows.begin() + static_cast<std::ptrdiff_t>(sequence.drafts.size() * vocab));
  return true;
}

std::uint64_t Drafter::num_sequences() const {
  if (proposer().sequences == nullptr) return 0;
  return proposer().value_of("num_sequences", std::uint64_t{0},
                             [&] { return proposer().sequences->num_sequences(proposer().self); });
}

void Drafter::take_ended(std::span<const std::uint64_t> ended) {
  for (std::uint64_t id : ended) {
    if (known_.erase(id) > 0) ended_.push_back(id);
  }
  if (ended_.size() > kMaxOwed) ended_.clear();
}

void Drafter::observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
                      const mortise_tensor* hidden) {
  if (!usable()) return;
  take_ended(ended);
  Telling telling;
  for (const StepOutcome& outcome : outcomes) {
    if (!outcome.sequence->drafters.allows(index_)) continue;
    Known& known = known_[outcome.sequence->id];
    telling.add(outcome, known.num_told);
    known.num_told = outcome.sequence->num_tokens();
  }
  if (telling.ids.empty() && ended_.empty()) return;
  mortise_observation observation = telling.abi(ended_);
  if (hidden != nullptr && (proposer().capabilities & MORTISE_CAP_NEEDS_HIDDEN) != 0) {
    observation.hidden = hidden;
    observation.hidden_rows = telling.hidden_rows.data();
  }
  const CallResult result = proposer().try_call<&mortise_proposer_table::observe>("observe", &observation);
  if (result.ok()) return ended_.clear();
  // The proposer may or may not have stored these tokens, so the next call sends the whole history of these sequences.
  for (std::uint64_t id : telling.ids) known_[id].num_told = 0;
  failed("observe", result);
}

}  // namespace mortise
