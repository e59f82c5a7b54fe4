#include "kernels/cpu/head/head_reduce.hpp"

#include "kernels/cpu/head/clean_logit.hpp"
#include "kernels/cpu/vec/math.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

void clean_one(const float* logit, float* out) {
  *out = first_lane(clean(broadcast(*logit)));
}

// The maximum of raw logits: max() ignores NaN in its first operand and turns denormals into zeros. Four chains,
// because one chain would wait for its own result.
float raw_max(const float* logits, std::size_t n) {
  constexpr std::size_t kChains = 4;
  F32x16 m[kChains];
  for (F32x16& chain : m) chain = broadcast(kNoLogit);
  std::size_t i = 0;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes) {
    for (std::size_t chain = 0; chain < kChains; ++chain) m[chain] = max(load(logits + i + chain * kLanes), m[chain]);
  }
  for (; i < n; i += kLanes) m[0] = max(load_clean(logits + i, n - i), m[0]);
  return max(max(max(m[0], m[1]), max(m[2], m[3])));
}

// Sum of exp(logit - slice_max). NaN and lanes beyond the end count as exp(-infinity) = 0. Denormals and -0 need no
// clean(), since subtracting the maximum gives the same result as for +0. Only a slice with +infinity must be cleaned.
// `next` is prefetched meanwhile: the hardware prefetcher does not follow the jump to another row or page.
float slice_sum(const float* logits, std::size_t n, float slice_max, bool has_infinity, const float* next) {
  const F32x16 m = broadcast(slice_max);
  F32x16 s = zero();
  std::size_t i = 0;
  if (!has_infinity) {
    for (; i + kLanes <= n; i += kLanes) {
      __builtin_prefetch(next + i);
      s = s + exp_of_negative(load(logits + i) - m);
    }
  }
  for (; i < n; i += kLanes) s = s + exp_of_negative(load_clean(logits + i, n - i) - m);
  return sum(s);
}

void merge(float* max_state, float* sum_state, float slice_max, float slice_sum) {
  const F32x16 a = broadcast(*max_state), b = broadcast(slice_max);
  const F32x16 m = max(a, b);
  const F32x16 left = broadcast(*sum_state) * exp(a - m);
  const F32x16 right = broadcast(slice_sum) * exp(b - m);
  *max_state = first_lane(m);
  *sum_state = first_lane(left + right);
}

void log_sum_exp(const float* logits, std::size_t n, const float* next, float* max_state, float* sum_state) {
  for (std::size_t begin = 0; begin < n; begin += kVocabSlice) {
    const bool is_last = n - begin <= kVocabSlice;
    const std::size_t width = is_last ? n - begin : kVocabSlice;
    const float raw = raw_max(logits + begin, width);
    const float m = first_lane(clean(broadcast(raw)));
    if (m == kNoLogit) continue;  // no logit in this slice; -infinity - -infinity would be NaN
    merge(max_state, sum_state, m,
          slice_sum(logits + begin, width, m, raw == kInfinity, is_last ? next : logits + begin + kVocabSlice));
  }
}

void log_of_sum(float max_state, float sum_state, float* lse) {
  *lse = first_lane(broadcast(max_state) + log(broadcast(sum_state)));
}

// Counts the lanes of `x` that come before the target. The first `lower` lanes have lower ids than the target.
std::int32_t count_lanes(F32x16 x, F32x16 target_logit, std::size_t lower) {
  return __builtin_popcount(mask_bits(gt(x, target_logit) | (eq(x, target_logit) & first_lanes(lower))));
}

template <bool is_raw>
MORTISE_INLINE F32x16 logits_at(const float* logits) {
  return is_raw ? load(logits) : clean(load(logits));
}

template <bool is_raw>
std::int32_t count(const float* logits, std::size_t n, std::size_t lower, float target_logit) {
  const F32x16 t = broadcast(target_logit);
  std::int32_t count = 0;
  std::size_t i = 0;
  for (; i + kLanes <= lower; i += kLanes) {
    count += __builtin_popcount(mask_bits(ge(logits_at<is_raw>(logits + i), t)));
  }
  if (i < lower) {
    count += count_lanes(load_clean(logits + i, n - i), t, lower - i);
    i += kLanes;
  }
  for (; i + kLanes <= n; i += kLanes) {
    count += __builtin_popcount(mask_bits(gt(logits_at<is_raw>(logits + i), t)));
  }
  if (i < n) count += count_lanes(load_clean_tail(logits + i, n - i), t, 0);
  return count;
}

std::int32_t count_before(const float* logits, std::size_t n, std::int32_t first_id, std::int32_t target,
                          float target_logit) {
  const std::int64_t before_target = static_cast<std::int64_t>(target) - first_id;
  const std::size_t lower =
      before_target <= 0 ? 0
                         : (before_target < static_cast<std::int64_t>(n) ? static_cast<std::size_t>(before_target) : n);
  // Raw logits can be compared unless the target's logit is the smallest or the largest. Only then does it matter that
  // NaN counts as -infinity and +infinity as the largest finite number.
  const bool is_edge = target_logit == kNoLogit || target_logit == kLargestLogit;
  return is_edge ? count<false>(logits, n, lower, target_logit) : count<true>(logits, n, lower, target_logit);
}

// Inserts a token into the sorted list of `size` entries and drops the last entry. Ids ascend, so a token goes after
// entries with an equal logit.
void insert(std::int32_t* ids, float* top_logits, std::size_t size, std::int32_t id, float logit) {
  std::size_t i = size - 1;
  for (; i > 0 && (ids[i - 1] < 0 || top_logits[i - 1] < logit); --i) {
    ids[i] = ids[i - 1];
    top_logits[i] = top_logits[i - 1];
  }
  ids[i] = id;
  top_logits[i] = logit;
}

void top_n(const float* logits, std::size_t n, std::int32_t first_id, std::size_t size, std::int32_t* ids,
           float* top_logits) {
  if (size == 0) return;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const F32x16 x = load_clean(logits + i, n - i);
    const bool full = ids[size - 1] >= 0;
    std::uint32_t candidates = mask_bits(first_lanes(lanes_left(n - i)));
    if (full) candidates &= mask_bits(gt(x, broadcast(top_logits[size - 1])));
    if (candidates == 0) continue;
    float lane[kLanes];
    store(lane, x);
    for (; candidates != 0; candidates &= candidates - 1) {
      const int j = __builtin_ctz(candidates);
      if (ids[size - 1] >= 0 && lane[j] <= top_logits[size - 1]) continue;
      insert(ids, top_logits, size, first_id + static_cast<std::int32_t>(i) + j, lane[j]);
    }
  }
}

}  // namespace

extern const HeadKernels kHeadKernels;
constinit const HeadKernels kHeadKernels = {
    .clean = clean_one,
    .log_sum_exp = log_sum_exp,
    .log_of_sum = log_of_sum,
    .count_before = count_before,
    .top_n = top_n,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
