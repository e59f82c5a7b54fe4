#include "proposers/oracle/oracle.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace mortise::oracle {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

Oracle::Oracle(const mortise_host* host, const mortise_create_args&, const Options& options)
    : texts_(options.get<std::string>("log")),
      rate_(options.get<double>("rate")),
      seed_(options.get<uint64_t>("seed")),
      max_tokens_(options.get<int32_t>("max_tokens")) {
  if (options.has("path")) model_.emplace(host, options.get<std::string>("path"), "");
}

void Oracle::bind(const mortise_proposer_bind_args& args) {
  vocab_size_ = args.target->vocab_size;
  if (texts_.largest_token() >= vocab_size_) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "log",
                  "the log has token id " + std::to_string(texts_.largest_token()) + " and the model has " +
                      std::to_string(vocab_size_) + " tokens; record it with this model");
  }
  if (model_) model_->open();
}

void Oracle::observe(const mortise_observation& seen) {
  for (int32_t i = 0; i < seen.num_ended; ++i) sequences_.erase(seen.ended_ids[i]);
  if (model_) model_->observe(seen);
  for (int32_t i = 0; i < seen.num_seqs; ++i) {
    Sequence& sequence = sequences_[seen.seq_ids[i]];
    if (seen.first_positions[i] == 0) sequence = {};
    const int32_t *begin = seen.tokens + seen.token_offsets[i], *end = seen.tokens + seen.token_offsets[i + 1];
    const std::size_t known = sequence.tokens.size();
    sequence.tokens.insert(sequence.tokens.end(), begin, end);
    if (!goes_on(sequence, known)) sequence.text = texts_.find(sequence.tokens);
  }
}

// Returns whether the sequence's text agrees with its tokens from `known` on and continues after them.
bool Oracle::goes_on(const Sequence& sequence, std::size_t known) const {
  if (!sequence.text) return false;
  const std::span<const int32_t> text = texts_.text(*sequence.text), tokens = sequence.tokens;
  return text.size() > tokens.size() &&
         std::ranges::equal(tokens.subspan(known), text.subspan(known, tokens.size() - known));
}

// Returns the draft at a position of a text. Errors depend only on the position and the text, so that they repeat.
int32_t Oracle::draft(std::size_t text, std::size_t position) const {
  const int32_t right = texts_.text(text)[position];
  const uint64_t bits = mix(mix(mix(seed_) ^ text) ^ position);
  if (static_cast<double>(bits >> 11) * 0x1p-53 < rate_ || vocab_size_ < 2) return right;
  const auto step = static_cast<int64_t>(mix(bits) % static_cast<uint64_t>(vocab_size_ - 1)) + 1;
  return static_cast<int32_t>((right + step) % vocab_size_);
}

// Adds one draft to all sequences, then the next, as a draft model does.
void Oracle::propose(const mortise_proposal_args& args) {
  begin(args);
  if (model_) model_->drop_drafts();
  for (int32_t depth = 0; !growing_.empty(); ++depth) {
    if (model_) run_model(args);
    for (const Growing& one : growing_) {
      const int32_t row = one.row;
      args.tokens[static_cast<int64_t>(row) * args.draft_stride + depth] =
          draft(one.text, static_cast<std::size_t>(args.positions[row] + depth));
      args.num_drafts[row] = depth + 1;
    }
    std::erase_if(growing_, [&](const Growing& one) { return depth + 1 == one.most; });
    if (model_) tell_model(args, depth);
  }
}

// Selects the sequences that get drafts, and how many each gets.
void Oracle::begin(const mortise_proposal_args& args) {
  growing_.clear();
  for (int32_t i = 0; i < args.num_seqs; ++i) {
    args.num_drafts[i] = 0;
    const uint64_t id = args.seq_ids[i];
    const auto at = sequences_.find(id);
    if (at == sequences_.end() || !at->second.text || (model_ && !model_->knows(id))) continue;
    const std::size_t position = at->second.tokens.size(), text = *at->second.text;
    if (static_cast<int64_t>(position) != args.positions[i]) continue;
    const auto left = static_cast<int64_t>(texts_.text(text).size() - position);
    const auto most = static_cast<int32_t>(std::min<int64_t>(std::min(args.max_drafts[i], max_tokens_), left));
    if (most > 0) growing_.push_back({i, id, text, most});
  }
}

// A sequence gets no draft where the model can draw no token, because a real draft model would have none either.
void Oracle::run_model(const mortise_proposal_args& args) {
  tokens_.resize(growing_.size());
  mortise_runner_step step = model_->make_step(args, growing_);
  step.sampled = tokens_.data();
  model_->run(step);
  std::size_t i = 0;
  std::erase_if(growing_, [&](const Growing&) { return tokens_[i++] < 0; });
}

// Replaces the model's draws by the oracle's drafts, as if it had drawn them. So the model need not run the accepted
// drafts again.
void Oracle::tell_model(const mortise_proposal_args& args, int32_t depth) {
  ids_.clear();
  begins_.clear();
  tokens_.clear();
  offsets_.assign(1, 0);
  for (const Growing& one : growing_) {
    const int32_t row = one.row;
    ids_.push_back(one.seq_id);
    begins_.push_back(static_cast<int32_t>(args.positions[row]) + depth);
    tokens_.push_back(args.tokens[static_cast<int64_t>(row) * args.draft_stride + depth]);
    offsets_.push_back(static_cast<int32_t>(tokens_.size()));
  }
  auto drafts = sized<mortise_runner_tokens>();
  drafts.flags = MORTISE_RUNNER_DRAFTS;
  drafts.num_seqs = static_cast<int32_t>(ids_.size());
  drafts.seq_ids = ids_.data();
  drafts.begins = begins_.data();
  drafts.offsets = offsets_.data();
  drafts.tokens = tokens_.data();
  model_->update(drafts);
}

}  // namespace mortise::oracle
