// plugins/devices/cuda/lt_matmul.hpp: a product y [M, N] = x [M, K] w [N, K]^T as cuBLASLt describes it. All are
// row-major here; cuBLASLt is column-major, so it computes y^T = w x^T. bf16 in, f32 accumulation, bf16 or f32 out.
#pragma once

#include <vector>

#include "devices/cuda/algorithm.hpp"
#include "devices/cuda/cublaslt.hpp"
#include "kernels/cuda/linear_mma.hpp"

namespace mortise::cuda {

// Returns whether the algorithm adds parts of K separately, which gives other bits.
bool splits_k(const LtConfig& config);

// The descriptors of one product. Used by the thread that runs steps. Invariant: w_, x_ and y_ describe the arguments
// of the last call.
class LtMatmul {
 public:
  // Throws Failure. `lt` and `handle` outlive this object.
  LtMatmul(const CublasLt& lt, cublasLtHandle_t handle, const LinearShape& shape);
  ~LtMatmul();
  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;

  // Returns the heuristic's algorithms without split-K for these rows and addresses, best first.
  std::vector<cublasLtMatmulAlgo_t> heuristic_algorithms(const LinearArgs& args, std::size_t workspace_bytes);
  // Builds the algorithm of a configuration. Returns false if it cannot do this product with the workspace.
  bool make(const LtConfig& config, const LinearArgs& args, std::size_t workspace_bytes,
            cublasLtMatmulAlgo_t& algorithm);
  LtConfig config_of(const cublasLtMatmulAlgo_t& algorithm) const;

  cublasStatus_t run(const LinearArgs& args, const void* bias, const cublasLtMatmulAlgo_t& algorithm, void* workspace,
                     std::size_t workspace_bytes, cudaStream_t stream);

 private:
  void describe(const LinearArgs& args);

  const CublasLt& lt_;
  cublasLtHandle_t handle_;
  bool f32_out_, bias_;
  const void* bias_pointer_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
};

}  // namespace mortise::cuda
