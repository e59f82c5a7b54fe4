// algorithm_trial.hpp: tries algorithms of cuBLASLt on one product: are the bits those of linear_mma.hpp, and how long
// does it take. The numbers are its own: x, and weights if they are small enough to make others than those given.
#pragma once

#include <cuda_runtime_api.h>

#include "devices/cuda/algorithm.hpp"
#include "devices/cuda/lt_matmul.hpp"
#include "devices/cuda/temporary.hpp"
#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

class AlgorithmTrial {
 public:
  // All that is given outlives it. Throws Failure, RESOURCE_EXHAUSTED where there is no memory for a trial.
  AlgorithmTrial(LtMatmul& matmul, const LinearShape& shape, const LinearArgs& given, void* workspace,
                 std::size_t workspace_bytes, cudaStream_t stream);
  ~AlgorithmTrial();
  AlgorithmTrial(const AlgorithmTrial&) = delete;
  AlgorithmTrial& operator=(const AlgorithmTrial&) = delete;

  // What the heuristic offers without split-K, best first.
  std::vector<LtConfig> offers();
  // Whether the algorithm gives the bits of linear_mma at the shape's rows and at about half of them.
  bool equal_bits(const LtConfig& config);
  // Microseconds of a run whose weights do not lie in the cache, the least of `runs`; infinite if it cannot run.
  float time(const LtConfig& config, int runs);

 private:
  void make_bias(std::int64_t n);
  bool run(const cublasLtMatmulAlgo_t& algorithm, const LinearArgs& args);
  bool equal_bits(const cublasLtMatmulAlgo_t& algorithm, std::int64_t rows);

  LtMatmul& matmul_;
  void* workspace_;
  std::size_t workspace_bytes_;
  cudaStream_t stream_;
  LinearArgs args_;
  std::int64_t y_bytes_ = 0;
  Temporary x_, w_, bias_, wide_bias_, y_, expected_, flush_, differences_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace mortise::cuda
