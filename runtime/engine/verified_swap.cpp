#include "engine/verified_swap.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "counted.hpp"
#include "error.hpp"

namespace mortise {
namespace {

std::string text_of(const SwapDifference& where) {
  std::string place = fmt::format("step {}", where.step);
  if (where.request) place += fmt::format(", request {}", *where.request);
  if (where.request && where.choice > 0) place += fmt::format(" choice {}", where.choice);
  return fmt::format(
      "{} does not replace it: {}, {}; {} of {} before it were equal, and the previous parts continue to serve",
      where.part, place, describe(where.difference), where.num_equal_steps, counted(where.verify_steps, "step"));
}

// Appends "NAME 1 (would be 2)" to `differing` if both values differ.
template <typename Value>
void compare(const char* name, const Value& now, const Value& next, std::vector<std::string>& differing) {
  if (now != next) differing.push_back(fmt::format("{} is {} and would be {}", name, now, next));
}

bool same_proposers(const Drafting& drafting, const std::vector<ActiveProposer>& proposers) {
  return std::ranges::equal(drafting.proposers(), proposers, {}, &ActiveProposer::self, &ActiveProposer::self);
}

}  // namespace

DifferenceError::DifferenceError(SwapDifference where)
    : Error(text_of(where), ErrorCode::kConflict), where_(std::move(where)) {}

void check_same_sizes(const EngineLimits& serving, const EngineLimits& candidate) {
  std::vector<std::string> differing;
  compare("max_num_seqs", serving.max_num_seqs, candidate.max_num_seqs, differing);
  compare("max_batched_tokens", serving.max_batched_tokens, candidate.max_batched_tokens, differing);
  compare("block_size", serving.block_size, candidate.block_size, differing);
  compare("the number of KV blocks", serving.num_blocks, candidate.num_blocks, differing);
  compare("prefix_cache", serving.prefix_cache, candidate.prefix_cache, differing);
  compare("rejection sampling", serving.rejection, candidate.rejection, differing);
  compare("adaptive_lengths", serving.adaptive_lengths, candidate.adaptive_lengths, differing);
  compare("batch_expansion", serving.batch_expansion, candidate.batch_expansion, differing);
  if (differing.empty()) return;
  fail(ErrorCode::kConflict,
       "verify_steps compares parts at the current sizes, but {}; first change only the sizes, in a swap without "
       "verify_steps, then the part",
       fmt::join(differing, ", "));
}

VerifiedSwap::VerifiedSwap(std::shared_ptr<SwapOrder> order, Replacement candidate, const Setup& serving,
                           const SetupContext& context, std::uint64_t generation)
    : order_(std::move(order)),
      candidate_(std::move(candidate)),
      patience_(context.hooks.verify_patience),
      serving_drafts_before_(drafts_of(*serving.drafting)) {
  const Parts& parts = candidate_.parts;
  check_same_sizes(serving.limits, candidate_.limits);
  const ShardParts& now = serving.execution->snapshot()->shards.front();
  if (now.model.self != parts.model.self || now.attention.self != parts.attention.self) {
    if (serving.limits.max_batch_seqs() != candidate_.limits.max_batch_seqs()) {
      fail(ErrorCode::kConflict,
           "verify_steps compares an attention or a model at the current sizes, but the new proposers would change the "
           "sizes of steps; swap the proposers first, then the other parts");
    }
    side_run_ = std::make_unique<SideRun>(now, parts, candidate_.limits, generation);
  }
  if (parts.scheduler.self != serving.planner->scheduler().self) {
    planner_ = std::make_unique<Planner>(parts.scheduler, candidate_.limits, context.messages);
  }
  if (!parts.proposers.empty() && !same_proposers(*serving.drafting, parts.proposers)) {
    drafting_ = std::make_unique<CandidateDrafting>(std::make_unique<Drafting>(
        parts.proposers, candidate_.limits, context.vocab_size, context.messages, context.hooks.clock));
  }
  if (side_run_ || planner_ || drafting_) return;
  fail(
      ErrorCode::kConflict,
      "verify_steps: the swap brings no attention, model, scheduler or proposer to compare; swap without verify_steps");
}

void VerifiedSwap::added(const std::shared_ptr<const Sequence>& sequence) {
  if (planner_) planner_->added(sequence);
}

void VerifiedSwap::ended(std::uint64_t seq_id) {
  if (planner_) planner_->ended(seq_id);
}

void VerifiedSwap::copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to) {
  if (side_run_) side_run_->copy_blocks(from, to);
}

