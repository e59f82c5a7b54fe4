#include "devices/cuda/linear_plans.hpp"

#include <algorithm>
#include <vector>

#include "devices/cuda/cublaslt.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/lt_matmul.hpp"
#include "devices/cuda/temporary.hpp"
#include "kernels/cuda/compare.hpp"

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "linear";
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for Hopper
// Of one matrix that tuning makes for itself: a shape with more rows is tried with as many as fit.
constexpr std::int64_t kTrialBytes = std::int64_t{128} << 20;
constexpr std::int64_t kFlushBytes = std::int64_t{64} << 20;  // more than the L2 cache
constexpr int kTimedRuns = 3;

constexpr std::int64_t kBuckets[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

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

namespace {

// A trial of algorithms on numbers of its own: x, and weights if they are small enough to make others than those given.
class Trial {
 public:
  Trial(const LinearShape& shape, const LinearArgs& given, const void* workspace, cudaStream_t stream)
      : stream_(stream), workspace_(const_cast<void*>(workspace)), args_(given) {
    const std::int64_t y_bytes = given.y_type == ElementType::kF32 ? 4 : 2;
    const std::int64_t most = std::max<std::int64_t>(1, kTrialBytes / std::max(shape.n * y_bytes, shape.k * 2));
    args_.m = std::min(shape.rows, most);
    args_.x_stride = shape.k;
    args_.y_stride = shape.n;
    y_bytes_ = args_.m * shape.n * y_bytes;
    x_ = Temporary(static_cast<std::uint64_t>(args_.m * shape.k * 2));
    y_ = Temporary(static_cast<std::uint64_t>(y_bytes_));
    expected_ = Temporary(static_cast<std::uint64_t>(y_bytes_));
    flush_ = Temporary(static_cast<std::uint64_t>(kFlushBytes));
    differences_ = Temporary(sizeof(unsigned long long));
    check_cuda(launch_random(static_cast<std::uint16_t*>(x_.get()), args_.m * shape.k, 1.0f, 1, stream_), kWhere);
    args_.x = static_cast<const std::uint16_t*>(x_.get());
    if (shape.n * shape.k * 2 <= 2 * kTrialBytes) {
      w_ = Temporary(static_cast<std::uint64_t>(shape.n * shape.k * 2));
      check_cuda(launch_random(static_cast<std::uint16_t*>(w_.get()), shape.n * shape.k, 0.05f, 2, stream_), kWhere);
      args_.w = static_cast<const std::uint16_t*>(w_.get());
      args_.w_stride = shape.k;
    }
    if (shape.bias) {
      bias_ = Temporary(static_cast<std::uint64_t>(shape.n * 2));
      wide_bias_ = Temporary(static_cast<std::uint64_t>(shape.n * 4));
      make_bias(shape.n);
    }
    args_.bias = static_cast<const float*>(wide_bias_.get());
    args_.y = expected_.get();
    check_cuda(launch_linear_mma(args_, stream_), kWhere);
    args_.y = y_.get();
    for (cudaEvent_t* event : {&begin_, &end_}) check_cuda(cudaEventCreate(event), kWhere);
  }
  ~Trial() {
    cudaStreamSynchronize(stream_);
    for (cudaEvent_t event : {begin_, end_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  const LinearArgs& args() const { return args_; }

  // Whether the algorithm gives the bits of linear_mma at the shape's rows and at about half of them.
  bool equal_bits(LtMatmul& matmul, const cublasLtMatmulAlgo_t& algorithm) {
    return equal_bits(matmul, algorithm, args_.m) && (args_.m < 3 || equal_bits(matmul, algorithm, args_.m / 2 + 1));
  }

  // Microseconds of a run whose weights do not lie in the cache, the least of a few; infinite if it fails.
  float time(LtMatmul& matmul, const cublasLtMatmulAlgo_t& algorithm) {
    float best = __builtin_inff();
    for (int i = 0; i < kTimedRuns; ++i) {
      check_cuda(cudaMemsetAsync(flush_.get(), i, static_cast<std::size_t>(kFlushBytes), stream_), kWhere);
      check_cuda(cudaEventRecord(begin_, stream_), kWhere);
      if (!run(matmul, algorithm, args_)) return __builtin_inff();
      check_cuda(cudaEventRecord(end_, stream_), kWhere);
      check_cuda(cudaEventSynchronize(end_), kWhere);
      float milliseconds = 0;
      check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), kWhere);
      best = std::min(best, milliseconds * 1000);
    }
    return best;
  }

 private:
  void make_bias(std::int64_t n) {
    check_cuda(launch_random(static_cast<std::uint16_t*>(bias_.get()), n, 1.0f, 3, stream_), kWhere);
    std::vector<std::uint16_t> narrow(static_cast<std::size_t>(n));
    std::vector<std::uint32_t> wide(narrow.size());
    check_cuda(cudaMemcpyAsync(narrow.data(), bias_.get(), narrow.size() * 2, cudaMemcpyDeviceToHost, stream_), kWhere);
    check_cuda(cudaStreamSynchronize(stream_), kWhere);
    for (std::size_t i = 0; i < narrow.size(); ++i) wide[i] = static_cast<std::uint32_t>(narrow[i]) << 16;
    check_cuda(cudaMemcpyAsync(wide_bias_.get(), wide.data(), wide.size() * 4, cudaMemcpyHostToDevice, stream_),
               kWhere);
    check_cuda(cudaStreamSynchronize(stream_), kWhere);
  }

  bool run(LtMatmul& matmul, const cublasLtMatmulAlgo_t& algorithm, const LinearArgs& args) {
    const bool ran =
        matmul.run(args, bias_.get(), algorithm, workspace_, kWorkspaceBytes, stream_) == CUBLAS_STATUS_SUCCESS;
    if (!ran) cudaGetLastError();
    return ran;
  }

  bool equal_bits(LtMatmul& matmul, const cublasLtMatmulAlgo_t& algorithm, std::int64_t rows) {
    LinearArgs some = args_;
    some.m = rows;
    const std::int64_t bytes = y_bytes_ / args_.m * rows;
    // What an algorithm does not write must not look right.
    check_cuda(cudaMemsetAsync(y_.get(), 0xff, static_cast<std::size_t>(y_bytes_), stream_), kWhere);
    check_cuda(cudaMemsetAsync(differences_.get(), 0, sizeof(unsigned long long), stream_), kWhere);
    if (!run(matmul, algorithm, some)) return false;
    check_cuda(launch_count_differences(y_.get(), expected_.get(), bytes / 4,
                                        static_cast<unsigned long long*>(differences_.get()), stream_),
               kWhere);
    unsigned long long differences = 0;
    check_cuda(cudaMemcpyAsync(&differences, differences_.get(), sizeof differences, cudaMemcpyDeviceToHost, stream_),
               kWhere);
    check_cuda(cudaStreamSynchronize(stream_), kWhere);
    return differences == 0;
  }

  cudaStream_t stream_;
  void* workspace_;
  LinearArgs args_;
  std::int64_t y_bytes_ = 0;
  Temporary x_, w_, bias_, wide_bias_, y_, expected_, flush_, differences_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

// What the file names, if its bits are right; else the fastest with the right bits of what the heuristic offers.
Choice LinearPlans::tune(const LinearShape& shape, const LinearArgs& args, cudaStream_t stream) {
  try {
    Trial trial(shape, args, lt_->workspace.reserve(kWorkspaceBytes, stream, kWhere), stream);
    LtMatmul matmul(lt_->functions, lt_->handle, shape);
    if (const auto remembered = from_file_.find(shape); remembered != from_file_.end()) {
      if (!remembered->second) return std::nullopt;
      cublasLtMatmulAlgo_t algorithm;
      if (matmul.make(*remembered->second, trial.args(), kWorkspaceBytes, algorithm) &&
          trial.equal_bits(matmul, algorithm)) {
        return remembered->second;
      }
      warn(file_->string() + " names an algorithm for " + text_of(shape) +
           " that does not give the right bits here; choosing anew");
    }
    Choice best;
    float best_time = __builtin_inff();
    for (const cublasLtMatmulAlgo_t& algorithm : matmul.candidates(trial.args(), kWorkspaceBytes)) {
      if (!trial.equal_bits(matmul, algorithm)) continue;
      const float time = trial.time(matmul, algorithm);
      if (time < best_time) best_time = time, best = matmul.config_of(algorithm);
    }
    return best;
  } catch (const Failure& failure) {
    if (failure.code != MORTISE_RESOURCE_EXHAUSTED) throw;
    warn("no memory to choose an algorithm for " + text_of(shape) + " (" + failure.message +
         "); Mortise's own kernel serves it: the same bits, slower");
    return std::nullopt;
  }
}

}  // namespace mortise::cuda
