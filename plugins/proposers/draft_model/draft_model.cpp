#include "proposers/draft_model/draft_model.hpp"

namespace mortise::draft_model {
namespace {

// What the host checks and uses: the options of the runner, as it wants them.
std::string runner_options(const Options& options) {
  return nlohmann::json{{"kv_memory", options.get<nlohmann::json>("kv_memory")},
                        {"attention", options.get<nlohmann::json>("attention")}}
      .dump();
}

void check_runner(mortise_status status, const mortise_error& error) {
  if (status != MORTISE_OK) throw Failure(status, "draft_model", error.message);
}

}  // namespace

DraftModel::DraftModel(const mortise_host* host, const Options& options)
    : host_(host), path_(options.get<std::string>("path")), runner_options_(runner_options(options)) {}

DraftModel::~DraftModel() {
  if (runner_ != nullptr) runners_->close(runner_);
}

void DraftModel::bind() {
  runners_ = static_cast<const mortise_runner_table*>(host_->get_ext(host_, MORTISE_EXT_RUNNER));
  if (runners_ == nullptr) {
    throw Failure(MORTISE_UNIMPLEMENTED, "draft_model",
                  std::string("the host runs no second model (it does not offer ") + MORTISE_EXT_RUNNER + ")");
  }
  auto args = sized<mortise_runner_open_args>();
  args.path = view(path_);
  args.options = view(runner_options_);
  mortise_error error = make_error();
  check_runner(runners_->open(runners_, &args, &runner_, &error), error);
}

void DraftModel::observe(const mortise_observation& seen) {
  runners_->end(runner_, seen.ended_ids, seen.num_ended);
  for (std::int32_t i = 0; i < seen.num_ended; ++i) known_.erase(seen.ended_ids[i]);
  auto tokens = sized<mortise_runner_tokens>();
  tokens.num_seqs = seen.num_seqs;
  tokens.seq_ids = seen.seq_ids;
  tokens.begins = seen.first_positions;
  tokens.offsets = seen.token_offsets;
  tokens.tokens = seen.tokens;
  mortise_error error = make_error();
  check_runner(runners_->update(runner_, &tokens, &error), error);
  known_.insert(seen.seq_ids, seen.seq_ids + seen.num_seqs);
}

void DraftModel::propose(const mortise_proposal_args& args) {
  rows_.clear();
  for (std::int32_t i = 0; i < args.num_seqs; ++i) {
    args.num_drafts[i] = 0;
    if (args.max_drafts[i] > 0 && known_.contains(args.seq_ids[i])) rows_.push_back(i);
  }
  for (std::int32_t depth = 0; !rows_.empty() && add_drafts(args, depth); ++depth) {
  }
}

// Draft number `depth` of each sequence that goes on. False: none does.
bool DraftModel::add_drafts(const mortise_proposal_args& args, std::int32_t depth) {
  for (auto* array : {&temperatures_, &top_ps_, &min_ps_}) array->clear();
  ids_.clear();
  keys_.clear();
  top_ks_.clear();
  for (const std::int32_t row : rows_) {
    ids_.push_back(args.seq_ids[row]);
    keys_.push_back(args.keys[row]);
    temperatures_.push_back(args.temperatures[row]);
    top_ks_.push_back(args.top_ks[row]);
    top_ps_.push_back(args.top_ps[row]);
    min_ps_.push_back(args.min_ps[row]);
  }
  sampled_.resize(rows_.size());
  auto step = sized<mortise_runner_step>();
  step.num_seqs = static_cast<std::int32_t>(rows_.size());
  step.seq_ids = ids_.data();
  step.keys = keys_.data();
  step.temperatures = temperatures_.data();
  step.top_ks = top_ks_.data();
  step.top_ps = top_ps_.data();
  step.min_ps = min_ps_.data();
  step.sampled = sampled_.data();
  mortise_error error = make_error();
  check_runner(runners_->step(runner_, &step, &error), error);
  next_rows_.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::int32_t row = rows_[i];
    if (sampled_[i] < 0) continue;
    args.tokens[row * args.max_draft + depth] = sampled_[i];
    args.num_drafts[row] = depth + 1;
    if (depth + 1 < args.max_drafts[row]) next_rows_.push_back(row);
  }
  rows_.swap(next_rows_);
  return !rows_.empty();
}

}  // namespace mortise::draft_model
