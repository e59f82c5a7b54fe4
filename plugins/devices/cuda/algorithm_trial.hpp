// plugins/devices/cuda/algorithm_trial.hpp: runs algorithms of cuBLASLt on one product: whether their bits equal those
// of linear_mma.hpp, and how long they take. The trial makes its own x, and its own weights if they are small enough;
// otherwise it uses the given weights.
#pragma once

#include <cuda_runtime_api.h>

#include "devices/cuda/algorithm.hpp"
#include "devices/cuda/lt_matmul.hpp"
#include "devices/cuda/temporary.hpp"
#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

// The buffers of one product for trials. Used by the thread that runs steps. Invariant: x, weights and bias never
// change after the constructor.
class AlgorithmTrial {
 public:
  // All arguments outlive the trial. Throws Failure, with RESOURCE_EXHAUSTED if there is no memory for a trial.
  AlgorithmTrial(LtMatmul& matmul, const LinearShape& shape, const LinearArgs& given, void* workspace,
                 std::size_t workspace_bytes, cudaStream_t stream);
  ~AlgorithmTrial();
  AlgorithmTrial(const AlgorithmTrial&) = delete;
  AlgorithmTrial& operator=(const AlgorithmTrial&) = delete;

  // Returns the heuristic's algorithms without split-K, best first.
  std::vector<LtConfig> offers();
  // Returns whether the algorithm gives the bits of linear_mma for the shape's rows and for about half of them.
  bool equal_bits(const LtConfig& config);
  // Returns the shortest of `runs` times, in microseconds, with weights that are not in the cache. Infinite if the
  // algorithm cannot run.
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
