// One block works on one row: it prepares the logits in memory, finds where the filters cut, and adds integer weights.
// After a rejection it adds the excess of all tokens, and then again of ever fewer, until one warp can find the token.
#include "kernels/cuda/verify_drafts.hpp"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/noise.cuh"
#include "kernels/cuda/sample_row.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32;

// Calls f(i, from[i]) for i = begin, begin + kStep, .. below `end`. Several loads are under way at once.
template <int kStep, class F>
__device__ __forceinline__ void each(const float* from, int begin, int end, F f) {
  constexpr int kLoads = 8;
  for (int first = begin; first < end; first += kLoads * kStep) {
    float x[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) x[j] = first + j * kStep < end ? from[first + j * kStep] : 0.0f;
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (first + j * kStep < end) f(first + j * kStep, x[j]);
    }
  }
}

// A number in (0, 1) of 52 bits. `purpose`: 0 to accept, 1 to recover.
__device__ double uniform(std::uint64_t key, std::uint64_t position, std::uint32_t purpose) {
  const uint2 r = philox_words(key, position, purpose, 1);
  const std::uint64_t bits = static_cast<std::uint64_t>(r.x >> 6) << 26 | r.y >> 6;
  return __dmul_rn(__dadd_rn(__ull2double_rn(bits), 0.5), 0x1p-52);
}

// The distribution that a draft was drawn from. A value in registers: each thread has its own, equal in all threads of
// the block.
struct DraftDistribution {
  const float* numbers;  // null: the draft was certain
  std::int32_t draft;
  double largest = 0;
  double total = 0;  // of the weights

  __device__ unsigned long long weight(float number) const {
    const double cleaned = static_cast<double>(__fadd_rn(number, 0.0f));  // a denormal counts as 0
    return __double2ull_rn(__dmul_rn(__ddiv_rn(cleaned, largest), 0x1p32));
  }
  __device__ double probability(int id) const {
    if (numbers == nullptr) return id == draft ? 1.0 : 0.0;
    return __ddiv_rn(__ull2double_rn(weight(numbers[id])), total);
  }
};

// The target's distribution after the filters. A value like the above.
struct TargetDistribution {
  float row_max;
  Filtered filtered;
  double total = 0;  // of the weights

  // Of the token `id`, whose prepared logit is x.
  __device__ unsigned long long weight(int id, float x) const {
    if (!(x > no_logit() && x >= filtered.bound)) return 0;
    const bool kept = filtered.cut.keeps(descending_code(x), static_cast<std::uint32_t>(id));
    return kept ? token_weight(x, row_max) : 0;
  }
};

// max(0, p - q) of the token `id` as an integer, in units of 2^-60. x: its prepared logit.
__device__ unsigned long long excess(const TargetDistribution& p, const DraftDistribution& q, int id, float x) {
  const unsigned long long weight = p.weight(id, x);
  if (weight == 0) return 0;
  const double more = __dadd_rn(__ddiv_rn(__ull2double_rn(weight), p.total), -q.probability(id));
  return more > 0 ? __double2ull_rn(__dmul_rn(more, 0x1p60)) : 0;
}

// Writes the row's prepared logits to `row`, and returns packed_best of the largest.
__device__ unsigned long long prepare(const SampleArgs& args, std::int64_t r, float* row, unsigned long long* warps) {
  const int tid = static_cast<int>(threadIdx.x);
  const float* const logits = args.logits + r * args.stride;
  const Preparation preparation(args, r);
  each<kThreads>(logits, tid, args.vocab_size, [&](int id, float x) { row[id] = preparation.prepared(x, id); });
  const int num_edits = args.edit_begins == nullptr ? 0 : args.edit_counts[r];
  __syncthreads();
  for (int e = tid; e < num_edits; e += kThreads) {
    const LogitEdit edit = args.edits[args.edit_begins[r] + e];
    if (edit.token < 0 || edit.token >= args.vocab_size) continue;
    row[edit.token] = preparation.prepared(edited(edit, logits[edit.token]), edit.token);
  }
  __syncthreads();
  unsigned long long largest = 0;
  each<kThreads>(row, tid, args.vocab_size, [&](int id, float x) {
    const unsigned long long own = x > no_logit() ? packed_best(x, id) : 0;
    largest = own > largest ? own : largest;
  });
  return block_max<kThreads>(largest, warps);
}

// Sets q's largest number and total. All threads of the block call it.
__device__ void weigh(DraftDistribution& q, int vocab_size, unsigned long long* warps) {
  const int tid = static_cast<int>(threadIdx.x);
  unsigned long long largest = 0;  // the bits of numbers that are not negative ascend with them
  each<kThreads>(q.numbers, tid, vocab_size, [&](int, float number) {
    const unsigned long long bits = __float_as_uint(__fadd_rn(number, 0.0f));
    largest = bits > largest ? bits : largest;
  });
  largest = block_max<kThreads>(largest, warps);
  if (largest == 0) {
    q.numbers = nullptr;
    return;
  }
  q.largest = static_cast<double>(__uint_as_float(static_cast<std::uint32_t>(largest)));
  unsigned long long total = 0;
  each<kThreads>(q.numbers, tid, vocab_size, [&](int, float number) { total += q.weight(number); });
  q.total = __ull2double_rn(block_sum<kThreads>(total, warps));
}

