#include "devices/cuda/linear_plans.hpp"

#include <algorithm>

#include "devices/cuda/algorithm_search.hpp"
#include "devices/cuda/cublaslt.hpp"
#include "devices/cuda/cublaslt_loading.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/known_algorithms.hpp"
#include "devices/cuda/lt_matmul.hpp"
#include "kernels/cuda/linear_stream.hpp"

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "linear";
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // NVIDIA's advice for Hopper

// With more than sixteen rows only large products are streamed: few columns of y take 0.9 us longer than with cuBLASLt,
// and the weights of the demo model and of 68m's shape stay in the L2. The bits are the same.
constexpr std::int64_t kFewRows = 16, kManyBytes = std::int64_t{32} << 20;
bool better_streamed(const LinearArgs& args) {
  return args.m <= kFewRows || args.n * args.k * 2 >= kManyBytes;
}

// Limits for products that need not wait until cuBLASLt is loaded: more rows than the engine captures, and weights
// small enough for a trial to make its own, since the given weights may be freed before the algorithm is chosen.
constexpr std::int64_t kMaxCapturedRows = 512, kMaxEarlyWeights = std::int64_t{128} << 20;

// Returns whether addresses, strides and sizes meet the requirements of cuBLASLt's algorithm 66.
bool aligned_for_lt(const LinearArgs& args) {
  const std::int64_t y_bytes = element_bytes(args.y_type);
  const auto addresses = reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.w) |
                         reinterpret_cast<std::uintptr_t>(args.y);
  return addresses % 16 == 0 && args.x_stride * 2 % 16 == 0 && args.w_stride * 2 % 16 == 0 &&
         args.y_stride * y_bytes % 16 == 0 && args.k % 8 == 0 && args.n % 8 == 0 && args.k > 0;
}

std::string text_of(const LtConfig& c) {
  std::string text = "cuBLASLt";
  constexpr const char* kNames[] = {" id",      " tile",   " stages", " splitk", " reduction",
                                    " swizzle", " custom", " inner",  " cluster"};
  for (std::size_t i = 0; i < c.size(); ++i) text += kNames[i] + std::string(" ") + std::to_string(c[i]);
  return text;
}

std::string text_of(const LinearShape& shape) {
  return std::to_string(shape.rows) + " rows of " + std::to_string(shape.k) + " by " + std::to_string(shape.n) +
         " columns";
}

}  // namespace

struct LinearPlans::Lt {
  const CublasLt& functions;
  cublasLtHandle_t handle = nullptr;
  Workspace workspace;
  std::optional<CublasLtLoading> loading;

  explicit Lt(const CublasLt& functions) : functions(functions) {
    const cublasStatus_t status = functions.cublasLtCreate(&handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw Failure(MORTISE_UNAVAILABLE, "cublasLtCreate",
                    "failed with status " + std::to_string(static_cast<int>(status)));
    }
    loading.emplace(functions, handle);
  }
  ~Lt() {
    loading->wait();
    functions.cublasLtDestroy(handle);
  }
  Lt(const Lt&) = delete;
  Lt& operator=(const Lt&) = delete;
};

struct LinearPlans::Plan {
  std::unique_ptr<LtMatmul> matmul;  // null: linear_mma
  cublasLtMatmulAlgo_t algorithm{};
  LtConfig config{};
};

LinearPlans::LinearPlans(const std::string& gpu, int multiprocessors, const mortise_host* host,
                         const TuningOption& tuning)
    : host_(host) {
  std::string reason;
  const CublasLt* functions = load_cublaslt(reason);
  if (functions == nullptr) {
    log(MORTISE_LOG_WARNING,
        "cuBLASLt cannot be loaded (" + reason +
            "), so matrices are multiplied by Mortise's own kernel: the same bits, several times slower for many rows");
    return;
  }
  lt_ = std::make_unique<Lt>(*functions);
  lt_->workspace.reserve(kWorkspaceBytes, nullptr, kWhere);
  TuningKey key = {gpu, 0, functions->cublasLtGetVersion()};
  check_cuda(cudaDriverGetVersion(&key.driver), kWhere);
  shipped_ = shipped_choices(multiprocessors, key.cublaslt);
  cache_ = std::make_unique<TuningCache>(key, tuning, host);
}

LinearPlans::~LinearPlans() = default;

void LinearPlans::add_checkpoint(const std::filesystem::path& folder) {
  if (cache_ != nullptr) cache_->add_checkpoint(folder);
}

void LinearPlans::log(std::int32_t level, const std::string& text) const {
  if (host_ != nullptr) host_->log(host_, level, view(std::string_view(text)));
}

std::int64_t LinearPlans::bucket(std::int64_t rows) {
  for (const std::int64_t size : kRowBuckets) {
    if (rows <= size) return size;
  }
  return kRowBuckets.back();
}

bool LinearPlans::is_streamed(const LinearArgs& args) {
  return streams(args) && better_streamed(args);
}

