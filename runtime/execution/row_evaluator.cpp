#include "execution/row_evaluator.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace mortise {

// Arrays of all rows that go through chunks: first the drawing rows, then the scored rows.
struct RowEvaluator::Arrays {
  const std::int32_t* rows;  // their numbers in the batch
  std::int32_t* tokens;      // drawn, or given
  mortise_sample_args sample;
};

namespace {

// Returns the logits of `count` rows from `first` on.
mortise_tensor logit_rows(const mortise_tensor& logits, std::size_t first, std::size_t count) {
  mortise_tensor part = logits;
  const std::size_t skipped = first * static_cast<std::size_t>(logits.stride[0]);
  part.data = static_cast<float*>(part.data) + skipped;
  part.shape[0] = static_cast<std::int64_t>(count);
  part.bytes -= skipped * sizeof(float);
  return part;
}

// Returns the sampling arguments of the rows from `first` on.
mortise_sample_args args_from(const mortise_sample_args& all, std::size_t first) {
  mortise_sample_args args = all;
  args.temperatures += first;
  args.top_ks += first;
  args.top_ps += first;
  args.min_ps += first;
  args.keys += first;
  args.positions += first;
  if (args.edit_begins != nullptr) {
    args.edit_begins += first;
    args.edit_counts += first;
  }
  if (args.allowed_index != nullptr) args.allowed_index += first;
  args.tokens += first;
  return args;
}

// Views edits as rows of four 32-bit numbers, so that the device can move them like any rows.
mortise_tensor edit_rows(LogitEdit* edits, std::int64_t count) {
  return matrix(edits, MORTISE_F32, count, sizeof(LogitEdit) / sizeof(float));
}

std::int32_t most_alternatives(std::span<const std::int32_t> num_top) {
  return num_top.empty() ? -1 : *std::ranges::max_element(num_top);
}

}  // namespace

RowEvaluator::RowEvaluator(const ShardParts& parts, const ExecutionLimits& limits, bool shows_logits)
    : parts_(parts),
      shows_logits_(shows_logits),
      limits_(limits),
      upload_(parts.device, UploadOrder::kBesideQueued),
      further_upload_(parts.device),
      draft_upload_(parts.device),
      edits_(parts.device),
      tokens_(parts.device),
      logits_(parts.device),
      head_(parts),
      score_pass_(parts, head_),
      scores_(parts) {}

void RowEvaluator::launch(const mortise_step& step, const mortise_tensor& hidden, const StepWork& work) {
  // A step that failed was not collected, and may still read the arrays that this one overwrites.
  if (draws_ != nullptr) synchronize(parts_.device);
  edits_.end(work.ended);
  draws_ = &work.draws;
  scored_ = &work.scores;
  further_choices_.clear();
  score_pass_runs_ = are_many(work.scores.size());
  if (score_pass_runs_) launch_score_pass(step, hidden, work.scores);

  const std::size_t num_scored = score_pass_runs_ ? 0 : work.scores.size();
  num_rows_ = work.draws.size() + num_scored;
  if (num_rows_ == 0) return;
  const auto wanted = std::ranges::find_if(work.draws.num_top, [](std::int32_t n) { return n >= 0; });
  first_described_ = static_cast<std::size_t>(wanted - work.draws.num_top.begin());
  if (first_described_ < num_rows_) {
    std::int32_t num_top = most_alternatives(work.draws.num_top);
    if (num_scored > 0) num_top = std::max(num_top, most_alternatives(work.scores.num_top));
    scores_.begin(num_rows_ - first_described_, static_cast<std::size_t>(std::clamp(num_top, 0, parts_.vocab_size)));
  }
  const Arrays arrays = upload(step, work, num_scored);
  const auto limit = static_cast<std::size_t>(limits_.max_logit_rows);
  for (std::size_t first = 0; first < num_rows_; first += limit) {
    const std::size_t count = std::min(limit, num_rows_ - first);
    select(step, hidden, arrays, first, count);
    const mortise_tensor logits = head_.logits(step, 0, static_cast<std::int64_t>(count), 0, parts_.vocab_size);
    evaluate_chunk(step, logits, arrays, first);
  }
  if (work.draws.size() > 0) tokens_.start(arrays.tokens, work.draws.size());
  if (first_described_ < num_rows_) scores_.start_download();
}

