// Four passes: prepare (edits, allowed set, temperature; the largest of each row), filter (where min_p, top_k and top_p
// cut the row), draw (the arg max of logit + noise over what is left) and finish. Maxima and integer sums have no
// order, so blocks meet in atomics. Greedy rows are done after the first pass.
#include "kernels/cuda/sample.hpp"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/logits.cuh"
#include "kernels/cuda/noise.cuh"
#include "kernels/cuda/select.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256, kFilterThreads = 1024;
constexpr int kSlice = 2048;  // columns of a block; no bit depends on it
// exp(d) * 2^32 rounds to 0 from here on down.
constexpr float kWeightlessBelow = -23.0f;
// Noise lies between -3.13 and 22.87, so what is further below the largest cannot win against it.
constexpr float kHopelessBelow = -26.5f;

struct RowState {
  unsigned long long largest;  // packed_best of the prepared row
  unsigned long long best;     // packed_best of the scores
  unsigned long long total;    // weight of what is left
  Cut cut;
  float bound;
};

struct Scratch {
  RowState* states;  // [rows]
  float* rows;       // [rows, vocab_size]
};

__host__ __device__ std::size_t state_bytes(std::int64_t rows) {
  return (static_cast<std::size_t>(rows) * sizeof(RowState) + 15) / 16 * 16;
}
__host__ __device__ Scratch scratch_of(const SampleArgs& args) {
  auto* const base = static_cast<std::byte*>(args.scratch);
  return {reinterpret_cast<RowState*>(base), reinterpret_cast<float*>(base + state_bytes(args.rows))};
}

__device__ bool greedy(const SampleArgs& args, std::int64_t r) {
  return !(args.temperatures[r] > 0.0f);  // a denormal is zero: -ftz
}

// As mortise_logit_edit says.
__device__ float edited(const LogitEdit& edit, float l) {
  l = __fadd_rn(l, edit.bias);
  l = l > 0.0f ? __fdiv_rn(l, edit.repetition) : __fmul_rn(l, edit.repetition);
  return __fadd_rn(l, -edit.subtract);
}

// Applies the row's edits of the columns [begin, begin + width) to `slice`. They come in any order, so each slice looks
// at all of them; their tokens differ.
__device__ void apply_edits(const SampleArgs& args, std::int64_t r, int begin, int width, float* slice) {
  const auto* const edits = reinterpret_cast<const int4*>(args.edits + args.edit_begins[r]);
  const int count = args.edit_counts[r];
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kThreads) {
    const int4 words = edits[e];
    const int column = words.x - begin;
    if (column < 0 || column >= width) continue;
    const LogitEdit edit = {words.x, __int_as_float(words.y), __int_as_float(words.z), __int_as_float(words.w)};
    slice[column] = edited(edit, slice[column]);
  }
}

__global__ void begin_kernel(const SampleArgs args) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r < args.rows) scratch_of(args).states[r] = {0, 0, 0, {kLastCode, kLastId}, no_logit()};
}

__global__ void __launch_bounds__(kThreads) prepare_kernel(const SampleArgs args) {
  __shared__ float slice[kSlice];
  __shared__ unsigned long long warps[kThreads / 32];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.y;
  const int begin = static_cast<int>(blockIdx.x) * kSlice, width = min(kSlice, args.vocab_size - begin);
  const float* row = args.logits + r * args.stride + begin;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) slice[i] = row[i];
  __syncthreads();
  if (args.edit_begins != nullptr) {
    apply_edits(args, r, begin, width, slice);
    __syncthreads();
  }
  const int mask = args.allowed_index == nullptr ? -1 : args.allowed_index[r];
  const std::int64_t words = (static_cast<std::int64_t>(args.vocab_size) + 31) / 32;
  const std::uint32_t* allowed = mask < 0 ? nullptr : args.allowed_masks + mask * words;
  const bool divide = !greedy(args, r);
  const float temperature = args.temperatures[r];
  float* out = scratch_of(args).rows + r * args.vocab_size + begin;
  unsigned long long largest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    const int id = begin + i;
    float x = clean(slice[i]);
    if (allowed != nullptr && (allowed[id / 32] >> (id % 32) & 1u) == 0) x = no_logit();
    if (divide) x = clean(__fdiv_rn(x, temperature));
    out[i] = x;
    const unsigned long long best = x > no_logit() ? packed_best(x, id) : 0;
    largest = best > largest ? best : largest;
  }
  largest = block_max<kThreads>(largest, warps);
  if (threadIdx.x == 0 && largest != 0) atomicMax(&scratch_of(args).states[r].largest, largest);
}

