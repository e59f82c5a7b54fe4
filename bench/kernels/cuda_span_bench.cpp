// cuda_span_bench: attention of one layer of the 8B shape (32 heads, 8 KV heads, bf16) on the GPU, each figure
// beside its floor: bytes of K and V over the bandwidth of a copy in the same run, or operations over the peak of the
// tensor cores. Layers alternate, so that nothing is still in the L2 from the call before.
//   ./cuda_span_bench [HEAD_DIM [bf16|int8|fp8 [CASE]]]
// Without arguments heads of 128, as 8B has, and a cache in bf16. CASE: measures only the case of that name.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention/span_cuda/plan.hpp"
#include "kernels/cuda/span.hpp"

namespace {

using namespace mortise;
using Bf16 = uint16_t;

constexpr int32_t kHeads = 32, kKvHeads = 8, kBlockSize = 16, kLayers = 2;
constexpr double kPeakFlops = 784e12;  // bf16, one H200, measured (a large matrix product)

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "cuda_span_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

template <typename T>
T* allocate(std::size_t n) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, std::max<std::size_t>(n, 1) * sizeof(T)), "allocate");
  return static_cast<T*>(memory);
}
template <typename T>
T* upload(const std::vector<T>& values) {
  T* memory = allocate<T>(values.size());
  if (!values.empty()) {
    check(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }
  return memory;
}

// Fills device memory with about normal numbers: a random megabyte over and over, each time shifted.
void fill_random(Bf16* memory, std::size_t n) {
  std::mt19937 rng(1);
  std::vector<Bf16> values(std::size_t{1} << 22);
  for (Bf16& x : values) {
    const float f = static_cast<float>(static_cast<int>(rng() % 2001) - 1000) / 500.0f;
    uint32_t u;
    std::memcpy(&u, &f, 4);
    x = static_cast<Bf16>(u >> 16);
  }
  for (std::size_t at = 0; at < n; at += values.size()) {
    check(cudaMemcpy(memory + at, values.data(), std::min(values.size(), n - at) * 2, cudaMemcpyHostToDevice), "fill");
  }
}

// Median microseconds of a call; call(i) takes layer i.
double median_us(const std::function<void(int)>& call, int calls = 8, int rounds = 15) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int round = -2; round < rounds; ++round) {
    check(cudaEventRecord(begin, nullptr), "record");
    for (int i = 0; i < calls; ++i) call(i % kLayers);
    check(cudaEventRecord(end, nullptr), "record");
    check(cudaEventSynchronize(end), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "time");
    if (round >= 0) times.push_back(1e3 * ms / calls);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

double copy_bytes_per_us(Bf16* memory, std::size_t bytes) {
  char* base = reinterpret_cast<char*>(memory);
  const std::size_t half = bytes / 2 / 4096 * 4096;
  const double us = median_us(
      [&](int) { check(cudaMemcpyAsync(base, base + half, half, cudaMemcpyDeviceToDevice, nullptr), "copy"); }, 2, 9);
  return 2.0 * static_cast<double>(half) / us;
}

struct Case {
  std::string name;
  int32_t num_seqs, rows, length;
  int32_t shared = 0;     // of the length, in the same blocks
  bool cascades = false;  // read once
};

struct Bench {
  Bench(int32_t head_dim, cuda::SpanCache cache)
      : head_dim(head_dim), layout(cuda::make_span_layout(kLayers, kKvHeads, head_dim, kBlockSize, cache)) {}

  const int32_t head_dim;
  const cuda::SpanLayout layout;
  Bf16* kv = nullptr;
  int32_t num_blocks = 0;
  int32_t multiprocessors = 0;
  double bandwidth = 0;  // bytes a microsecond

  void run(const Case& c) const;
  void append(int32_t rows) const;
};

void Bench::run(const Case& c) const {
  const int32_t max_blocks = (c.length + kBlockSize - 1) / kBlockSize;
  std::vector<int32_t> order(static_cast<std::size_t>(num_blocks)), table, starts = {0}, lengths;
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::mt19937 rng(2);
  std::shuffle(order.begin(), order.end(), rng);
  for (int32_t seq = 0; seq < c.num_seqs; ++seq) {
    for (int32_t i = 0; i < max_blocks; ++i) {
      const int32_t source_seq = (i + 1) * kBlockSize <= c.shared ? 0 : seq;
      table.push_back(order[static_cast<std::size_t>(source_seq * max_blocks + i) % order.size()]);
    }
    starts.push_back(starts.back() + c.rows);
    lengths.push_back(c.length);
  }
  mortise_batch batch{};
  batch.num_seqs = c.num_seqs;
  batch.num_tokens = starts.back();
  batch.block_size = kBlockSize;
  batch.max_blocks = max_blocks;
  batch.block_table = table.data();
  batch.cu_seqlens_q = starts.data();
  batch.seq_lens = lengths.data();
  std::vector<int32_t> offsets = {0, c.num_seqs}, members(lengths.size()),
                       tokens = {c.shared / kBlockSize * kBlockSize};
  std::iota(members.begin(), members.end(), 0);
  std::vector<int32_t> parents = {-1};
  batch.num_groups = c.cascades ? 1 : 0;
  batch.group_offsets = offsets.data();
  batch.group_seqs = members.data();
  batch.group_shared_tokens = tokens.data();
  batch.group_parents = parents.data();
  const int32_t blocks = multiprocessors * cuda::span_decode_blocks_per_sm(head_dim);
  span_cuda::PlanShape shape{kHeads, kKvHeads, 0, blocks, 1 << 17, true};
  shape.head_dim = head_dim;
  shape.num_shared_blocks = c.cascades ? blocks : 0;
  shape.max_shared_runs = shape.max_shared_rows = 1 << 16;
  span_cuda::Plan plan;
  make_plan(batch, shape, plan);

  cuda::SpanArgs args{};
  const std::size_t elements = static_cast<std::size_t>(batch.num_tokens) * kHeads * head_dim;
  Bf16* const q = allocate<Bf16>(elements);
  fill_random(q, elements);
  args.q = q;
  args.out = allocate<Bf16>(elements);
  args.q_row_stride = args.out_row_stride = kHeads * head_dim;
  args.q_head_stride = args.out_head_stride = head_dim;
  args.block_table = upload(table);
  args.layout = layout;
  args.heads_per_kv_head = kHeads / kKvHeads;
  args.scale = cuda::span_scale(1.0f / std::sqrt(static_cast<float>(head_dim)));
  args.partials = allocate<float>(static_cast<std::size_t>(plan.partial_rows) * head_dim);
  args.partial_stats = allocate<float2>(static_cast<std::size_t>(plan.partial_rows));
  const cuda::SharedWork shared{upload(plan.block_begin), upload(plan.shared_runs), upload(plan.shared_rows),
                                shape.num_shared_blocks};
  const cuda::SpanWork work{upload(plan.worker_begin), upload(plan.runs), blocks, shared};
  const cuda::SpanMerge* const merges = upload(plan.merges);
  const cuda::SpanMergeCounts* const counts = upload(std::vector<cuda::SpanMergeCounts>{merge_counts(plan, head_dim)});
  const cuda::SpanRun* const prefill = upload(plan.prefill);
  const auto at_layer = [&](int layer) {
    cuda::SpanArgs at = args;
    at.kv = kv + static_cast<std::size_t>(layer) * layout.layer_elements;
    return at;
  };
  const auto decode = [&](int layer) { check(cuda::span_decode(at_layer(layer), work, nullptr), "decode"); };
  const auto merge = [&](int layer) {
    check(cuda::span_merge(at_layer(layer), merges, counts, multiprocessors * 4, nullptr), "merge");
  };
  const auto fill = [&](int layer) {
    const auto num_runs = static_cast<int32_t>(plan.prefill.size());
    check(cuda::span_prefill(at_layer(layer), prefill, num_runs, multiprocessors, nullptr), "prefill");
  };
  const double tokens_read = static_cast<double>(c.num_seqs) * (c.length - c.shared) + c.shared;
  const double bytes = 4.0 * tokens_read * kKvHeads * static_cast<double>(layout.head_elements) / 2 / kBlockSize;
  const double keys = c.rows * (c.length - c.rows + (c.rows + 1) / 2.0);  // seen by all rows of a sequence
  const double flops = 4.0 * c.num_seqs * keys * kHeads * head_dim;
  const double floor = std::max(bytes / bandwidth, flops / kPeakFlops * 1e6);
  double us = 0;
  if (!plan.runs.empty()) {
    us = median_us([&](int layer) {
      decode(layer);
      if (!plan.merges.empty()) merge(layer);
    });
    const double alone = median_us(decode);
    std::printf("%-34s %9.1f us   floor %8.1f   %5.2f x   (decode %.1f, merge %.1f; %zu + %zu runs, %zu merges)\n",
                c.name.c_str(), us, floor, us / floor, alone, plan.merges.empty() ? 0.0 : median_us(merge),
                plan.shared_runs.size(), plan.runs.size(), plan.merges.size());
  } else {
    us = median_us(fill, 4, 9);
    std::printf("%-34s %9.1f us   floor %8.1f   %5.2f x   (%.0f TFLOP/s)\n", c.name.c_str(), us, floor, us / floor,
                flops / us * 1e-6);
  }
}

void Bench::append(int32_t rows) const {
  std::vector<int32_t> positions(static_cast<std::size_t>(rows));
  std::vector<int64_t> slots(positions.size());
  for (int32_t i = 0; i < rows; ++i) {
    positions[static_cast<std::size_t>(i)] = i;
    slots[static_cast<std::size_t>(i)] = i;
  }
  const int32_t columns = (kHeads + 2 * kKvHeads) * head_dim;
  Bf16* const qkv = allocate<Bf16>(static_cast<std::size_t>(rows) * columns);
  fill_random(qkv, static_cast<std::size_t>(rows) * columns);
  cuda::SpanAppend append{};
  append.q = qkv;
  append.k = qkv + kHeads * head_dim;
  append.v = append.k + kKvHeads * head_dim;
  append.q_row_stride = append.k_row_stride = append.v_row_stride = columns;
  append.q_head_stride = append.k_head_stride = append.v_head_stride = head_dim;
  append.num_tokens = rows;
  append.num_heads = kHeads;
  append.positions = upload(positions);
  append.slots = upload(slots);
  append.cos = upload(std::vector<float>(static_cast<std::size_t>(rows) * head_dim / 2, 0.8f));
  append.sin = upload(std::vector<float>(static_cast<std::size_t>(rows) * head_dim / 2, 0.6f));
  append.rotary_dim = head_dim;
  append.kv = kv;
  append.layout = layout;
  const double us = median_us([&](int) { check(cuda::span_append(append, nullptr), "append"); });
  const double floor = 2.0 * 2 * rows * columns / bandwidth;  // q, k and v read and written
  std::printf("%-34s %9.1f us   floor %8.1f   %5.2f x\n", ("append " + std::to_string(rows) + " rows").c_str(), us,
              floor, us / floor);
}

}  // namespace

