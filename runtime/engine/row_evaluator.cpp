#include "engine/row_evaluator.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/draw_arrays.hpp"
#include "sampling/rejection.hpp"

namespace mortise {

// Rows that go through the head together.
struct RowEvaluator::Chunk {
  const std::int32_t* device_rows;  // the rows' numbers, as the batch brought them
  std::span<const LogitRow> rows;
  std::span<const ScheduledSequence> scheduled;
  std::span<TokenInfo> infos;
  mortise_tensor logits{};

  const Sequence& sequence(std::size_t i) const { return *scheduled[static_cast<std::size_t>(rows[i].seq)].sequence; }
  std::size_t row_stride() const { return static_cast<std::size_t>(logits.stride[0]); }
  bool draws(std::size_t i) const { return rows[i].target < 0; }
  // Alternatives wanted for a row, or nothing if it wants no log probability at all.
  std::optional<std::int32_t> top_n(std::size_t i) const {
    const std::optional<std::int32_t>& wanted = sequence(i).request().logprobs;
    return draws(i) ? wanted : std::optional(wanted.value_or(0));
  }
};

RowEvaluator::RowEvaluator(const Parts& parts, const EngineLimits& limits, std::int32_t vocab_size)
    : parts_(parts),
      limits_(limits),
      vocab_size_(vocab_size),
      upload_(parts.device),
      download_(parts.device),
      head_(parts, vocab_size),
      score_pass_(parts, head_, vocab_size),
      scores_(parts),
      drawn_(parts.device),
      drawing_rows_(parts.device) {}

std::vector<TokenInfo> RowEvaluator::evaluate(const mortise_step& step, const mortise_tensor& hidden,
                                              std::span<const LogitRow> rows,
                                              std::span<const ScheduledSequence> scheduled) {
  if (are_many(std::ranges::count_if(rows, [](const LogitRow& row) { return row.target >= 0; }))) {
    return evaluate_apart(step, hidden, rows, scheduled);
  }
  std::vector<TokenInfo> infos(rows.size());
  evaluate_chunks(step, hidden, step.batch->device_logit_rows, rows, scheduled, infos);
  return infos;
}

// Whether slices of the vocabulary take less time than chunks of rows, whose logits do not fit into a cache and which
// read the head's weights once a chunk. A GPU's chunk is large enough, and a slice too small to keep it busy.
bool RowEvaluator::are_many(std::int64_t num_scored) const {
  constexpr std::int64_t kMany = 256;
  return shares_host_memory(parts_.device) && num_scored >= std::min<std::int64_t>(kMany, limits_.max_logit_rows + 1);
}

// Rows with a given token through the score pass, and then the others.
std::vector<TokenInfo> RowEvaluator::evaluate_apart(const mortise_step& step, const mortise_tensor& hidden,
                                                    std::span<const LogitRow> rows,
                                                    std::span<const ScheduledSequence> scheduled) {
  std::vector<TokenInfo> infos(rows.size());
  std::vector<ScorePass::Row> scored;
  std::vector<LogitRow> drawing;
  std::vector<std::int32_t> numbers;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LogitRow& row = rows[i];
    if (row.target >= 0) {
      const Request& request = scheduled[static_cast<std::size_t>(row.seq)].sequence->request();
      scored.push_back({row.row, row.target, request.logprobs.value_or(0), &infos[i]});
    } else {
      drawing.push_back(row);
      numbers.push_back(row.row);
      places.push_back(i);
    }
  }
  score_pass_.run(step, hidden, std::move(scored));
  drawing_rows_.clear();
  const std::size_t at = drawing_rows_.put(std::span<const std::int32_t>(numbers));
  drawing_rows_.upload();
  std::vector<TokenInfo> drawn(drawing.size());
  evaluate_chunks(step, hidden, drawing_rows_.device<std::int32_t>(at), drawing, scheduled, drawn);
  for (std::size_t i = 0; i < drawn.size(); ++i) infos[places[i]] = std::move(drawn[i]);
  return infos;
}

void RowEvaluator::evaluate_chunks(const mortise_step& step, const mortise_tensor& hidden,
                                   const std::int32_t* device_rows, std::span<const LogitRow> rows,
                                   std::span<const ScheduledSequence> scheduled, std::span<TokenInfo> infos) {
  const auto limit = static_cast<std::size_t>(limits_.max_logit_rows);
  for (std::size_t first = 0; first < rows.size(); first += limit) {
    const std::size_t count = std::min(limit, rows.size() - first);
    Chunk chunk{device_rows + first, rows.subspan(first, count), scheduled, infos.subspan(first, count)};
    chunk.logits = head_.run(step, hidden, chunk.device_rows, static_cast<std::int64_t>(count));
    draw(step, chunk);
    describe(step, chunk);
  }
}