// ceil(top_p * total), with top_p as a multiple of 2^-32; at least 1.
__device__ unsigned long long needed_weight(float top_p, unsigned long long total) {
  const unsigned long long p = top_p > 0.0f ? weight_of(top_p) : 0;
  const unsigned long long low = p * (total & 0xffffffffu);
  const unsigned long long need = p * (total >> 32) + (low >> 32) + ((low & 0xffffffffu) != 0 ? 1 : 0);
  return need == 0 ? 1 : need;
}

__device__ unsigned long long token_weight(float x, float row_max) {
  const float d = __fadd_rn(x, -row_max);
  return d >= kWeightlessBelow ? weight_of(exp(d)) : 0;
}

// Where the filters cut a row. A block a row; rows without filters are left alone, but for the total if it is wanted.
__global__ void __launch_bounds__(kFilterThreads) filter_kernel(const SampleArgs args) {
  __shared__ SelectScratch scratch;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.x;
  RowState& state = scratch_of(args).states[r];
  if (greedy(args, r) || state.largest == 0) return;
  const float* row = scratch_of(args).rows + r * args.vocab_size;
  const float row_max = score_of_best(state.largest), min_p = args.min_ps[r], top_p = args.top_ps[r];
  const int k = args.top_ks[r];
  const bool top_k = k > 0 && k < args.vocab_size, cut_p = top_p < 1.0f;
  const float bound = min_p > 0.0f ? __fadd_rn(row_max, log(min_p < 1.0f ? min_p : 1.0f)) : no_logit();
  if (threadIdx.x == 0) state.bound = bound;
  if (!top_k && !cut_p && args.logprobs == nullptr) return;

  Cut cut = {kLastCode, kLastId};
  const auto left = [&](auto f) {  // f(x, code, id) for what is left so far
    for (int i = static_cast<int>(threadIdx.x); i < args.vocab_size; i += kFilterThreads) {
      const float x = row[i];
      if (!(x > no_logit() && x >= bound)) continue;
      const std::uint32_t code = descending_code(x);
      if (cut.keeps(code, static_cast<std::uint32_t>(i))) f(x, code, static_cast<std::uint32_t>(i));
    }
  };
  if (top_k) {
    unsigned long long count = 0;
    left([&](float, std::uint32_t, std::uint32_t) { ++count; });
    count = block_sum<kFilterThreads>(count, scratch.warp_sums);
    if (count > static_cast<unsigned long long>(k)) {
      cut = select_cut<kFilterThreads, true>(scratch, static_cast<unsigned long long>(k), [&](auto f) {
        left([&](float, std::uint32_t code, std::uint32_t id) { f(code, id, 1ull); });
      });
    }
  }
  const auto total_weight = [&] {
    unsigned long long total = 0;
    left([&](float x, std::uint32_t, std::uint32_t) { total += token_weight(x, row_max); });
    return block_sum<kFilterThreads>(total, scratch.warp_sums);
  };
  if (cut_p) {
    const unsigned long long need = needed_weight(top_p, total_weight());
    cut = select_cut<kFilterThreads, false>(scratch, need, [&](auto f) {
      left([&](float x, std::uint32_t code, std::uint32_t id) { f(code, id, token_weight(x, row_max)); });
    });
  }
  const unsigned long long total = args.logprobs == nullptr ? 0 : total_weight();
  if (threadIdx.x != 0) return;
  state.cut = cut;
  state.total = total;
}

