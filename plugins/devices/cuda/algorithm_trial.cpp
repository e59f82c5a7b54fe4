#include "devices/cuda/algorithm_trial.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "devices/cuda/errors.hpp"
#include "kernels/cuda/compare.hpp"

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "linear";
// The most memory of one matrix that a trial allocates. A shape with more rows is tried with as many rows as fit.
constexpr std::int64_t kTrialBytes = std::int64_t{128} << 20;
constexpr std::int64_t kFlushBytes = std::int64_t{64} << 20;  // more than the L2 cache
constexpr float kInfinite = std::numeric_limits<float>::infinity();

Temporary bytes(std::int64_t count) {
  return Temporary(static_cast<std::uint64_t>(count), "a matrix to try algorithms with", kWhere, "");
}

}  // namespace

AlgorithmTrial::AlgorithmTrial(LtMatmul& matmul, const LinearShape& shape, const LinearArgs& given, void* workspace,
                               std::size_t workspace_bytes, cudaStream_t stream)
    : matmul_(matmul), workspace_(workspace), workspace_bytes_(workspace_bytes), stream_(stream), args_(given) {
  const std::int64_t element = given.y_type == ElementType::kF32 ? 4 : 2;
  const std::int64_t most = std::max<std::int64_t>(1, kTrialBytes / std::max(shape.n * element, shape.k * 2));
  args_.m = std::min(shape.rows, most);
  args_.x_stride = shape.k;
  args_.y_stride = shape.n;
  y_bytes_ = args_.m * shape.n * element;
  x_ = bytes(args_.m * shape.k * 2);
  y_ = bytes(y_bytes_);
  expected_ = bytes(y_bytes_);
  differences_ = bytes(sizeof(unsigned long long));
  check_cuda(launch_random(static_cast<std::uint16_t*>(x_.get()), args_.m * shape.k, 1.0f, 1, stream_), kWhere);
  args_.x = static_cast<const std::uint16_t*>(x_.get());
  if (shape.n * shape.k * 2 <= 2 * kTrialBytes) {
    w_ = bytes(shape.n * shape.k * 2);
    check_cuda(launch_random(static_cast<std::uint16_t*>(w_.get()), shape.n * shape.k, 0.05f, 2, stream_), kWhere);
    args_.w = static_cast<const std::uint16_t*>(w_.get());
    args_.w_stride = shape.k;
  }
  if (shape.bias) make_bias(shape.n);
  args_.bias = static_cast<const float*>(wide_bias_.get());
  args_.y = expected_.get();
  check_cuda(launch_linear_mma(args_, stream_), kWhere);
  args_.y = y_.get();
  for (cudaEvent_t* event : {&begin_, &end_}) check_cuda(cudaEventCreate(event), kWhere);
}

AlgorithmTrial::~AlgorithmTrial() {
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : {begin_, end_}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
}

void AlgorithmTrial::make_bias(std::int64_t n) {
  bias_ = bytes(n * 2);
  wide_bias_ = bytes(n * 4);
  check_cuda(launch_random(static_cast<std::uint16_t*>(bias_.get()), n, 1.0f, 3, stream_), kWhere);
  std::vector<std::uint16_t> narrow(static_cast<std::size_t>(n));
  std::vector<std::uint32_t> wide(narrow.size());
  check_cuda(cudaMemcpyAsync(narrow.data(), bias_.get(), narrow.size() * 2, cudaMemcpyDeviceToHost, stream_), kWhere);
  check_cuda(cudaStreamSynchronize(stream_), kWhere);
  for (std::size_t i = 0; i < narrow.size(); ++i) wide[i] = static_cast<std::uint32_t>(narrow[i]) << 16;
  check_cuda(cudaMemcpyAsync(wide_bias_.get(), wide.data(), wide.size() * 4, cudaMemcpyHostToDevice, stream_), kWhere);
  check_cuda(cudaStreamSynchronize(stream_), kWhere);
}

std::vector<LtConfig> AlgorithmTrial::offers() {
  std::vector<LtConfig> configs;
  for (const cublasLtMatmulAlgo_t& algorithm : matmul_.heuristic_algorithms(args_, workspace_bytes_)) {
    configs.push_back(matmul_.config_of(algorithm));
  }
  return configs;
}

bool AlgorithmTrial::run(const cublasLtMatmulAlgo_t& algorithm, const LinearArgs& args) {
  const bool ran =
      matmul_.run(args, bias_.get(), algorithm, workspace_, workspace_bytes_, stream_) == CUBLAS_STATUS_SUCCESS;
  if (!ran) cudaGetLastError();
  return ran;
}

bool AlgorithmTrial::equal_bits(const LtConfig& config) {
  cublasLtMatmulAlgo_t algorithm;
  return matmul_.make(config, args_, workspace_bytes_, algorithm) && equal_bits(algorithm, args_.m) &&
         (args_.m < 3 || equal_bits(algorithm, args_.m / 2 + 1));
}

bool AlgorithmTrial::equal_bits(const cublasLtMatmulAlgo_t& algorithm, std::int64_t rows) {
  LinearArgs some = args_;
  some.m = rows;
  const std::int64_t size = y_bytes_ / args_.m * rows;
  // Poisons y, so that elements that an algorithm does not write differ.
  check_cuda(cudaMemsetAsync(y_.get(), 0xff, static_cast<std::size_t>(y_bytes_), stream_), kWhere);
  check_cuda(cudaMemsetAsync(differences_.get(), 0, sizeof(unsigned long long), stream_), kWhere);
  if (!run(algorithm, some)) return false;
  check_cuda(launch_count_differences(y_.get(), expected_.get(), size / 4,
                                      static_cast<unsigned long long*>(differences_.get()), stream_),
             kWhere);
  unsigned long long differences = 0;
  check_cuda(cudaMemcpyAsync(&differences, differences_.get(), sizeof differences, cudaMemcpyDeviceToHost, stream_),
             kWhere);
  check_cuda(cudaStreamSynchronize(stream_), kWhere);
  return differences == 0;
}

float AlgorithmTrial::time(const LtConfig& config, int runs) {
  cublasLtMatmulAlgo_t algorithm;
  if (flush_.get() == nullptr) flush_ = bytes(kFlushBytes);
  // The first run of a kernel loads it, which would count as time of the stream.
  if (!matmul_.make(config, args_, workspace_bytes_, algorithm) || !run(algorithm, args_)) return kInfinite;
  float best = kInfinite;
  for (int i = 0; i < runs; ++i) {
    check_cuda(cudaMemsetAsync(flush_.get(), i, static_cast<std::size_t>(kFlushBytes), stream_), kWhere);
    check_cuda(cudaEventRecord(begin_, stream_), kWhere);
    if (!run(algorithm, args_)) return kInfinite;
    check_cuda(cudaEventRecord(end_, stream_), kWhere);
    check_cuda(cudaEventSynchronize(end_), kWhere);
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), kWhere);
    best = std::min(best, milliseconds * 1000);
  }
  return best;
}

}  // namespace mortise::cuda
