// cublaslt.hpp: the few functions of cuBLASLt that linear uses, looked up at run time: the library has 500 MB and is
// not everywhere, and a device without it still computes the same bits with its own kernel.
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

// The library, loaded once a process and kept; null with the reason if it cannot be.
const CublasLt* load_cublaslt(std::string& reason);

}  // namespace mortise::cuda