void VerifiedSwap::observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
                           const mortise_tensor* hidden) {
  if (drafting_) drafting_->observe(outcomes, ended, hidden);
}

void VerifiedSwap::differs(SwapDifference difference, std::optional<std::uint64_t> seq_id) {
  if (difference_) return;
  difference_ = std::move(difference);
  seq_id_ = seq_id;
}

void VerifiedSwap::plan(std::uint64_t step_id, const std::vector<Sequence*>& runnable,
                        const std::vector<std::int32_t>& lookahead, const KvCache& cache, double serving_s) {
  step_id_ = step_id;
  has_planned_ = true;
  if (!planner_ || is_over()) return;
  const double begin = steady_seconds();
  const std::optional<Planner::Breach> breach = planner_->rehearse(step_id, runnable, lookahead, cache);
  plans_.candidate_s += steady_seconds() - begin;
  plans_.serving_s += serving_s;
  ++plans_.num_plans;
  if (!breach) return;
  SwapDifference difference{.part = candidate_.parts.scheduler.name};
  difference.difference.failure = "its plan is refused: " + breach->why;
  differs(std::move(difference), breach->seq_id);
}

void VerifiedSwap::propose(const mortise_step& step, std::span<const ScheduledSequence> scheduled) {
  if (drafting_ && !is_over()) drafting_->propose(step, scheduled);
}

void VerifiedSwap::end_step(const std::deque<std::shared_ptr<Sequence>>& live) {
  if (!std::exchange(has_planned_, false) || is_over()) return;
  if (side_run_ && side_run_->difference()) {
    const Difference& found = *side_run_->difference();
    const Parts& parts = candidate_.parts;
    differs({.part = side_run_->compares_models() ? parts.model.name : parts.attention.name, .difference = found},
            found.position >= 0 ? std::optional(found.seq_id) : std::nullopt);
  }
  if (const auto failure = drafting_ ? drafting_->first_failure() : std::nullopt) {
    differs({.part = failure->proposer, .difference = {.failure = "its drafts are refused: " + failure->failure.why}},
            failure->failure.seq_id);
  }
  if (difference_) {
    difference_->step = step_id_;
    difference_->num_equal_steps = num_equal_;
    difference_->verify_steps = order_->verify_steps;
    const auto at = std::ranges::find_if(live, [&](const auto& sequence) { return seq_id_ == sequence->id; });
    if (at != live.end()) {
      difference_->request = (*at)->owner->id;
      difference_->choice = (*at)->choice;
    }
    refusal_ = std::make_exception_ptr(DifferenceError(*difference_));
    return;
  }
  // A step that runs only a chunk of a prompt has no rows that need logits, and no drafts.
  const bool has_rows = !side_run_ || side_run_->num_rows() > std::exchange(num_rows_seen_, side_run_->num_rows());
  const bool has_drafts = !drafting_ || drafting_->num_drafting() > 0;
  if (!has_rows || !has_drafts) return;
  ++num_equal_;
  last_compared_ = Clock::now();
}

std::string VerifiedSwap::progress() const {
  return fmt::format("{} of {} were compared and equal", num_equal_, counted(order_->verify_steps, "step"));
}

void VerifiedSwap::refuse(ErrorCode code, const std::string& why) {
  if (is_over()) return;
  refusal_ = std::make_exception_ptr(
      Error(fmt::format("{}; {}, and the previous parts continue to serve", why, progress()), code));
}

VerifiedSwap::Verified VerifiedSwap::take() {
  if (side_run_) candidate_.same_kv = true;  // the candidate wrote KV in each step, to blocks with the same ids
  side_run_.reset();
  return {std::move(candidate_), std::move(planner_), drafting_ ? drafting_->take() : nullptr};
}

SwapFigures VerifiedSwap::figures(const Drafting& serving) const {
  SwapFigures figures;
  figures.num_recomputed = num_recomputed;
  figures.verified_steps = num_equal_;
  if (side_run_) {
    auto& rows = side_run_->compares_models() ? figures.verified.model_rows : figures.verified.attention_rows;
    rows = side_run_->num_rows();
  }
  if (planner_) figures.verified.scheduler = plans_;
  if (drafting_) {
    VerifiedFigures::Drafts of_serving = drafts_of(serving);
    of_serving.num_drafts -= serving_drafts_before_.num_drafts;
    of_serving.num_accepted -= serving_drafts_before_.num_accepted;
    of_serving.seconds -= serving_drafts_before_.seconds;
    figures.verified.proposer = {drafting_->figures(), of_serving};
  }
  return figures;
}

}  // namespace mortise
