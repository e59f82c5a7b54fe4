#include "proposers/common/draft_runner.hpp"

namespace mortise::proposers {
namespace {

void check_runner(mortise_status status, const mortise_error& error) {
  if (status != MORTISE_OK) throw Failure(status, "draft model", error.message);
}

}  // namespace

DraftRunner::DraftRunner(const mortise_host* host, std::string path, std::string options)
    : host_(host), path_(std::move(path)), options_(std::move(options)) {}

DraftRunner::~DraftRunner() {
  if (runner_ != nullptr) runners_->close(runner_);
}

void DraftRunner::open(std::int32_t max_forks) {
  runners_ = static_cast<const mortise_runner_table*>(host_->get_ext(host_, MORTISE_EXT_RUNNER));
  if (runners_ == nullptr) {
    throw Failure(MORTISE_UNIMPLEMENTED, "draft model",
                  std::string("the host runs no second model (it does not offer ") + MORTISE_EXT_RUNNER + ")");
  }
  auto args = sized<mortise_runner_open_args>();
  args.path = view(path_);
  args.options = view(options_);
  args.max_forks = max_forks;
  mortise_error error = make_error();
  check_runner(runners_->open(runners_, &args, &runner_, &error), error);
}

void DraftRunner::observe(const mortise_observation& seen) {
  end({seen.ended_ids, static_cast<std::size_t>(seen.num_ended)});
  for (std::int32_t i = 0; i < seen.num_ended; ++i) {
    known_.erase(seen.ended_ids[i]);
    drafted_.erase(seen.ended_ids[i]);
  }
  auto tokens = sized<mortise_runner_tokens>();
  tokens.num_seqs = seen.num_seqs;
  tokens.seq_ids = seen.seq_ids;
  tokens.begins = seen.first_positions;
  tokens.offsets = seen.token_offsets;
  tokens.tokens = seen.tokens;
  update(tokens);
  for (std::int32_t i = 0; i < seen.num_seqs; ++i) {
    known_[seen.seq_ids[i]] = seen.first_positions[i] + seen.token_offsets[i + 1] - seen.token_offsets[i];
    drafted_.erase(seen.seq_ids[i]);  // the sequence's new tokens have replaced its drafts
  }
}

void DraftRunner::drop_drafts() {
  if (drafted_.empty()) return;
  const std::vector<std::uint64_t> ids(drafted_.begin(), drafted_.end());
  const std::vector<std::int32_t> no_tokens(ids.size() + 1, 0);
  std::vector<std::int32_t> begins;
  for (const std::uint64_t id : ids) begins.push_back(known_.at(id));
  auto tokens = sized<mortise_runner_tokens>();
  tokens.num_seqs = static_cast<std::int32_t>(ids.size());
  tokens.seq_ids = ids.data();
  tokens.begins = begins.data();
  tokens.offsets = no_tokens.data();
  update(tokens);
  drafted_.clear();
}

void DraftRunner::clear_step() {
  for (auto* array : {&temperatures_, &top_ps_, &min_ps_}) array->clear();
  ids_.clear();
  keys_.clear();
  top_ks_.clear();
}

void DraftRunner::add_to_step(const mortise_proposal_args& args, std::int32_t row, std::uint64_t seq_id) {
  ids_.push_back(seq_id);
  keys_.push_back(args.keys[row]);
  temperatures_.push_back(args.temperatures[row]);
  top_ks_.push_back(args.top_ks[row]);
  top_ps_.push_back(args.top_ps[row]);
  min_ps_.push_back(args.min_ps[row]);
}

mortise_runner_step DraftRunner::step_of_all() const {
  auto step = sized<mortise_runner_step>();
  step.num_seqs = static_cast<std::int32_t>(ids_.size());
  step.seq_ids = ids_.data();
  step.keys = keys_.data();
  step.temperatures = temperatures_.data();
  step.top_ks = top_ks_.data();
  step.top_ps = top_ps_.data();
  step.min_ps = min_ps_.data();
  return step;
}

void DraftRunner::run(const mortise_runner_step& step) {
  // Before the call, because a step that fails may already have drawn drafts.
  for (std::int32_t i = 0; i < step.num_seqs; ++i) {
    if (knows(step.seq_ids[i])) drafted_.insert(step.seq_ids[i]);
  }
  mortise_error error = make_error();
  check_runner(runners_->step(runner_, &step, &error), error);
}

void DraftRunner::update(const mortise_runner_tokens& tokens) {
  mortise_error error = make_error();
  check_runner(runners_->update(runner_, &tokens, &error), error);
}

void DraftRunner::fork(const mortise_runner_forks& forks) {
  mortise_error error = make_error();
  check_runner(runners_->fork(runner_, &forks, &error), error);
}

void DraftRunner::end(std::span<const std::uint64_t> seq_ids) {
  runners_->end(runner_, seq_ids.data(), static_cast<std::int32_t>(seq_ids.size()));
}

}  // namespace mortise::proposers