StepResults RowEvaluator::collect() {
  const DrawRows& draws = *std::exchange(draws_, nullptr);
  const ScoreRows& scored = *std::exchange(scored_, nullptr);
  StepResults results;
  results.draws.resize(draws.size());
  results.scores.resize(scored.size());
  if (num_rows_ > 0 || score_pass_runs_) synchronize(parts_.device);
  if (score_pass_runs_) score_pass_.collect(results.scores);
  if (num_rows_ == 0) return results;
  const std::size_t num_drawn = draws.size();
  for (std::size_t i = 0; i < num_drawn; ++i) results.draws[i].id = tokens_.data<std::int32_t>()[i];
  for (std::size_t i = first_described_; i < num_rows_; ++i) {
    const bool drawn = i < num_drawn;
    const std::int32_t num_top = drawn ? draws.num_top[i] : scored.num_top[i - num_drawn];
    TokenInfo& info = drawn ? results.draws[i] : results.scores[i - num_drawn];
    if (!drawn) info.id = scored.targets[i - num_drawn];
    if (num_top >= 0) scores_.describe(i - first_described_, static_cast<std::size_t>(num_top), info);
  }
  results.further_choices = std::move(further_choices_);
  return results;
}

// Returns whether the score pass, which runs slices of the vocabulary, takes less time than chunks of rows. The logits
// of a chunk do not fit into the CPU's caches, and each chunk reads the head's weights again. On a GPU chunks are large
// enough, and slices would be too small to keep it busy.
bool RowEvaluator::are_many(std::size_t num_scored) const {
  constexpr std::int64_t kMany = 256;
  const auto least = std::min<std::int64_t>(kMany, limits_.max_logit_rows + 1);
  return static_cast<std::int64_t>(num_scored) >= least && shares_host_memory(parts_.device);
}

void RowEvaluator::launch_score_pass(const mortise_step& step, const mortise_tensor& hidden, const ScoreRows& scores) {
  std::vector<ScorePass::Row> rows;
  rows.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    rows.push_back({scores.rows[i], scores.targets[i], scores.num_top[i], i});
  }
  score_pass_.launch(step, hidden, std::move(rows));
}

// Selects the rows of a chunk. Those of a step of decodes are consecutive, so nothing is gathered.
void RowEvaluator::select(const mortise_step& step, const mortise_tensor& hidden, const Arrays& arrays,
                          std::size_t first, std::size_t count) {
  const std::span<const std::int32_t> rows = std::span(rows_).subspan(first, count);
  const std::int32_t* const device_rows = arrays.rows + first;
  std::size_t i = 1;
  while (i < count && rows[i] == rows[i - 1] + 1) ++i;
  if (i == count) {
    head_.select_consecutive(step, hidden, device_rows, rows.front(), static_cast<std::int64_t>(count));
  } else {
    head_.select(step, hidden, device_rows, static_cast<std::int64_t>(count));
  }
}

// Copies the rows' numbers, tokens and sampling arguments into device memory.
RowEvaluator::Arrays RowEvaluator::upload(const mortise_step& step, const StepWork& work, std::size_t num_scored) {
  const auto scored = [&](const std::vector<std::int32_t>& values) { return std::span(values).first(num_scored); };
  std::vector<std::int32_t> tokens(work.draws.size(), -1);
  rows_.assign(work.draws.rows.begin(), work.draws.rows.end());
  rows_.insert(rows_.end(), scored(work.scores.rows).begin(), scored(work.scores.rows).end());
  tokens.insert(tokens.end(), scored(work.scores.targets).begin(), scored(work.scores.targets).end());

  upload_.clear();
  const auto put = [this](const auto& values) {
    return upload_.put(std::span<const typename std::decay_t<decltype(values)>::value_type>(values));
  };
  const SamplingArrays& sampling = work.draws.sampling;
  edits_.assign(sampling.edits);
  const std::size_t row = put(rows_), token = put(tokens), temperature = put(sampling.temperatures),
                    top_k = put(sampling.top_ks), top_p = put(sampling.top_ps), min_p = put(sampling.min_ps),
                    key = put(sampling.keys), position = put(sampling.positions), edit_begin = put(edits_.begins()),
                    edit_count = put(edits_.counts()), update = put(edits_.updates()), place = put(edits_.places()),
                    allowed = put(sampling.allowed_index), mask = put(sampling.allowed_masks);
  upload_.upload();
  Arrays arrays{};
  arrays.rows = upload_.device<std::int32_t>(row);
  arrays.tokens = upload_.device<std::int32_t>(token);
  mortise_sample_args& args = arrays.sample;
  args.struct_size = sizeof args;
  args.temperatures = upload_.device<float>(temperature);
  args.top_ks = upload_.device<std::int32_t>(top_k);
  args.top_ps = upload_.device<float>(top_p);
  args.min_ps = upload_.device<float>(min_p);
  args.keys = upload_.device<std::uint64_t>(key);
  args.positions = upload_.device<std::int64_t>(position);
  args.edits = edits_.data();
  if (args.edits != nullptr) args.edit_begins = upload_.device<std::int32_t>(edit_begin);
  args.edit_counts = upload_.device<std::int32_t>(edit_count);
  if (!sampling.allowed_masks.empty()) args.allowed_index = upload_.device<std::int32_t>(allowed);
  args.allowed_masks = upload_.device<std::uint32_t>(mask);
  args.tokens = arrays.tokens;
  if (const auto num_updates = static_cast<std::int64_t>(edits_.updates().size()); num_updates > 0) {
    const mortise_tensor updates = edit_rows(upload_.device<LogitEdit>(update), num_updates);
    const mortise_tensor table = edit_rows(edits_.data(), edits_.size());
    parts_.device.call<&mortise_device_table::scatter_rows>("scatter_rows", step.stream, &updates,
                                                            upload_.device<std::int32_t>(place), &table);
  }
  return arrays;
}