int main(int argc, char** argv) {
  const int32_t head_dim = argc > 1 ? std::atoi(argv[1]) : 128;
  if (!cuda::is_span_head_dim(head_dim)) {
    std::fprintf(stderr, "cuda_span_bench: no kernel for heads of %s\n", argv[1]);
    return 2;
  }
  const std::string type = argc > 2 ? argv[2] : "bf16", only = argc > 3 ? argv[3] : "";
  if (type != "bf16" && type != "int8" && type != "fp8") {
    std::fprintf(stderr, "cuda_span_bench: '%s' is none of bf16, int8 and fp8\n", type.c_str());
    return 2;
  }
  Bench bench(head_dim, type == "int8"  ? cuda::SpanCache::kInt8
                        : type == "fp8" ? cuda::SpanCache::kFp8
                                        : cuda::SpanCache::kBf16);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "no GPU");
  bench.multiprocessors = properties.multiProcessorCount;
  check(cuda::span_decode_prepare(head_dim, bench.layout.cache), "prepare");
  check(cuda::span_prefill_prepare(head_dim, bench.layout.cache), "prepare");
  bench.num_blocks = 256 * 138;
  const std::size_t elements = static_cast<std::size_t>(bench.num_blocks) * bench.layout.block_elements;
  bench.kv = allocate<Bf16>(elements);
  fill_random(bench.kv, elements);
  bench.bandwidth = copy_bytes_per_us(bench.kv, elements * 2);
  std::printf("%s, %d multiprocessors, heads of %d%s, spans of %d; a copy moves %.2f TB/s\n", properties.name,
              bench.multiprocessors, head_dim, type == "bf16" ? "" : (", " + type).c_str(), cuda::kSpan,
              bench.bandwidth * 1e-6);
  bool found = false;
  for (const Case& c :
       {Case{"decode 1 x 32000", 1, 1, 32000}, Case{"decode 64 x 2200", 64, 1, 2200},
        Case{"decode 256 x 2200", 256, 1, 2200}, Case{"64 x 2208, 2000 shared, as paged", 64, 1, 2208, 2000},
        Case{"64 x 2208, 2000 shared", 64, 1, 2208, 2000, true},
        Case{"256 x 2208, 2000 shared, as paged", 256, 1, 2208, 2000},
        Case{"256 x 2208, 2000 shared", 256, 1, 2208, 2000, true},
        Case{"16 x 8400, 8192 shared, as paged", 16, 1, 8400, 8192},
        Case{"16 x 8400, 8192 shared", 16, 1, 8400, 8192, true},
        Case{"4 x 2208, 2000 shared, as paged", 4, 1, 2208, 2000},
        Case{"4 x 2208, 2000 shared", 4, 1, 2208, 2000, true}, Case{"decode 1 x 200", 1, 1, 200},
        Case{"decode 1 x 500", 1, 1, 500}, Case{"decode 32 x 500", 32, 1, 500},
        Case{"verify 1 x 6 rows at 200", 1, 6, 200}, Case{"verify 32 x 5 rows at 2200", 32, 5, 2200},
        Case{"prefill 4000", 1, 4000, 4000}, Case{"prefill 4 x 2000", 4, 2000, 2000},
        Case{"chunk of 512 at 8000", 1, 512, 8000}}) {
    if (!only.empty() && c.name != only) continue;
    bench.run(c);
    found = true;
  }
  if (!found) {
    std::fprintf(stderr, "cuda_span_bench: no case is called '%s'; without a case it prints all names\n", only.c_str());
    return 2;
  }
  if (!only.empty()) return 0;
  bench.append(256);
  bench.append(4000);
}
