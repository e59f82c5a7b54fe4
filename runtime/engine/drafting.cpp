#include "engine/drafting.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "loader/nearest.hpp"

namespace mortise {
namespace {

// The most edits of logits that the predicted rows of a step may have together. With penalties each row has its own
// edits, one for each different token before it. Without this limit hundreds of rows after a long text would take any
// amount of memory.
constexpr std::size_t kMaxEdits = std::size_t{1} << 20;  // 16 MiB

}  // namespace

std::optional<Drafters> drafters_of(const SpeculationChoice& choice, std::span<const std::string> proposers) {
  Drafters result;
  result.max_tokens = choice.max_tokens.value_or(INT32_MAX);
  if (!choice.proposer) return result;
  if (*choice.proposer == "none") {
    result.allowed = 0;
    return result;
  }
  const auto at = std::ranges::find(proposers, *choice.proposer);
  if (at == proposers.end()) return std::nullopt;
  result.allowed = std::uint32_t{1} << (at - proposers.begin());
  return result;
}

void check_speculation(const SpeculationChoice& choice, std::span<const std::string> proposers) {
  if (choice.max_tokens && *choice.max_tokens < 0) {
    fail("speculation.max_tokens is {}; it must be at least 0", *choice.max_tokens);
  }
  if (drafters_of(choice, proposers)) return;
  std::vector<std::string> names(proposers.begin(), proposers.end());
  names.emplace_back("none");
  const std::string meant = did_you_mean(*choice.proposer, names);  // ends with its question mark
  fail("speculation.proposer is '{}', which this pipeline does not have{}{} it has: {}", *choice.proposer, meant,
       meant.empty() ? ";" : "", join_names(names));
}

Drafting::Drafting(const std::vector<ActiveProposer>& proposers, const EngineLimits& limits, std::int32_t vocab_size,
                   RepeatedMessages& messages, std::function<double()> clock)
    : limits_(limits), clock_(std::move(clock)) {
  for (std::size_t i = 0; i < proposers.size(); ++i) {
    drafters_.emplace_back(proposers[i], limits, i, vocab_size, messages);
    stats_.proposers.emplace_back().name = proposers[i].plugin;
  }
}

std::vector<ActiveProposer> Drafting::proposers() const {
  std::vector<ActiveProposer> list;
  for (const Drafter& drafter : drafters_) list.push_back(drafter.proposer());
  return list;
}

void Drafting::welcome(Sequence& sequence) const {
  std::vector<std::string> names;
  for (const Drafter& drafter : drafters_) names.push_back(drafter.proposer().plugin);
  const Drafters none{.allowed = 0};
  sequence.drafters = drafters_of(sequence.request().speculation, names).value_or(none);
  sequence.draft_state = {};
  sequence.draft_state.kind = sequence.drafters.allowed;
  sequence.draft_state.num_unseen = sequence.num_tokens();
}

template <typename Work>
double Drafting::time_of(const Work& work) const {
  const double begin = clock_();
  work();
  return clock_() - begin;
}

std::int32_t Drafting::lookahead(const Sequence& sequence) const {
  // A proposer first sees a sequence when the first generated token is known, so the step that computes this token has
  // no drafts.
  if (sequence.num_generated() == 0 || !sequence.wants_tokens() || sequence.wants_scores()) return 0;
  const Drafters& drafters = sequence.drafters;
  std::int32_t most = 0;
  for (std::size_t i = 0; i < drafters_.size(); ++i) {
    if (drafters_[i].usable() && drafters.allows(i)) most = std::max(most, drafters_[i].proposer().max_tokens);
  }
  return std::min({room_for_drafts(sequence), most, drafters.max_tokens});
}

std::int32_t Drafting::room_for_drafts(const Sequence& sequence) const {
  // The step commits one token more than the accepted drafts, and the last token of a sequence is never run.
  const std::int32_t left = sequence.max_tokens - sequence.num_generated() - 1;
  const std::int32_t room = limits_.max_model_len - sequence.num_tokens() - 1;
  const std::int32_t rows = limits_.max_batched_tokens - 1;  // the drafts follow one other row
  return std::max(0, std::min({left, room, rows}));
}

// Returns the drafts that the sequence's prediction has for its next step. The step that runs the end of the prompt may
// have drafts too.
std::span<const std::int32_t> Drafting::predicted(const Sequence& sequence) const {
  // Rejection sampling draws other tokens with drafts than without them, and a prediction must not change tokens. Plans
  // may not cut drafts there either, so a sequence with hundreds of them could wait forever.
  if (!sequence.is_predicted || limits_.rejection) return {};
  if (!sequence.wants_tokens() || sequence.wants_scores()) return {};
  const std::span<const std::int32_t> drafts = sequence.prediction.drafts();
  return drafts.first(std::min(drafts.size(), static_cast<std::size_t>(room_for_drafts(sequence))));
}

std::vector<std::int32_t> Drafting::lookaheads(std::span<Sequence* const> runnable) {
  std::vector<std::int32_t> result(runnable.size());
  std::vector<char> is_predicted(runnable.size());
  for (std::size_t i = 0; i < runnable.size(); ++i) {
    if (!runnable[i]->is_predicted) continue;
    result[i] = static_cast<std::int32_t>(predicted(*runnable[i]).size());
    is_predicted[i] = result[i] > 0;
  }
  if (drafters_.empty()) return result;
  for (std::size_t i = 0; i < runnable.size(); ++i) {
    if (!is_predicted[i]) result[i] = lookahead(*runnable[i]);
  }
  if (!limits_.adaptive_lengths) return result;
  // Sequences that decode share the time of the step. A sequence that still runs its prompt gets no drafts yet.
  std::vector<AdaptiveLengths::Candidate> decoding;
  for (std::size_t i = 0; i < runnable.size(); ++i) {
    Sequence& sequence = *runnable[i];
    sequence.draft_state.length = 0;
    if (is_predicted[i]) continue;
    if (sequence.running() && sequence.num_tokens() - sequence.num_computed == 1 && sequence.num_generated() > 0) {
      const std::int32_t most_left = sequence.max_tokens - sequence.num_generated();
      decoding.push_back({&sequence.draft_state, result[i], sequence.num_generated(), most_left});
    }
  }
  lengths_.choose(decoding);
  for (std::size_t i = 0; i < runnable.size(); ++i) {
    if (!is_predicted[i]) result[i] = runnable[i]->draft_state.length;
  }
  return result;
}

void Drafting::propose(const mortise_step& step, std::span<ScheduledSequence> scheduled) {
  num_drafting_ = max_drafts_ = num_verified_ = 0;
  draft_s_ = 0;
  any_predicted_ = false;
  std::size_t edits_left = kMaxEdits;
  std::vector<Drafter::Ask> open;
  for (const ScheduledSequence& item : scheduled) {
    Sequence& sequence = *item.sequence;
    const bool decodes = sequence.num_computed + item.num_new_tokens == sequence.num_tokens();
    if (decodes && draft_predicted(item, edits_left)) continue;
    if (drafters_.empty()) continue;
    sequence.max_drafts = decodes ? std::min(lookahead(sequence), item.max_drafts) : 0;
    if (sequence.max_drafts == 0) continue;
    open.push_back({&sequence, sequence.max_drafts});
    ++num_drafting_;
    max_drafts_ = std::max(max_drafts_, sequence.max_drafts);
  }
  ask_proposers(step, std::move(open));
}

// Gives the sequence the drafts of its prediction, as far as the plan has room. Returns whether it got any.
bool Drafting::draft_predicted(const ScheduledSequence& item, std::size_t& edits_left) {
  Sequence& sequence = *item.sequence;
  const std::span<const std::int32_t> drafts = predicted(sequence);
  if (drafts.empty()) return false;
  sequence.max_drafts = 0;
  auto count = std::min(drafts.size(), static_cast<std::size_t>(item.max_drafts));
  if (const SequenceEdits& edits = sequence.edits; edits.grows() || !edits.current().empty()) {
    const std::size_t of_a_row = edits.current().size() + count;
    count = std::min(count, edits_left / std::max<std::size_t>(1, of_a_row));
    edits_left -= count * of_a_row;
  }
  sequence.drafts.assign(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(count));
  any_predicted_ = any_predicted_ || count > 0;
  return true;
}

void Drafting::ask_proposers(const mortise_step& step, std::vector<Drafter::Ask> open) {
  for (std::size_t i = 0; i < drafters_.size() && !open.empty(); ++i) {
    if (!drafters_[i].usable()) continue;
    std::vector<Drafter::Ask> asked;
    for (Drafter::Ask ask : open) {
      ask.max_drafts = std::min(ask.max_drafts, drafters_[i].proposer().max_tokens);
      if (ask.max_drafts > 0 && ask.sequence->drafters.allows(i)) asked.push_back(ask);
    }
    const double seconds = time_of([&] { drafters_[i].propose(step, asked); });
    stats_.proposers[i].draft_s += seconds;
    draft_s_ += seconds;
    std::erase_if(open, [](const Drafter::Ask& ask) { return !ask.sequence->drafts.empty(); });
  }
}

void Drafting::observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
                       const mortise_tensor* hidden) {
  for (std::size_t i = 0; i < drafters_.size(); ++i) {
    stats_.proposers[i].draft_s += time_of([&] { drafters_[i].observe(outcomes, ended, hidden); });
  }
}

