// Norms, the gated activation and append (rope, K and V into their slots) of a layer of the 8B shape on a GPU, in bf16;
// for up to 512 rows also drawing tokens and verifying drafts over its vocabulary.
//   cuda_rows_bench [ROWS ...]      default: 256 8192
// A figure is the median time of one call in a graph of several over different memory, so that the L2 has little of it;
// each may begin before the one before has ended, as in a step. Beside it: the time of a copy that moves as many bytes.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/rows.hpp"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/verify_drafts.hpp"

namespace {

using namespace mortise::cuda;

constexpr std::int64_t kHidden = 4096, kIntermediate = 14336, kHeadDim = 128, kBlockSize = 16;
constexpr std::int32_t kHeads = 32, kKvHeads = 8;
constexpr int kCalls = 16, kRepeats = 15;
constexpr std::int64_t kBytesOfAll = 400 << 20;  // that the calls of a graph read, at least

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "cuda_rows_bench: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

template <class T>
T* upload(const std::vector<T>& values) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, values.size() * sizeof(T)), "memory");
  require(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  return static_cast<T*>(memory);
}

// `copies` times `elements` numbers around 1 of both signs.
class Numbers {
 public:
  Numbers(std::int64_t elements, std::int64_t copies) : elements_(elements), copies_(copies) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(elements));
    std::uint64_t state = 1;
    for (std::uint16_t& value : values) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto r = static_cast<std::uint32_t>(state >> 40);
      value = static_cast<std::uint16_t>((r & 0x8000u) | (0x3f00u + (r & 0xffu)));
    }
    void* memory = nullptr;
    const auto bytes = static_cast<std::size_t>(elements) * 2;
    require(cudaMalloc(&memory, bytes * static_cast<std::size_t>(copies)), "memory");
    memory_ = static_cast<std::uint16_t*>(memory);
    for (std::int64_t i = 0; i < copies; ++i) {
      require(cudaMemcpy(of(i), values.data(), bytes, cudaMemcpyHostToDevice), "upload");
    }
  }
  ~Numbers() { cudaFree(memory_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  std::uint16_t* of(std::int64_t call) const { return memory_ + call % copies_ * elements_; }

 private:
  std::int64_t elements_, copies_;
  std::uint16_t* memory_ = nullptr;
};

// Microseconds of a call.
double measure(cudaStream_t stream, const std::function<cudaError_t(int)>& call) {
  require(call(0), "launch");
  cudaGraph_t graph;
  cudaGraphExec_t run;
  require(cudaStreamSynchronize(stream), "call");
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kCalls; ++i) require(call(i), "launch");
  require(cudaStreamEndCapture(stream, &graph), "capture");
  require(cudaGraphInstantiate(&run, graph, 0), "graph");
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < kRepeats + 2; ++i) {
    require(cudaEventRecord(begin, stream), "event");
    require(cudaGraphLaunch(run, stream), "graph");
    require(cudaEventRecord(end, stream), "event");
    require(cudaEventSynchronize(end), "calls");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i >= 2) times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return static_cast<double>(times[kRepeats / 2]) * 1e3 / kCalls;
}

std::int64_t copies_for(std::int64_t bytes) {
  return std::clamp<std::int64_t>(kBytesOfAll / bytes + 1, 2, kCalls);
}

// Prints the time of a call that reads and writes `bytes`, and that of a copy of half of them.
void print(const char* name, std::int64_t rows, double us, std::int64_t bytes, cudaStream_t stream) {
  const std::int64_t copies = copies_for(bytes);
  const Numbers from(bytes / 4, copies), to(bytes / 4, copies);
  const double copy = measure(stream, [&](int i) {
    return cudaMemcpyAsync(to.of(i), from.of(i), static_cast<std::size_t>(bytes / 2), cudaMemcpyDeviceToDevice, stream);
  });
  std::printf("%-6s %6lld rows %8.1f us %6.2f TB/s; copy %8.1f us\n", name, static_cast<long long>(rows), us,
              static_cast<double>(bytes) / us * 1e-6, copy);
  std::fflush(stdout);
}

void norm(std::int64_t rows, cudaStream_t stream) {
  const std::int64_t elements = rows * kHidden, copies = copies_for(elements * 8);
  const Numbers x(elements, copies), residual(elements, copies), out(elements, copies), weight(kHidden, 1);
  const double us = measure(stream, [&](int i) {
    NormArgs args = {};
    args.x = {x.of(i), kHidden};
    args.residual = {residual.of(i), kHidden};
    args.out = {out.of(i), kHidden};
    args.weight = weight.of(0);
    args.rows = rows;
    args.columns = kHidden;
    args.type = ElementType::kBf16;
    args.eps = 1e-5f;
    return launch_norm(args, stream);
  });
  print("norm", rows, us, elements * 8, stream);
}