void RowEvaluator::evaluate_chunk(const mortise_step& step, const mortise_tensor& logits, const Arrays& arrays,
                                  std::size_t first) {
  if (first < draws_->size()) sample(step, logits, arrays, first);
  if (first + static_cast<std::size_t>(logits.shape[0]) > first_described_) describe(step, logits, arrays, first);
}

void RowEvaluator::sample(const mortise_step& step, const mortise_tensor& logits, const Arrays& arrays,
                          std::size_t first) {
  const std::size_t count = std::min(static_cast<std::size_t>(logits.shape[0]), draws_->size() - first);
  const mortise_tensor drawn = logit_rows(logits, 0, count);
  mortise_sample_args args = args_from(arrays.sample, first);
  args.logits = &drawn;
  parts_.device.call<&mortise_device_table::sample>("sample", step.stream, &args);
  if (draws_->num_choices > 1) draw_further(step, args, first, count);
  if (!draws_->drafts.empty() && parts_.rejection != nullptr) {
    verify_drafts(step, args, first, count);
  } else if (draws_->on_logits && shows_logits_) {
    show_logits(logits, arrays, first, count);
  }
}

// Verifies the drafts of `count` rows from `first` on by rejection sampling.
void RowEvaluator::verify_drafts(const mortise_step& step, const mortise_sample_args& args, std::size_t first,
                                 std::size_t count) {
  const auto is_earlier = [](const RowDraft& draft, std::size_t draw) { return draft.draw < draw; };
  const auto begin = std::ranges::lower_bound(draws_->drafts, first, {}, &RowDraft::draw);
  const auto end = std::lower_bound(begin, draws_->drafts.end(), first + count, is_earlier);
  if (begin == end) return;
  std::vector<std::int32_t> drafts(count, -1), distribution_rows(count, -1);
  std::vector<std::size_t> places;  // of the distributions in the upload: equally far from each other
  draft_upload_.clear();
  for (auto draft = begin; draft != end; ++draft) {
    drafts[draft->draw - first] = draft->token;
    if (draft->distribution.empty()) continue;
    distribution_rows[draft->draw - first] = static_cast<std::int32_t>(places.size());
    places.push_back(draft_upload_.put(draft->distribution));
  }
  const std::size_t draft = draft_upload_.put(std::span<const std::int32_t>(drafts));
  const std::size_t distribution_row = draft_upload_.put(std::span<const std::int32_t>(distribution_rows));
  draft_upload_.upload();
  mortise_verify_drafts_args verified{};
  verified.struct_size = sizeof verified;
  verified.rows = &args;
  verified.drafts = draft_upload_.device<std::int32_t>(draft);
  mortise_tensor distributions{};
  if (!places.empty()) {
    distributions = matrix(draft_upload_.device<float>(places.front()), MORTISE_F32,
                           static_cast<std::int64_t>(places.size()), parts_.vocab_size);
    if (places.size() > 1) {
      distributions.stride[0] = static_cast<std::int64_t>((places[1] - places[0]) / sizeof(float));
    }
    distributions.bytes = places.back() - places.front() + static_cast<std::size_t>(parts_.vocab_size) * sizeof(float);
    verified.distributions = &distributions;
    verified.distribution_rows = draft_upload_.device<std::int32_t>(distribution_row);
  }
  parts_.device.perform("verify_drafts", [&](mortise_error* error) {
    return parts_.rejection->verify_drafts(parts_.device.self, step.stream, &verified, error);
  });
}