__global__ void __launch_bounds__(kThreads) draw_kernel(const SampleArgs args) {
  __shared__ unsigned long long warps[kThreads / 32];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = blockIdx.y;
  const RowState& state = scratch_of(args).states[r];
  if (greedy(args, r) || state.largest == 0) return;
  const float row_max = score_of_best(state.largest), bound = state.bound;
  const float hopeless = __fadd_rn(row_max, kHopelessBelow);
  const Cut cut = state.cut;
  const std::uint64_t key = args.keys[r], position = static_cast<std::uint64_t>(args.positions[r]);
  const int begin = static_cast<int>(blockIdx.x) * kSlice, end = min(begin + kSlice, args.vocab_size);
  const float* row = scratch_of(args).rows + r * args.vocab_size;
  unsigned long long best = 0;
  for (int id = begin + static_cast<int>(threadIdx.x); id < end; id += kThreads) {
    const float x = row[id];
    if (!(x > no_logit() && x >= bound && x >= hopeless)) continue;
    if (!cut.keeps(descending_code(x), static_cast<std::uint32_t>(id))) continue;
    const float score = __fadd_rn(__fadd_rn(x, gumbel(philox_first_word(key, position, id))), 0.0f);  // one zero
    const unsigned long long offered = packed_best(score, id);
    best = offered > best ? offered : best;
  }
  best = block_max<kThreads>(best, warps);
  if (threadIdx.x == 0 && best != 0) atomicMax(&scratch_of(args).states[r].best, best);
}

__global__ void finish_kernel(const SampleArgs args) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r >= args.rows) return;
  const RowState& state = scratch_of(args).states[r];
  std::int32_t token = -1;
  float logprob = no_logit();
  if (state.largest != 0 && greedy(args, r)) {
    token = id_of_best(state.largest);
    logprob = 0.0f;
  } else if (state.largest != 0) {
    token = id_of_best(state.best);
    const float x = scratch_of(args).rows[r * args.vocab_size + token];
    const float sum = __fmul_rn(__ull2float_rn(state.total), 0x1p-32f);
    logprob = __fadd_rn(__fadd_rn(x, -score_of_best(state.largest)), -log(sum));
  }
  args.tokens[r] = token;
  if (args.logprobs != nullptr) args.logprobs[r] = logprob;
}

__global__ void noise_kernel(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::int32_t n,
                             float* noise) {
  const std::int32_t i = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) noise[i] = gumbel(philox_first_word(key, position, first_id + i));
}

unsigned ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<unsigned>((a + b - 1) / b);
}

}  // namespace

std::size_t sample_scratch(std::int64_t rows, std::int32_t vocab_size) {
  return state_bytes(rows) + static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab_size) * sizeof(float);
}

cudaError_t launch_sample(const SampleArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  constexpr int kRowThreads = 64;
  const unsigned row_blocks = ceil_div(args.rows, kRowThreads);
  const dim3 slices(ceil_div(args.vocab_size, kSlice), static_cast<unsigned>(args.rows));
  for (const cudaError_t error :
       {launch_overlapped(begin_kernel, row_blocks, kRowThreads, 0, stream, args),
        launch_overlapped(prepare_kernel, slices, kThreads, 0, stream, args),
        launch_overlapped(filter_kernel, static_cast<unsigned>(args.rows), kFilterThreads, 0, stream, args),
        launch_overlapped(draw_kernel, slices, kThreads, 0, stream, args),
        launch_overlapped(finish_kernel, row_blocks, kRowThreads, 0, stream, args)}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t launch_noise(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::int32_t n, float* noise,
                         cudaStream_t stream) {
  if (n <= 0) return cudaSuccess;
  noise_kernel<<<ceil_div(n, kThreads), kThreads, 0, stream>>>(key, position, first_id, n, noise);
  return cudaGetLastError();
}

}  // namespace mortise::cuda
