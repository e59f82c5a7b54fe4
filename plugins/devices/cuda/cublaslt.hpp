// plugins/devices/cuda/cublaslt.hpp: the few functions of cuBLASLt that linear uses, looked up at run time. The library
// has 500 MB and may be missing; a device without it computes the same bits with its own kernels.
#pragma once

#include <cublasLt.h>

#include <string>

namespace mortise::cuda {

// clang-format off
#define MORTISE_CUBLASLT_FUNCTIONS(X) \
  X(cublasLtCreate) \
  X(cublasLtDestroy) \
  X(cublasLtGetVersion) \
  X(cublasLtMatmul) \
  X(cublasLtMatmulAlgoCheck) \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmulAlgoConfigSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic) \
  X(cublasLtMatmulAlgoInit) \
  X(cublasLtMatmulDescCreate) \
  X(cublasLtMatmulDescDestroy) \
  X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceDestroy) \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate) \
  X(cublasLtMatrixLayoutDestroy) \
  X(cublasLtMatrixLayoutSetAttribute)
// clang-format on

struct CublasLt {
#define MORTISE_DECLARE(name) decltype(&::name) name = nullptr;
  MORTISE_CUBLASLT_FUNCTIONS(MORTISE_DECLARE)
#undef MORTISE_DECLARE
};

// Returns the library, which is loaded once per process and never unloaded. Null if it cannot be loaded, with the
// reason.
const CublasLt* load_cublaslt(std::string& reason);

}  // namespace mortise::cuda