void LinearPlans::run(const LinearArgs& args, const Bias& bias, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return;
  if (is_streamed(args) || (lt_ == nullptr && streams(args))) {
    check_cuda(launch_linear_stream(args, stream), kWhere);
    return;
  }
  if (lt_ != nullptr && aligned_for_lt(args) && (bias.f32 == nullptr || bias.bf16 != nullptr) &&
      !comes_too_early(args, bias.f32 != nullptr, stream)) {
    Plan& plan = plan_for(args, bias.f32 != nullptr, stream);
    if (plan.matmul != nullptr) {
      const cublasStatus_t status =
          plan.matmul->run(args, bias.bf16, plan.algorithm, lt_->workspace.reserve(kWorkspaceBytes, stream, kWhere),
                           kWorkspaceBytes, stream);
      if (status == CUBLAS_STATUS_SUCCESS) return;
      throw Failure(MORTISE_INTERNAL, kWhere,
                    text_of(plan.config) + " failed with status " + std::to_string(static_cast<int>(status)));
    }
  }
  check_cuda(launch_linear_mma(args, stream), kWhere);
}

// A start runs the largest batch once. With a small model cuBLASLt is not loaded yet, and waiting for it takes longer
// than running that batch on linear_mma. This does not hold for fewer rows: their steps are captured as graphs together
// with the algorithm that they use.
bool LinearPlans::comes_too_early(const LinearArgs& args, bool bias, cudaStream_t stream) {
  if (args.m <= kMaxCapturedRows || lt_->loading->is_done() || args.n * args.k > kMaxEarlyWeights) return false;
  if (capturing(stream)) return false;
  early_.push_back({args, bias});
  return true;
}

LinearPlans::Plan& LinearPlans::plan_for(const LinearArgs& args, bool bias, cudaStream_t stream) {
  const LinearShape shape = {args.n, args.k, args.y_type == ElementType::kF32, bias, bucket(args.m)};
  if (const auto known = plans_.find(shape); known != plans_.end()) return *known->second;
  if (capturing(stream)) {
    throw Failure(MORTISE_FAILED_PRECONDITION, kWhere,
                  "no algorithm was chosen yet for " + text_of(shape) + "; run it once before it is captured");
  }
  lt_->loading->wait();
  for (const auto& [early, with_bias] : std::exchange(early_, {})) plan_for(early, with_bias, stream);
  auto plan = std::make_unique<Plan>();
  const AlgorithmChoice choice = choose(shape, args, stream);
  if (choice) {
    plan->matmul = std::make_unique<LtMatmul>(lt_->functions, lt_->handle, shape);
    plan->config = *choice;
    if (!plan->matmul->make(*choice, args, kWorkspaceBytes, plan->algorithm)) plan->matmul.reset();
  }
  return *plans_.emplace(shape, std::move(plan)).first->second;
}

std::string LinearPlans::describe(const LinearShape& shape) const {
  const auto known = plans_.find(shape);
  if (known == plans_.end()) return "not chosen yet";
  return known->second->matmul == nullptr ? "linear_mma" : text_of(known->second->config);
}

std::optional<AlgorithmChoice> LinearPlans::known_choice(const LinearShape& shape, AlgorithmTrial& trial) {
  std::optional<AlgorithmChoice> shipped;
  if (const auto found = shipped_.find(shape); found != shipped_.end()) shipped = found->second;
  for (const std::optional<AlgorithmChoice>& choice : {shipped, cache_->find(shape)}) {
    if (!choice) continue;
    // Split-K is refused even if the trial's bits agree: they may agree for the trial's numbers only.
    if (!*choice || (!splits_k(**choice) && trial.equal_bits(**choice))) return choice;
    log(MORTISE_LOG_WARNING, text_of(**choice) + ", which was chosen before for " + text_of(shape) +
                                 ", does not give the right bits here; another algorithm will be chosen");
  }
  return std::nullopt;
}

void LinearPlans::tell_search() {
  if (num_searched_++ > 0) return;
  log(MORTISE_LOG_INFO,
      "no algorithms of cuBLASLt are known yet for some products of this model on this GPU; they will be searched for "
      "at their first use and kept " +
          cache_->place());
}

AlgorithmChoice LinearPlans::choose(const LinearShape& shape, const LinearArgs& args, cudaStream_t stream) {
  try {
    LtMatmul matmul(lt_->functions, lt_->handle, shape);
    AlgorithmTrial trial(matmul, shape, args, lt_->workspace.reserve(kWorkspaceBytes, stream, kWhere), kWorkspaceBytes,
                         stream);
    if (const std::optional<AlgorithmChoice> known = known_choice(shape, trial)) return *known;
    tell_search();
    const AlgorithmChoice found = search_algorithm(trial);
    cache_->keep(shape, found);
    return found;
  } catch (const Failure& failure) {
    if (failure.code != MORTISE_RESOURCE_EXHAUSTED) throw;
    log(MORTISE_LOG_WARNING, "no memory to choose an algorithm for " + text_of(shape) + " (" + failure.message +
                                 "); Mortise's own kernel is used: the same bits, slower");
    return std::nullopt;
  }
}

}  // namespace mortise::cuda
