#include "kernels/cpu/head/sample_token.hpp"

#include "kernels/cpu/head/clean_logit.hpp"
#include "kernels/cpu/head/noise.hpp"
#include "kernels/cpu/head/sample_filter.hpp"
#include "kernels/cpu/vec/math.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::int32_t kLaneIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr std::int32_t kLaneBit[kLanes] = {1 << 0, 1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                                           1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};

bool above_zero(float x) {
  return any(gt(broadcast(x), zero()));  // not `x > 0`: with a denormal, that depends on the machine
}

// Applies the edits as mortise_logit_edit specifies.
void apply_edits(const SampleRow& row, float* x) {
  for (std::size_t i = 0; i < row.num_edits; i += kLanes) {
    const std::size_t n = lanes_left(row.num_edits - i);
    const LogitEdit* const edits = row.edits + i;
    float lane[kLanes] = {}, bias[kLanes] = {}, repetition[kLanes] = {}, subtract[kLanes] = {};
    for (std::size_t j = 0; j < n; ++j) {
      lane[j] = x[edits[j].token];
      bias[j] = edits[j].bias;
      repetition[j] = edits[j].repetition;
      subtract[j] = edits[j].subtract;
    }
    F32x16 l = load(lane) + load(bias);
    l = select(gt(l, zero()), l / load(repetition), l * load(repetition));
    store(lane, l - load(subtract));
    for (std::size_t j = 0; j < n; ++j) x[edits[j].token] = lane[j];
  }
}

// x = clean(edited logit / temperature), or -infinity for a token that is not allowed. Returns the largest.
float prepare(const SampleRow& row, bool divide, float* x) {
  const float* from = row.logits;
  if (row.num_edits > 0) {
    std::memcpy(x, row.logits, row.vocab_size * sizeof(float));
    apply_edits(row, x);
    from = x;
  }
  const F32x16 temperature = broadcast(row.temperature);
  const I32x16 lane_bit = load_i32(kLaneBit);
  F32x16 m = broadcast(kNoLogit);
  for (std::size_t i = 0; i < row.vocab_size; i += kLanes) {
    const std::size_t left = row.vocab_size - i;
    F32x16 l = load_clean(from + i, left);
    if (row.allowed != nullptr) {
      const std::int32_t word = static_cast<std::int32_t>(row.allowed[i / 32] >> (i % 32));
      l = select(eq(broadcast_i32(word) & lane_bit, lane_bit), l, broadcast(kNoLogit));
    }
    if (divide) l = clean(l / temperature);
    m = max(l, m);
    store_tail(x + i, l, lanes_left(left));
  }
  return max(m);
}

std::int32_t first_equal(const float* x, std::size_t n, float value) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::uint32_t mask = mask_bits(eq(load_clean(x + i, n - i), broadcast(value)));
    if (mask != 0) return static_cast<std::int32_t>(i) + __builtin_ctz(mask);
  }
  return -1;
}

// Keeps the arg max of logit + noise over the offered tokens; the lowest id wins ties. The order of the offers does not
// matter. Invariant: id_ is the best token offered so far. Used by one thread.
class Draw {
 public:
  Draw(std::uint64_t key, std::uint64_t position) : key_(key), position_(position) {}

  // Offers sixteen tokens. A lane without a token has the logit -infinity.
  MORTISE_INLINE void offer(F32x16 x, I32x16 ids) {
    // Rounding is monotonic, so an upper bound of the noise gives an upper bound of the score. Most tokens therefore
    // need no logarithm, and tokens far below the best need no noise at all.
    const F32x16 best = broadcast(score_);
    if (!any(ge(x + broadcast(kLargestNoise), best))) return;
    const I32x16 r = philox_first_word(key_, position_, ids);
    if (!any(ge(x + gumbel_bound(r), best))) return;
    const F32x16 score = x + gumbel(r);
    std::uint32_t mask = mask_bits(ge(score, best) & gt(score, broadcast(kNoLogit)));
    if (mask == 0) return;
    float lane_score[kLanes];
    std::int32_t lane_id[kLanes];
    store(lane_score, score);
    store(lane_id, ids);
    for (; mask != 0; mask &= mask - 1) {
      const int j = __builtin_ctz(mask);
      if (lane_score[j] > score_ || (lane_score[j] == score_ && lane_id[j] < id_)) {
        score_ = lane_score[j];
        id_ = lane_id[j];
      }
    }
  }

  std::int32_t id() const { return id_; }

 private:
  std::uint64_t key_, position_;
  float score_ = kNoLogit;
  std::int32_t id_ = INT32_MAX;
};

std::int32_t draw_from_row(const SampleRow& row, const float* x, float row_max, float bound) {
  Draw draw(row.key, row.position);
  const I32x16 lane_index = load_i32(kLaneIndex);
  const auto offer = [&](std::size_t i) __attribute__((always_inline)) {
    const F32x16 block = load_clean(x + i, row.vocab_size - i);
    const I32x16 ids = broadcast_i32(static_cast<std::int32_t>(i)) + lane_index;
    draw.offer(select(ge(block, broadcast(bound)), block, broadcast(kNoLogit)), ids);
  };
  // The likeliest token goes first: its high score lets most other tokens be skipped.
  offer(static_cast<std::size_t>(first_equal(x, row.vocab_size, row_max)) / kLanes * kLanes);
  for (std::size_t i = 0; i < row.vocab_size; i += kLanes) offer(i);
  return draw.id();
}