void gate(std::int64_t rows, cudaStream_t stream) {
  const std::int64_t elements = rows * kIntermediate, copies = copies_for(elements * 6);
  const Numbers x(2 * elements, copies), out(elements, copies);
  const double us = measure(stream, [&](int i) {
    return launch_gated(Activation::kSilu, ElementType::kBf16, {x.of(i), 2 * kIntermediate}, {out.of(i), kIntermediate},
                        rows, kIntermediate, stream);
  });
  print("gate", rows, us, elements * 6, stream);
}

void append(std::int64_t rows, cudaStream_t stream) {
  const std::int64_t width = (kHeads + 2 * kKvHeads) * kHeadDim, bytes = rows * 2 * width * 2;
  const std::int64_t copies = copies_for(bytes), blocks = (rows + kBlockSize - 1) / kBlockSize;
  SpanAppend args = {};
  args.layout = make_span_layout(1, kKvHeads, kHeadDim, kBlockSize);
  const auto of_block = static_cast<std::int64_t>(args.layout.block_elements);
  const Numbers qkv(rows * width, copies), cache(blocks * of_block, copies);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  std::vector<std::int64_t> slots(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    positions[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i % 4000);
    slots[static_cast<std::size_t>(i)] = i;
  }
  const std::vector<float> angles(4000 * kHeadDim / 2, 0.7f);
  args.positions = upload(positions);
  args.slots = upload(slots);
  args.cos = upload(angles);
  args.sin = upload(angles);
  args.rotary_dim = kHeadDim;
  args.num_tokens = static_cast<std::int32_t>(rows);
  args.num_heads = kHeads;
  args.q_row_stride = args.k_row_stride = args.v_row_stride = width;
  args.q_head_stride = args.k_head_stride = args.v_head_stride = kHeadDim;
  const double us = measure(stream, [&](int i) {
    args.q = qkv.of(i);
    args.k = args.q + kHeads * kHeadDim;
    args.v = args.k + kKvHeads * kHeadDim;
    args.kv = cache.of(i);
    return span_append(args, stream);
  });
  print("append", rows, us, bytes, stream);
}

// Draws a token of each row, verifies drafts of all rows that were certain, and drafts with a distribution. Logits and
// distributions are random, so nearly all drafts are rejected, which takes longest.
void sampling(std::int64_t rows, cudaStream_t stream) {
  constexpr std::int32_t kVocab = 128256;
  const auto count = static_cast<std::size_t>(rows);
  std::vector<float> numbers(count * kVocab);
  std::uint64_t state = 1;
  for (float& number : numbers) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    number = static_cast<float>(state >> 40) * 0x1p-24f * 8;
  }
  std::vector<std::int32_t> places(count);
  for (std::size_t i = 0; i < count; ++i) places[i] = static_cast<std::int32_t>(i);
  VerifyArgs args = {};
  SampleArgs& draws = args.rows;
  draws.logits = upload(numbers);
  draws.stride = draws.vocab_size = kVocab;
  draws.rows = rows;
  draws.temperatures = draws.top_ps = upload(std::vector<float>(count, 1.0f));
  draws.min_ps = upload(std::vector<float>(count, 0.0f));
  draws.top_ks = upload(std::vector<std::int32_t>(count, 0));
  draws.keys = upload(std::vector<std::uint64_t>(count, 7));
  draws.positions = upload(std::vector<std::int64_t>(count, 100));
  draws.tokens = upload(places);
  draws.scratch =
      upload(std::vector<char>(std::max(sample_scratch(rows, kVocab), verify_drafts_scratch(rows, kVocab))));
  args.drafts = upload(places);
  args.distributions = draws.logits;
  args.distribution_stride = kVocab;
  const auto say = [&](const char* name, const std::function<cudaError_t(int)>& call) {
    std::printf("%-26s %6lld rows %8.1f us\n", name, static_cast<long long>(rows), measure(stream, call));
  };
  say("sample", [&](int) { return launch_sample(draws, stream); });
  SampleArgs cooler = draws, filtered = draws;
  cooler.temperatures = filtered.top_ps = upload(std::vector<float>(count, 0.7f));
  say("sample, temperature 0.7", [&](int) { return launch_sample(cooler, stream); });
  say("sample, top_p 0.7", [&](int) { return launch_sample(filtered, stream); });
  say("verify certain drafts", [&](int) { return launch_verify_drafts(args, stream); });
  args.distribution_rows = args.drafts;
  say("verify with distributions", [&](int) { return launch_verify_drafts(args, stream); });
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::int64_t> rows;
  for (int i = 1; i < count; ++i) rows.push_back(std::atoll(arguments[i]));
  if (rows.empty()) rows = {256, 8192};
  cudaStream_t stream;
  require(cudaStreamCreate(&stream), "stream");
  require(prepare_row_kernels(most_norm_columns(99 << 10)), "kernels");
  for (const std::int64_t m : rows) {
    norm(m, stream);
    gate(m, stream);
    append(m, stream);
    if (m <= 512) sampling(m, stream);
  }
  return 0;
}