// Returns the first token whose running sum of excess exceeds u * the whole sum, or -1 if the sum is 0. All threads of
// the block call it and get the same. In each round every warp adds a part of the tokens that are left, and those of
// the part in which the wanted sum lies are left for the next round.
__device__ std::int32_t recovered_token(const TargetDistribution& p, const DraftDistribution& q, const float* row,
                                        int vocab_size, double u, unsigned long long* warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int begin = 0, end = vocab_size;
  unsigned long long wanted = 0;  // the running sum to exceed, from `begin` on
  for (bool first = true; first || end - begin > 32; first = false) {
    const int share = ((end - begin + kWarps - 1) / kWarps + 31) / 32 * 32;  // so that a warp reads whole lines
    const int own_begin = min(begin + warp * share, end), own_end = min(own_begin + share, end);
    unsigned long long own = 0;
    each<32>(row, own_begin + lane, own_end, [&](int id, float x) { own += excess(p, q, id, x); });
#pragma unroll
    for (int half = 16; half > 0; half /= 2) own += __shfl_xor_sync(0xffffffffu, own, half);
    __syncthreads();  // `warps` may still be in use
    if (lane == 0) warps[warp] = own;
    __syncthreads();
    if (first) {
      unsigned long long all = 0;
      for (int w = 0; w < kWarps; ++w) all += warps[w];
      if (all == 0) return -1;
      wanted = __double2ull_rz(__dmul_rn(u, __ull2double_rn(all)));
      if (wanted >= all) wanted = all - 1;
    }
    int part = 0;
    for (; wanted >= warps[part]; ++part) wanted -= warps[part];
    begin += part * share;
    end = min(begin + share, end);
  }
  unsigned long long sum = begin + lane < end ? excess(p, q, begin + lane, row[begin + lane]) : 0;
#pragma unroll
  for (int half = 1; half < 32; half *= 2) {  // the running sum of the lanes
    const unsigned long long other = __shfl_up_sync(0xffffffffu, sum, half);
    if (lane >= half) sum += other;
  }
  return begin + __ffs(static_cast<int>(__ballot_sync(0xffffffffu, sum > wanted))) - 1;
}

__global__ void __launch_bounds__(kThreads) verify_kernel(const VerifyArgs args) {
  __shared__ SelectScratch scratch;
  __shared__ unsigned long long warps[kWarps];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.x;
  const int vocab_size = args.rows.vocab_size, draft = args.drafts[r];
  if (draft < 0 || greedy(args.rows, r)) return;
  float* const row = static_cast<float*>(args.rows.scratch) + r * vocab_size;
  const unsigned long long largest = prepare(args.rows, r, row, warps);
  if (largest == 0) {
    if (threadIdx.x == 0) args.rows.tokens[r] = -1;
    return;
  }
  TargetDistribution p = {score_of_best(largest), {}};
  p.filtered = filter_row<kThreads>(args.rows, r, row, p.row_max, scratch);
  unsigned long long total = 0;
  each<kThreads>(row, static_cast<int>(threadIdx.x), vocab_size, [&](int id, float x) { total += p.weight(id, x); });
  p.total = __ull2double_rn(block_sum<kThreads>(total, warps));
  const int at = args.distribution_rows == nullptr ? -1 : args.distribution_rows[r];
  DraftDistribution q = {at < 0 ? nullptr : args.distributions + at * args.distribution_stride, draft};
  if (q.numbers != nullptr) weigh(q, vocab_size, warps);

  const std::uint64_t key = args.rows.keys[r], position = static_cast<std::uint64_t>(args.rows.positions[r]);
  const double p_of_draft = __ddiv_rn(__ull2double_rn(p.weight(draft, row[draft])), p.total);
  if (__dmul_rn(uniform(key, position, 0), q.probability(draft)) < p_of_draft) {
    if (threadIdx.x == 0) args.rows.tokens[r] = draft;
    return;
  }
  const std::int32_t recovered = recovered_token(p, q, row, vocab_size, uniform(key, position, 1), warps);
  // -1: the distributions are equal, but for rounding.
  if (threadIdx.x == 0) args.rows.tokens[r] = recovered < 0 && p_of_draft > 0 ? draft : recovered;
}

}  // namespace

std::size_t verify_drafts_scratch(std::int64_t rows, std::int32_t vocab_size) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab_size) * sizeof(float);
}

cudaError_t launch_verify_drafts(const VerifyArgs& args, cudaStream_t stream) {
  if (args.rows.rows == 0) return cudaSuccess;
  return launch_overlapped(verify_kernel, static_cast<unsigned>(args.rows.rows), kThreads, 0, stream, args);
}

}  // namespace mortise::cuda
