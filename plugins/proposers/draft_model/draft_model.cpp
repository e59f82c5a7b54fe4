#include "proposers/draft_model/draft_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mortise::draft_model {
namespace {

// Returns the options that the host needs for the runner.
std::string runner_options(const Options& options) {
  return "{\"kv_memory\": " + options.get_json("kv_memory") + ", \"attention\": " + options.get_json("attention") +
         ", \"dtype\": " + options.get_json("dtype") + ", \"devices\": " + options.get_json("devices") + "}";
}

}  // namespace

DraftModel::DraftModel(const mortise_host* host, const mortise_create_args&, const Options& options)
    : runner_(host, options.get<std::string>("path"), runner_options(options)),
      branches_(options.get<std::int32_t>("branches")) {}

void DraftModel::bind(const mortise_proposer_bind_args& args) {
  runner_.open(/*max_forks=*/branches_ - 1);
  vocab_size_ = static_cast<std::size_t>(runner_.dims().vocab_size);
  target_vocab_size_ = static_cast<std::size_t>(args.target->vocab_size);
}

// Each pass of the runner adds one draft to all branches of all sequences.
void DraftModel::propose(const mortise_proposal_args& args) {
  end_forks();  // forks of a failed proposal
  runner_.drop_drafts();
  growing_.clear();
  for (std::int32_t i = 0; i < args.num_seqs; ++i) {
    args.num_drafts[i] = 0;
    if (args.max_drafts[i] > 0 && runner_.knows(args.seq_ids[i])) growing_.push_back({i, args.seq_ids[i]});
  }
  for (std::int32_t depth = 0; !growing_.empty(); ++depth) {
    const std::int32_t num_choices = depth == 0 && args.parents != nullptr ? branches_ : 1;
    run(args, num_choices);
    take(args, num_choices);
    if (num_choices > 1) fork(args, num_choices);
    std::erase_if(growing_,
                  [&](const Branch& branch) { return branch.ended || depth + 1 >= args.max_drafts[branch.row]; });
  }
  end_forks();
}

void DraftModel::end_forks() {
  runner_.end(forks_);
  forks_.clear();
}

void DraftModel::run(const mortise_proposal_args& args, std::int32_t num_choices) {
  sampled_.resize(growing_.size() * static_cast<std::size_t>(num_choices));
  mortise_runner_step step = runner_.make_step(args, growing_);
  step.num_choices = num_choices;
  step.sampled = sampled_.data();
  if (args.distributions != nullptr) {
    // The reported distribution of a draft is the softmax of the logits, without filters.
    step.top_ks = nullptr;
    step.top_ps = step.min_ps = nullptr;
    logits_.resize(growing_.size() * vocab_size_);
    step.logits = logits_.data();
  }
  runner_.run(step);
}

// Appends each branch's draw to its row.
void DraftModel::take(const mortise_proposal_args& args, std::int32_t num_choices) {
  for (std::size_t i = 0; i < growing_.size(); ++i) {
    Branch& branch = growing_[i];
    branch.last = add_draft(args, branch, sampled_[i * static_cast<std::size_t>(num_choices)]);
    branch.ended = branch.last < 0;
    if (!branch.ended && args.distributions != nullptr) take_distribution(args, branch, i);
  }
}

// Writes the distribution of the branch's last draft; the branch is number `index` of the pass. It is softmax(logits /
// temperature) over the target's tokens, because a draw of any other token is no draft.
void DraftModel::take_distribution(const mortise_proposal_args& args, const Branch& branch, std::size_t index) const {
  const float temperature = args.temperatures[branch.row];
  if (temperature == 0) return;
  const auto at = static_cast<std::size_t>(branch.row * args.draft_stride + branch.last);
  float* const row = args.distributions + at * target_vocab_size_;
  std::fill_n(row, target_vocab_size_, 0.0f);
  const std::size_t count = std::min(vocab_size_, target_vocab_size_);
  const float* const logits = logits_.data() + index * vocab_size_;
  const auto clean = [](float logit) {
    return std::isnan(logit) ? -std::numeric_limits<double>::infinity()
                             : static_cast<double>(std::min(logit, std::numeric_limits<float>::max()));
  };
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, clean(logits[i]));
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::exp((clean(logits[i]) - largest) / temperature);
  for (std::size_t i = 0; i < count; ++i) {
    row[i] = static_cast<float>(std::exp((clean(logits[i]) - largest) / temperature) / sum);
  }
}

// Adds a draft to the branch's row. Returns its index in the row, or -1 if it is no draft.
std::int32_t DraftModel::add_draft(const mortise_proposal_args& args, const Branch& branch, std::int32_t token) const {
  std::int32_t& count = args.num_drafts[branch.row];
  if (token < 0 || count == args.draft_stride) return -1;
  const std::int32_t at = branch.row * args.draft_stride + count;
  args.tokens[at] = token;
  if (args.parents != nullptr) args.parents[at] = branch.last;
  return count++;
}

// Begins a branch for each further choice of the first draft.
void DraftModel::fork(const mortise_proposal_args& args, std::int32_t num_choices) {
  origins_.clear();
  fork_tokens_.clear();
  const std::size_t num_origins = growing_.size();
  for (std::size_t i = 0; i < num_origins; ++i) {
    const Branch origin = growing_[i];
    for (std::int32_t choice = 1; choice < num_choices && !origin.ended; ++choice) {
      const std::int32_t token = sampled_[i * static_cast<std::size_t>(num_choices) + static_cast<std::size_t>(choice)];
      Branch branch{origin.row, MORTISE_RUNNER_FORK_BIT | forks_.size()};
      branch.last = add_draft(args, branch, token);
      if (branch.last < 0 || args.max_drafts[origin.row] == 1) continue;
      forks_.push_back(branch.seq_id);
      origins_.push_back(origin.seq_id);
      fork_tokens_.push_back(token);
      growing_.push_back(branch);
    }
  }
  auto forks = sized<mortise_runner_forks>();
  forks.num_forks = static_cast<std::int32_t>(forks_.size());
  forks.from_ids = origins_.data();
  forks.to_ids = forks_.data();
  forks.tokens = fork_tokens_.data();
  runner_.fork(forks);
}

}  // namespace mortise::draft_model
