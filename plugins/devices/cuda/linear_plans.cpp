#include "devices/cuda/linear_plans.hpp"

#include <algorithm>

#include "devices/cuda/algorithm_search.hpp"
#include "devices/cuda/cublaslt.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/lt_matmul.hpp"
#include "kernels/cuda/linear_stream.hpp"

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "linear";
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for Hopper

// The rows that algorithms are searched for; from 64 on finer, since there the products themselves take time: 192 rows
// with what is best for 256 took 1.6 times as long on an H200 (8B's down projection).
constexpr std::int64_t kBuckets[] = {1,   2,   4,   8,   16,   32,   64,   96,   128, 192,
                                     256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192};

// Of more than eight rows only large products are streamed: with the demo model and 68m's shape, whose weights come out
// of the L2, steps of 16 and 32 rows took 4 to 14 % longer than with cuBLASLt, with 8B's 5 % less. The bits are the
// same.
constexpr std::int64_t kFewRows = 8, kManyBytes = std::int64_t{32} << 20;
bool better_streamed(const LinearArgs& args) {
  return args.m <= kFewRows || args.n * args.k * 2 >= kManyBytes;
}

// What algorithm 66 of cuBLASLt asks of addresses, strides and sizes.
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

  explicit Lt(const CublasLt& functions) : functions(functions) {
    const cublasStatus_t status = functions.cublasLtCreate(&handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw Failure(MORTISE_UNAVAILABLE, "cublasLtCreate",
                    "failed with status " + std::to_string(static_cast<int>(status)));
    }
  }
  ~Lt() { functions.cublasLtDestroy(handle); }
  Lt(const Lt&) = delete;
  Lt& operator=(const Lt&) = delete;
};

struct LinearPlans::Plan {
  std::unique_ptr<LtMatmul> matmul;  // null: linear_mma
  cublasLtMatmulAlgo_t algorithm{};
  LtConfig config{};
};

LinearPlans::LinearPlans(const std::string& gpu, const mortise_host* host, bool use_file) : host_(host) {
  std::string reason;
  const CublasLt* functions = load_cublaslt(reason);
  if (functions == nullptr) {
    warn("cuBLASLt cannot be loaded (" + reason +
         "), so matrices are multiplied by Mortise's own kernel: the same bits, several times slower for many rows");
    return;
  }
  lt_ = std::make_unique<Lt>(*functions);
  lt_->workspace.reserve(kWorkspaceBytes, nullptr, kWhere);
  key_.gpu = gpu;
  check_cuda(cudaDriverGetVersion(&key_.driver), kWhere);
  key_.cublaslt = functions->cublasLtGetVersion();
  if (!use_file) return;
  file_ = tuning_path(key_);
  if (!file_) return;
  try {
    from_file_ = read_tuning(*file_, key_);
    chosen_ = from_file_;
  } catch (const std::exception& exception) {
    warn(file_->string() + " is not used and made anew: " + exception.what());
  }
}

LinearPlans::~LinearPlans() = default;

void LinearPlans::warn(const std::string& text) const {
  if (host_ != nullptr) host_->log(host_, MORTISE_LOG_WARNING, view(std::string_view(text)));
}

std::int64_t LinearPlans::bucket(std::int64_t rows) {
  for (const std::int64_t size : kBuckets) {
    if (rows <= size) return size;
  }
  return kBuckets[std::size(kBuckets) - 1];
}

void LinearPlans::run(const LinearArgs& args, const Bias& bias, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return;
  if (streams(args) && (lt_ == nullptr || better_streamed(args))) {
    check_cuda(launch_linear_stream(args, stream), kWhere);
    return;
  }
  if (lt_ != nullptr && aligned_for_lt(args) && (bias.f32 == nullptr || bias.bf16 != nullptr)) {
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

LinearPlans::Plan& LinearPlans::plan_for(const LinearArgs& args, bool bias, cudaStream_t stream) {
  const LinearShape shape = {args.n, args.k, args.y_type == ElementType::kF32, bias, bucket(args.m)};
  if (const auto known = plans_.find(shape); known != plans_.end()) return *known->second;
  if (capturing(stream)) {
    throw Failure(MORTISE_FAILED_PRECONDITION, kWhere,
                  "no algorithm was chosen yet for " + text_of(shape) + "; run it once before it is captured");
  }
  auto plan = std::make_unique<Plan>();
  const Choice choice = tune(shape, args, stream);
  if (choice) {
    plan->matmul = std::make_unique<LtMatmul>(lt_->functions, lt_->handle, shape);
    plan->config = *choice;
    if (!plan->matmul->make(*choice, args, kWorkspaceBytes, plan->algorithm)) plan->matmul.reset();
  }
  if (const auto before = from_file_.find(shape); before == from_file_.end() || before->second != choice) {
    chosen_[shape] = choice;
    save();
  }
  return *plans_.emplace(shape, std::move(plan)).first->second;
}

std::string LinearPlans::describe(const LinearShape& shape) const {
  const auto known = plans_.find(shape);
  if (known == plans_.end()) return "not chosen yet";
  return known->second->matmul == nullptr ? "linear_mma" : text_of(known->second->config);
}

void LinearPlans::save() {
  if (!file_) return;
  try {
    write_tuning(*file_, key_, chosen_);
  } catch (const std::exception& exception) {
    warn(file_->string() + ": the chosen algorithms are not kept: " + exception.what());
    file_.reset();
  }
}

// What the file names, if its bits are right; else what a search finds.
Choice LinearPlans::tune(const LinearShape& shape, const LinearArgs& args, cudaStream_t stream) {
  try {
    LtMatmul matmul(lt_->functions, lt_->handle, shape);
    AlgorithmTrial trial(matmul, shape, args, lt_->workspace.reserve(kWorkspaceBytes, stream, kWhere), kWorkspaceBytes,
                         stream);
    if (const auto remembered = from_file_.find(shape); remembered != from_file_.end()) {
      if (!remembered->second) return std::nullopt;
      if (trial.equal_bits(*remembered->second)) return remembered->second;
      warn(file_->string() + " names an algorithm for " + text_of(shape) +
           " that does not give the right bits here; choosing anew");
    }
    return search_algorithm(trial, shape);
  } catch (const Failure& failure) {
    if (failure.code != MORTISE_RESOURCE_EXHAUSTED) throw;
    warn("no memory to choose an algorithm for " + text_of(shape) + " (" + failure.message +
         "); Mortise's own kernel serves it: the same bits, slower");
    return std::nullopt;
  }
}

}  // namespace mortise::cuda