// Draws the further choices of each row. Each draw bans the tokens drawn before, so the host must read them first.
void RowEvaluator::draw_further(const mortise_step& step, mortise_sample_args args, std::size_t first,
                                std::size_t count) {
  const auto num_further = static_cast<std::size_t>(draws_->num_choices) - 1;
  further_choices_.resize(draws_->size() * num_further, -1);
  std::vector<std::vector<std::int32_t>> banned(count);  // tokens of each row
  const std::int32_t* drawn = args.tokens;
  for (std::size_t choice = 0; choice < num_further; ++choice) {
    const std::span<const std::int32_t> tokens = tokens_.fetch(drawn, count);
    std::vector<std::int32_t> begins, counts;
    std::vector<LogitEdit> bans;
    for (std::size_t i = 0; i < count; ++i) {
      if (tokens[i] >= 0) banned[i].push_back(tokens[i]);
      begins.push_back(static_cast<std::int32_t>(bans.size()));
      counts.push_back(static_cast<std::int32_t>(banned[i].size()));
      for (const std::int32_t token : banned[i]) {
        bans.push_back({token, -std::numeric_limits<float>::infinity(), 1.0f, 0.0f});
      }
    }
    const std::vector<std::int32_t> none(count, -1);
    further_upload_.clear();
    const auto put = [this](const auto& values) {
      return further_upload_.put(std::span<const typename std::decay_t<decltype(values)>::value_type>(values));
    };
    const std::size_t begin = put(begins), num_banned = put(counts), ban = put(bans), token = put(none);
    further_upload_.upload();
    args.edits = further_upload_.device<LogitEdit>(ban);
    if (!bans.empty()) args.edit_begins = further_upload_.device<std::int32_t>(begin);
    args.edit_counts = further_upload_.device<std::int32_t>(num_banned);
    args.tokens = further_upload_.device<std::int32_t>(token);
    parts_.device.call<&mortise_device_table::sample>("sample", step.stream, &args);
    drawn = args.tokens;
    const std::span<const std::int32_t> further = tokens_.fetch(drawn, count);
    for (std::size_t i = 0; i < count; ++i) further_choices_[(first + i) * num_further + choice] = further[i];
  }
}

// Passes the host the logits that it wants among `count` rows from `first` on, and writes the tokens that it returns
// for them to the device.
void RowEvaluator::show_logits(const mortise_tensor& logits, const Arrays& arrays, std::size_t first,
                               std::size_t count) {
  const auto stride = static_cast<std::size_t>(logits.stride[0]);
  for (const DrawRange& range : draws_->wanted_logits) {
    const std::size_t begin = std::max(range.first, first), end = std::min(range.first + range.count, first + count);
    if (begin >= end) continue;
    std::int32_t* const device_tokens = arrays.tokens + begin;
    const std::span<const std::int32_t> drawn = tokens_.fetch(device_tokens, end - begin);
    std::vector<std::int32_t> tokens(drawn.begin(), drawn.end());
    const float* const rows = static_cast<const float*>(logits.data) + (begin - first) * stride;
    // The last row has no gap after it.
    const std::size_t num_values = (end - begin - 1) * stride + static_cast<std::size_t>(parts_.vocab_size);
    draws_->on_logits({{begin, end - begin}, logits_.fetch(rows, num_values), stride, tokens});
    parts_.device.call<&mortise_device_table::copy>("copy", nullptr, device_tokens, tokens.data(),
                                                    tokens.size() * sizeof(std::int32_t));
  }
}

// Computes the log probabilities and ranks that a chunk's rows want.
void RowEvaluator::describe(const mortise_step& step, const mortise_tensor& logits, const Arrays& arrays,
                            std::size_t first) {
  const std::size_t begin = std::max(first_described_, first);
  const std::size_t end = first + static_cast<std::size_t>(logits.shape[0]);
  const mortise_tensor rows = logit_rows(logits, begin - first, end - begin);
  const mortise_head_reduce_args all = scores_.arrays(begin - first_described_, arrays.tokens + begin);
  mortise_head_reduce_args args = all;
  args.first = 1;
  args.ranks = nullptr;  // ranks need the final target logits
  scores_.reduce(step, rows, 0, args);
  args = all;
  args.first = 1;
  args.max = args.sum = args.lse = args.top_logits = nullptr;
  args.top_ids = nullptr;
  args.top_n = 0;
  scores_.reduce(step, rows, 0, args);
}

}  // namespace mortise