// Draws run over the chunk's rows in runs of neighbours that draw: in a decode step that is one run.
void RowEvaluator::draw(const mortise_step& step, Chunk& chunk) {
  for (std::size_t begin = 0; begin < chunk.rows.size();) {
    if (!chunk.draws(begin)) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    DrawArrays arrays(vocab_size_);
    for (; end < chunk.rows.size() && chunk.draws(end); ++end) arrays.add(chunk.sequence(end), chunk.rows[end]);

    upload_.clear();
    const auto put = [this](const auto& values) {
      return upload_.put(std::span<const typename std::decay_t<decltype(values)>::value_type>(values));
    };
    const std::size_t temperatures = put(arrays.temperatures), top_ks = put(arrays.top_ks), top_ps = put(arrays.top_ps),
                      min_ps = put(arrays.min_ps), keys = put(arrays.keys), positions = put(arrays.positions),
                      offsets = put(arrays.edit_offsets), ids = put(arrays.edit_ids), biases = put(arrays.biases),
                      repetitions = put(arrays.repetitions), subtracts = put(arrays.subtracts),
                      allowed = put(arrays.allowed_index), masks = put(arrays.allowed_masks);
    upload_.upload();
    const std::size_t count = end - begin;
    mortise_tensor logits = chunk.logits;
    const std::size_t skipped = begin * chunk.row_stride();
    logits.data = static_cast<float*>(logits.data) + skipped;
    logits.shape[0] = static_cast<std::int64_t>(count);
    logits.bytes -= skipped * sizeof(float);
    mortise_sample_args args{};
    args.struct_size = sizeof args;
    args.logits = &logits;
    args.temperatures = upload_.device<float>(temperatures);
    args.top_ks = upload_.device<std::int32_t>(top_ks);
    args.top_ps = upload_.device<float>(top_ps);
    args.min_ps = upload_.device<float>(min_ps);
    args.keys = upload_.device<std::uint64_t>(keys);
    args.positions = upload_.device<std::int64_t>(positions);
    if (!arrays.edit_ids.empty()) args.edit_offsets = upload_.device<std::int32_t>(offsets);
    args.edit_ids = upload_.device<std::int32_t>(ids);
    args.edit_biases = upload_.device<float>(biases);
    args.edit_repetitions = upload_.device<float>(repetitions);
    args.edit_subtracts = upload_.device<float>(subtracts);
    if (!arrays.allowed_masks.empty()) args.allowed_index = upload_.device<std::int32_t>(allowed);
    args.allowed_masks = upload_.device<std::uint32_t>(masks);
    args.tokens = static_cast<std::int32_t*>(drawn_.reserve(count * sizeof(std::int32_t)));
    mortise_error error = empty_error();
    check_part(parts_.device.api->sample(parts_.device.self, step.stream, &args, &error), error, parts_.device.name);
    const std::span<const std::int32_t> tokens = download_.fetch(args.tokens, count);
    for (std::size_t i = 0; i < count; ++i) chunk.infos[begin + i].id = tokens[i];
    if (limits_.rejection) verify_by_rejection(chunk, begin, arrays);
    begin = end;
  }
}

// Rows with a draft behind them, whose sequences sample: the token is the draft or what is recovered in its place. On
// the host, so their logits are brought here; rows behind a rejected draft are left alone, since nobody looks at them.
void RowEvaluator::verify_by_rejection(Chunk& chunk, std::size_t begin, const DrawArrays& arrays) {
  const auto vocab = static_cast<std::size_t>(vocab_size_), stride = chunk.row_stride();
  std::int32_t fetched_seq = -1, rejected_seq = -1;
  std::span<const float> logits;  // of the rows of fetched_seq from its first one here on
  std::size_t first = 0;
  for (std::size_t i = 0; i < arrays.keys.size(); ++i) {
    const LogitRow& row = chunk.rows[begin + i];
    const Sequence& sequence = chunk.sequence(begin + i);
    const std::size_t index = num_drafts_before(sequence, row);
    if (row.seq == rejected_seq || index >= sequence.drafts.size() || arrays.temperatures[i] == 0) continue;
    if (row.seq != fetched_seq) {
      const std::size_t count = std::min(sequence.drafts.size() - index, arrays.keys.size() - i);
      logits = download_.fetch(static_cast<const float*>(chunk.logits.data) + (begin + i) * stride, count * stride);
      fetched_seq = row.seq;
      first = i;
    }
    const std::vector<double> p = target_distribution(logits.subspan((i - first) * stride, vocab), arrays.row(i));
    std::span<const float> q(sequence.draft_distributions);
    if (!q.empty()) q = q.subspan(index * vocab, vocab);
    const std::int32_t draft = sequence.drafts[index];
    std::int32_t& token = chunk.infos[begin + i].id;
    token = rejection_sample(p, q, draft, arrays.keys[i], arrays.positions[i]);
    if (token != draft) rejected_seq = row.seq;
  }
}

void RowEvaluator::describe(const mortise_step& step, Chunk& chunk) {
  const std::size_t count = chunk.rows.size();
  std::int32_t width = -1;
  std::vector<std::int32_t> targets(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!chunk.draws(i)) chunk.infos[i].id = chunk.rows[i].target;
    targets[i] = chunk.infos[i].id;
    if (const auto wanted = chunk.top_n(i)) width = std::max(width, std::min(*wanted, vocab_size_));
  }
  if (width < 0) return;

  upload_.clear();
  const std::size_t at = upload_.put(std::span<const std::int32_t>(targets));
  upload_.upload();
  scores_.begin(count, static_cast<std::size_t>(width));
  const mortise_head_reduce_args arrays = scores_.arrays(0, upload_.device<std::int32_t>(at));
  mortise_head_reduce_args args = arrays;
  args.first = 1;
  args.ranks = nullptr;  // they are counted against the final target logits
  scores_.reduce(step, chunk.logits, 0, args);
  args = arrays;
  args.first = 1;
  args.max = args.sum = args.lse = args.top_logits = nullptr;
  args.top_ids = nullptr;
  args.top_n = 0;
  scores_.reduce(step, chunk.logits, 0, args);
  scores_.fetch();
  for (std::size_t i = 0; i < count; ++i) {
    if (const auto wanted = chunk.top_n(i)) scores_.describe(i, static_cast<std::size_t>(*wanted), chunk.infos[i]);
  }
}

}  // namespace mortise