void Drafting::verified(Sequence& sequence, std::int32_t num_committed, std::int32_t num_accepted) {
  const auto num_drafts = static_cast<std::int32_t>(sequence.drafts.size());
  const bool predicted = num_drafts > 0 && sequence.drafted_by < 0;
  if (sequence.is_predicted && !limits_.rejection) {
    const auto generated =
        std::span<const std::int32_t>(sequence.tokens).subspan(static_cast<std::size_t>(sequence.num_prompt));
    sequence.prediction.advance(generated, static_cast<std::size_t>(num_committed));
  }
  if (drafters_.empty()) return;  // the rest is about proposers; welcome() begins anew when some come
  if (predicted) {  // no proposer supplied these drafts; later it has this many more unseen tokens to read
    sequence.draft_state.num_unseen += num_committed;
    return;
  }
  lengths_.verified(sequence.draft_state, sequence.max_drafts, num_drafts, num_accepted);
  if (num_drafts == 0) return;
  ++num_verified_;
  stats_.proposers[static_cast<std::size_t>(sequence.drafted_by)].add(num_drafts, num_accepted);
}

void Drafting::begin_step() {
  step_began_s_ = clock_();
}

void Drafting::end_step(std::span<const ScheduledSequence> scheduled, std::int32_t num_rows, bool is_typical) {
  const double rest_s = clock_() - step_began_s_ - draft_s_;
  if (num_verified_ > 0) {
    ++stats_.num_steps;
    stats_.verify_s += rest_s;
  }
  if (!limits_.adaptive_lengths || drafters_.empty() || !is_typical || any_predicted_) return;
  // A step with a chunk of a prompt does not show what a row of a decode step costs.
  if (std::ranges::any_of(scheduled, [](const ScheduledSequence& item) { return item.num_new_tokens > 1; })) return;
  lengths_.measured({.num_seqs = static_cast<std::int32_t>(scheduled.size()),
                     .num_rows = num_rows,
                     .num_drafting = num_drafting_,
                     .max_drafts = max_drafts_,
                     .draft_s = draft_s_,
                     .rest_s = rest_s});
}

std::uint64_t Drafting::num_failures() const {
  std::uint64_t sum = 0;
  for (const Drafter& drafter : drafters_) sum += drafter.num_failures();
  return sum;
}

std::optional<Drafting::Failure> Drafting::first_failure() const {
  for (const Drafter& drafter : drafters_) {
    if (drafter.first_failure()) return Failure{drafter.proposer().name, *drafter.first_failure()};
  }
  return std::nullopt;
}

std::optional<std::string> Drafting::why_replace() const {
  for (const Drafter& drafter : drafters_) {
    if (std::optional<std::string> why = drafter.why_replace()) return why;
  }
  return std::nullopt;
}

std::uint64_t Drafting::num_sequences() const {
  std::uint64_t sum = 0;
  for (const Drafter& drafter : drafters_) sum += drafter.num_sequences();
  return sum;
}

}  // namespace mortise
