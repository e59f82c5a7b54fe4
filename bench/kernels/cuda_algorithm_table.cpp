// Which of the known algorithms of cuBLASLt is the fastest for the products of common models: prints the lines of
// plugins/devices/cuda/shipped_choices.inc, and on standard error what the GPU and the version of cuBLASLt are.
//   cuda_algorithm_table > shipped_choices.inc        a minute on an H100 that nobody else uses
// To add a model, add a line to kModels. To move to another version of cuBLASLt or another GPU, run it there and change
// kMeasured... in known_algorithms.cpp.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "devices/cuda/algorithm_trial.hpp"
#include "devices/cuda/cublaslt.hpp"
#include "devices/cuda/known_algorithms.hpp"
#include "devices/cuda/linear_plans.hpp"
#include "devices/cuda/lt_matmul.hpp"
#include "kernels/cuda/compare.hpp"
#include "kernels/cuda/linear_mma.hpp"
#include "mortise/plugin.hpp"

namespace {

using namespace mortise::cuda;

struct Model {
  const char* name;
  std::int64_t hidden, q, kv, intermediate, vocab;  // q, kv: columns of all heads
  bool qkv_bias;
};
constexpr Model kModels[] = {
    {"models/demo", 256, 256, 128, 896, 4096, false},           {"models/demo-draft", 96, 96, 96, 288, 4096, false},
    {"68m, 160m", 768, 768, 768, 3072, 32000, false},           {"Llama 3 8B", 4096, 4096, 1024, 14336, 128256, false},
    {"Llama 3.2 1B", 2048, 2048, 512, 8192, 128256, false},     {"Llama 3.2 3B", 3072, 3072, 1024, 8192, 128256, false},
    {"Llama 2 7B", 4096, 4096, 4096, 11008, 32000, false},      {"Llama 2 13B", 5120, 5120, 5120, 13824, 32000, false},
    {"Mistral 7B v0.3", 4096, 4096, 1024, 14336, 32768, false}, {"TinyLlama 1.1B", 2048, 2048, 256, 5632, 32000, false},
    {"SmolLM2 135M", 576, 576, 192, 1536, 49152, false},        {"SmolLM2 360M", 960, 960, 320, 2560, 49152, false},
    {"SmolLM2 1.7B", 2048, 2048, 2048, 8192, 49152, false},     {"Qwen2.5 0.5B", 896, 896, 128, 4864, 151936, true},
    {"Qwen2.5 1.5B", 1536, 1536, 256, 8960, 151936, true},      {"Qwen2.5 3B", 2048, 2048, 256, 11008, 151936, true},
    {"Qwen2.5 7B", 3584, 3584, 512, 18944, 152064, true},       {"Qwen2.5 14B", 5120, 5120, 1024, 13824, 152064, true},
    {"Qwen3 0.6B", 1024, 2048, 1024, 3072, 151936, false},      {"Qwen3 1.7B", 2048, 2048, 1024, 6144, 151936, false},
    {"Qwen3 4B", 2560, 4096, 1024, 9728, 151936, false},        {"Qwen3 8B", 4096, 4096, 1024, 12288, 151936, false},
    {"Qwen3 14B", 5120, 5120, 1024, 17408, 151936, false},      {"Qwen3 32B", 5120, 8192, 1024, 25600, 151936, false},
};

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr std::int64_t kMaxOutputBytes = std::int64_t{128} << 20;  // of a trial
constexpr std::size_t kFinalists = 6, kOffers = 2;
constexpr int kFirstRuns = 3, kFinalRuns = 9;
// The first finalist within this factor of the fastest is taken: fewer kernels then serve a model, and each takes 3 ms
// to load.
constexpr float kClose = 1.02f, kCloseOfSmall = 1.05f;
constexpr std::int64_t kSmallWeights = std::int64_t{1} << 20;

struct Gpu {
  const CublasLt* lt = nullptr;
  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  std::uint16_t* weights = nullptr;  // for the largest products; the others make their own