std::int32_t draw_from_candidates(const SampleRow& row, const SampleCandidate* c, std::size_t n) {
  Draw draw(row.key, row.position);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t count = lanes_left(n - i);
    float x[kLanes];
    std::int32_t ids[kLanes] = {};
    for (std::size_t j = 0; j < kLanes; ++j) x[j] = j < count ? candidate_logit(c[i + j].key) : kNoLogit;
    for (std::size_t j = 0; j < count; ++j) ids[j] = candidate_id(c[i + j].key);
    draw.offer(load(x), load_i32(ids));
  }
  return draw.id();
}

float log_probability(float x, float row_max, std::uint64_t total) {
  const F32x16 sum = broadcast(static_cast<float>(total)) * broadcast(0x1p-32f);
  return first_lane((broadcast(x) - broadcast(row_max)) - log(sum));
}

// The tokens that the filters leave: the first `count` candidates if they are listed, else all logits >= bound.
struct Left {
  bool listed;
  std::size_t count;
  float bound;
};

Left filter(const SampleRow& row, const SampleScratch& scratch, float row_max) {
  const float* x = scratch.row;
  SampleCandidate* c = scratch.candidates;
  const std::size_t n = row.vocab_size;
  float bound = kNoLogit;
  if (above_zero(row.min_p)) {
    bound = first_lane(broadcast(row_max) + log(min(broadcast(row.min_p), broadcast(1.0f))));
  }
  const bool top_k = row.top_k > 0 && static_cast<std::size_t>(row.top_k) < n;
  const bool top_p = row.top_p < 1.0f;
  std::size_t left = 0;
  if (top_k) {
    left = take_top_k(x, n, bound, static_cast<std::size_t>(row.top_k), c);
    if (top_p) left = select_prefix(c, left, needed_weight(row.top_p, weigh(c, left, row_max)));
  } else if (top_p) {
    left = take_top_p(x, n, row_max, bound, row.top_p, c);
  }
  return {top_k || top_p, left, bound};
}

void sample_filtered(const SampleRow& row, const SampleScratch& scratch, float row_max, std::int32_t* token,
                     float* logprob) {
  const float* x = scratch.row;
  SampleCandidate* c = scratch.candidates;
  const auto [listed, left, bound] = filter(row, scratch, row_max);
  *token = listed ? draw_from_candidates(row, c, left) : draw_from_row(row, x, row_max, bound);
  if (logprob == nullptr) return;
  const std::uint64_t total = listed ? weigh(c, left, row_max) : total_weight(x, row.vocab_size, row_max, bound);
  *logprob = log_probability(x[*token], row_max, total);
}

void weigh_row(const SampleRow& row, const SampleScratch& scratch, std::uint64_t* weights) {
  const std::size_t n = row.vocab_size;
  const float row_max = prepare(row, row.temperature != 1.0f, scratch.row);
  std::memset(weights, 0, n * sizeof *weights);
  if (row_max == kNoLogit) return;
  SampleCandidate* c = scratch.candidates;
  const auto [listed, left, bound] = filter(row, scratch, row_max);
  if (listed) {
    weigh(c, left, row_max);
    for (std::size_t i = 0; i < left; ++i) weights[candidate_id(c[i].key)] = c[i].weight;
    return;
  }
  for (std::size_t i = 0; i < n; i += kLanes) {
    const F32x16 x = load_clean(scratch.row + i, n - i), d = x - broadcast(row_max);
    const Mask16 counts = ge(x, broadcast(bound)) & ge(d, broadcast(kWeightlessBelow));
    if (!any(counts)) continue;
    std::uint64_t lanes[kLanes];
    store_weights(weight_lanes(select(counts, exp(d), zero())), lanes);
    std::memcpy(weights + i, lanes, lanes_left(n - i) * sizeof *weights);
  }
}

void sample(const SampleRow& row, const SampleScratch& scratch, std::int32_t* token, float* logprob) {
  const bool greedy = !above_zero(row.temperature);
  const float row_max = prepare(row, !greedy && row.temperature != 1.0f, scratch.row);
  if (row_max == kNoLogit) {
    *token = -1;
    if (logprob != nullptr) *logprob = kNoLogit;
  } else if (greedy) {
    *token = first_equal(scratch.row, row.vocab_size, row_max);
    if (logprob != nullptr) *logprob = 0.0f;
  } else {
    sample_filtered(row, scratch, row_max, token, logprob);
  }
}

void noise(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::size_t n, float* out) {
  const I32x16 lane_index = load_i32(kLaneIndex);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const I32x16 ids = broadcast_i32(first_id + static_cast<std::int32_t>(i)) + lane_index;
    store_tail(out + i, gumbel(philox_first_word(key, position, ids)), lanes_left(n - i));
  }
}

}  // namespace

extern const SampleKernels kSampleKernels;
constinit const SampleKernels kSampleKernels = {
    .sample = sample,
    .weigh = weigh_row,
    .noise = noise,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
