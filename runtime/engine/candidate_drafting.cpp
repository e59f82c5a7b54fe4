#include "engine/candidate_drafting.hpp"

#include <limits>
#include <utility>

namespace mortise {
namespace {

// Gives a sequence the draft state that the candidate's proposers need. The destructor restores the state of the
// serving proposers. Engine's thread only.
class BorrowedDraftState {
 public:
  BorrowedDraftState(Sequence& sequence, const Drafting& candidate) : sequence_(sequence) {
    exchange();
    candidate.welcome(sequence_);
  }
  ~BorrowedDraftState() { exchange(); }
  BorrowedDraftState(const BorrowedDraftState&) = delete;
  BorrowedDraftState& operator=(const BorrowedDraftState&) = delete;

 private:
  void exchange() {
    std::swap(sequence_.drafts, drafts_);
    std::swap(sequence_.forks, forks_);
    std::swap(sequence_.drafted_by, drafted_by_);
    std::swap(sequence_.draft_distributions, distributions_);
    std::swap(sequence_.max_drafts, max_drafts_);
    std::swap(sequence_.drafters, drafters_);
    std::swap(sequence_.draft_state, state_);
  }

  Sequence& sequence_;
  std::vector<std::int32_t> drafts_;
  std::vector<DraftFork> forks_;
  std::int32_t drafted_by_ = -1, max_drafts_ = 0;
  std::vector<float> distributions_;
  Drafters drafters_;
  DraftState state_;
};

}  // namespace

void CandidateDrafting::propose(const mortise_step& step, std::span<const ScheduledSequence> scheduled) {
  std::deque<BorrowedDraftState> borrowed;
  std::vector<ScheduledSequence> own;
  for (const ScheduledSequence& item : scheduled) {
    borrowed.emplace_back(*item.sequence, *candidate_);
    own.push_back({item.sequence, item.num_new_tokens, std::numeric_limits<std::int32_t>::max()});
  }
  candidate_->propose(step, own);
  num_drafting_ = 0;
  for (const ScheduledSequence& item : own) {
    Sequence& sequence = *item.sequence;
    if (sequence.max_drafts > 0) ++num_drafting_;
    if (sequence.drafted_by < 0 || sequence.drafts.empty()) continue;
    pending_[sequence.id].push_back({sequence.tokens.size(), std::move(sequence.drafts)});
  }
}

void CandidateDrafting::observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
                                const mortise_tensor* hidden) {
  for (const StepOutcome& outcome : outcomes) judge(*outcome.sequence);
  for (const std::uint64_t id : ended) pending_.erase(id);
  std::deque<BorrowedDraftState> borrowed;
  for (const StepOutcome& outcome : outcomes) borrowed.emplace_back(*outcome.sequence, *candidate_);
  candidate_->observe(outcomes, ended, hidden);
}

// Counts the drafts that are now known to be accepted or rejected. Drafts after a rejected one are rejected too.
void CandidateDrafting::judge(const Sequence& sequence) {
  const auto found = pending_.find(sequence.id);
  if (found == pending_.end()) return;
  std::erase_if(found->second, [&](const Pending& pending) {
    std::size_t count = 0;
    const auto token = [&] { return pending.first + count; };
    while (count < pending.drafts.size() && token() < sequence.tokens.size() &&
           sequence.tokens[token()] == pending.drafts[count]) {
      ++count;
    }
    if (count < pending.drafts.size() && token() == sequence.tokens.size()) return false;
    figures_.num_drafts += pending.drafts.size();
    figures_.num_accepted += count;
    return true;
  });
}

VerifiedFigures::Drafts CandidateDrafting::figures() const {
  VerifiedFigures::Drafts figures = figures_;
  figures.seconds = drafts_of(*candidate_).seconds;
  return figures;
}

VerifiedFigures::Drafts drafts_of(const Drafting& drafting) {
  VerifiedFigures::Drafts sum;
  for (const ProposerStats& stats : drafting.stats().proposers) {
    sum.num_drafts += stats.num_drafts;
    sum.num_accepted += stats.num_accepted;
    sum.seconds += stats.draft_s;
  }
  return sum;
}

}  // namespace mortise