  Gpu() {
    std::string why;
    lt = load_cublaslt(why);
    std::int64_t most = 0;
    for (const Model& model : kModels) most = std::max(most, model.vocab * model.hidden);
    if (lt == nullptr || cudaStreamCreate(&stream) != cudaSuccess || prepare_linear_kernels() != cudaSuccess ||
        lt->cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS ||
        cudaMalloc(&workspace, kWorkspaceBytes) != cudaSuccess ||
        cudaMalloc(reinterpret_cast<void**>(&weights), static_cast<std::size_t>(most) * 2) != cudaSuccess ||
        launch_random(weights, most, 0.05f, 2, stream) != cudaSuccess) {
      std::fprintf(stderr, "cuda_algorithm_table: no GPU, no cuBLASLt or no memory; %s\n", why.c_str());
      std::exit(1);
    }
    cudaDeviceProp properties = {};
    cudaGetDeviceProperties(&properties, 0);
    std::fprintf(stderr, "%s, %d multiprocessors, cuBLASLt %zu\n", properties.name, properties.multiProcessorCount,
                 lt->cublasLtGetVersion());
  }
};

LinearArgs args_of(const Gpu& gpu, const LinearShape& shape) {
  LinearArgs args = {};
  args.w = gpu.weights;
  args.y_type = shape.f32_out ? ElementType::kF32 : ElementType::kBf16;
  args.x_stride = args.w_stride = args.k = shape.k;
  args.y_stride = args.n = shape.n;
  args.m = shape.rows;
  return args;
}

// Whether an offer of the heuristic is faster than the best known algorithm: then the start is to search.
bool offers_are_faster(AlgorithmTrial& trial, float best) {
  std::vector<LtConfig> offers = trial.offers();
  if (offers.size() > kOffers) offers.resize(kOffers);
  return std::any_of(offers.begin(), offers.end(),
                     [&](const LtConfig& offer) { return trial.time(offer, kFinalRuns) * kClose < best; });
}

// The digit of the algorithm that is to serve, '.' if the start is to search.
char best_of(const Gpu& gpu, const LinearShape& shape) {
  const auto known = known_algorithms();
  LtMatmul matmul(*gpu.lt, gpu.handle, shape);
  AlgorithmTrial trial(matmul, shape, args_of(gpu, shape), gpu.workspace, kWorkspaceBytes, gpu.stream);
  std::vector<std::pair<float, std::size_t>> timed;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const float time = trial.time(known[i], kFirstRuns);
    if (time < std::numeric_limits<float>::infinity() && trial.equal_bits(known[i])) timed.push_back({time, i});
  }
  if (timed.empty()) return '.';
  std::sort(timed.begin(), timed.end());
  timed.resize(std::min(timed.size(), kFinalists));
  for (auto& [time, i] : timed) time = trial.time(known[i], kFinalRuns);
  const float best = std::min_element(timed.begin(), timed.end())->first;
  if (offers_are_faster(trial, best)) return '.';
  std::size_t chosen = known.size();
  for (const auto& [time, i] : timed) {
    if (time <= best * (shape.n * shape.k <= kSmallWeights ? kCloseOfSmall : kClose)) chosen = std::min(chosen, i);
  }
  return known_algorithm_digit(chosen);
}

void print_shape(const Gpu& gpu, std::int64_t n, std::int64_t k, bool f32_out, bool bias) {
  std::string by_rows;
  for (const std::int64_t rows : kRowBuckets) {
    const LinearShape shape = {n, k, f32_out, bias, rows};
    LinearArgs args = args_of(gpu, shape);
    args.x = gpu.weights;
    args.y = gpu.workspace;
    const bool fits = rows * n * (f32_out ? 4 : 2) <= kMaxOutputBytes || !f32_out;
    by_rows += !fits || LinearPlans::is_streamed(args) ? '.' : best_of(gpu, shape);
  }
  std::printf("    {%lld, %lld, %s, %s, \"%s\"},\n", static_cast<long long>(n), static_cast<long long>(k),
              f32_out ? "true" : "false", bias ? "true" : "false", by_rows.c_str());
  std::fflush(stdout);
}

}  // namespace

int main() try {
  const Gpu gpu;
  std::set<std::tuple<std::int64_t, std::int64_t, bool, bool>> done;
  for (const Model& model : kModels) {
    std::printf("    // %s\n", model.name);
    const auto print = [&](std::int64_t n, std::int64_t k, bool f32_out, bool bias) {
      if (done.insert({n, k, f32_out, bias}).second) print_shape(gpu, n, k, f32_out, bias);
    };
    print(model.q + 2 * model.kv, model.hidden, /*f32_out=*/false, model.qkv_bias);
    print(model.hidden, model.q, /*f32_out=*/false, /*bias=*/false);
    print(2 * model.intermediate, model.hidden, /*f32_out=*/false, /*bias=*/false);
    print(model.hidden, model.intermediate, /*f32_out=*/false, /*bias=*/false);
    print(model.vocab, model.hidden, /*f32_out=*/true, /*bias=*/false);
  }
  return 0;
} catch (const mortise::Failure& failure) {
  std::fprintf(stderr, "cuda_algorithm_table: %s\n", failure.message.c_str());
  return 1;
}
