#include "devices/cuda/lt_matmul.hpp"

#include <string>

#include "devices/cuda/errors.hpp"

namespace mortise::cuda {
namespace {

constexpr cublasLtMatmulAlgoConfigAttributes_t kAttributes[] = {
    CUBLASLT_ALGO_CONFIG_ID,
    CUBLASLT_ALGO_CONFIG_TILE_ID,
    CUBLASLT_ALGO_CONFIG_STAGES_ID,
    CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
    CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
    CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
    CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION,
    CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID,
    CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
};
constexpr std::size_t kFirstNarrowAttribute = 7;  // inner shape and cluster shape have 16 bits
static_assert(std::size(kAttributes) == std::tuple_size_v<LtConfig>);

void check_lt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Failure(status == CUBLAS_STATUS_ALLOC_FAILED ? MORTISE_RESOURCE_EXHAUSTED : MORTISE_INTERNAL, "linear",
                std::string(what) + " of cuBLASLt failed with status " + std::to_string(static_cast<int>(status)));
}

}  // namespace

bool splits_k(const LtConfig& config) {
  return config[kConfigSplitK] > 1 || config[kConfigReduction] != CUBLASLT_REDUCTION_SCHEME_NONE;
}

LtMatmul::LtMatmul(const CublasLt& lt, cublasLtHandle_t handle, const LinearShape& shape)
    : lt_(lt), handle_(handle), f32_out_(shape.f32_out), bias_(shape.bias) {
  const auto n = static_cast<std::uint64_t>(shape.n), k = static_cast<std::uint64_t>(shape.k);
  const cudaDataType_t out = f32_out_ ? CUDA_R_32F : CUDA_R_16BF;
  const cublasOperation_t transpose = CUBLAS_OP_T;
  check_lt(lt_.cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  check_lt(lt_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose),
           "cublasLtMatmulDescSetAttribute");
  if (bias_) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cudaDataType_t type = CUDA_R_16BF;
    check_lt(lt_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
             "cublasLtMatmulDescSetAttribute");
    check_lt(lt_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type),
             "cublasLtMatmulDescSetAttribute");
  }
  check_lt(lt_.cublasLtMatrixLayoutCreate(&w_, CUDA_R_16BF, k, n, static_cast<std::int64_t>(k)),
           "cublasLtMatrixLayoutCreate");
  check_lt(lt_.cublasLtMatrixLayoutCreate(&x_, CUDA_R_16BF, k, 1, static_cast<std::int64_t>(k)),
           "cublasLtMatrixLayoutCreate");
  check_lt(lt_.cublasLtMatrixLayoutCreate(&y_, out, n, 1, static_cast<std::int64_t>(n)), "cublasLtMatrixLayoutCreate");
}

LtMatmul::~LtMatmul() {
  if (y_ != nullptr) lt_.cublasLtMatrixLayoutDestroy(y_);
  if (x_ != nullptr) lt_.cublasLtMatrixLayoutDestroy(x_);
  if (w_ != nullptr) lt_.cublasLtMatrixLayoutDestroy(w_);
  if (operation_ != nullptr) lt_.cublasLtMatmulDescDestroy(operation_);
}

void LtMatmul::describe(const LinearArgs& args) {
  const auto set = [&](cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check_lt(lt_.cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value),
             "cublasLtMatrixLayoutSetAttribute");
  };
  const auto rows = static_cast<std::uint64_t>(args.m);
  set(w_, CUBLASLT_MATRIX_LAYOUT_LD, args.w_stride);
  set(x_, CUBLASLT_MATRIX_LAYOUT_COLS, rows);
  set(x_, CUBLASLT_MATRIX_LAYOUT_LD, args.x_stride);
  set(y_, CUBLASLT_MATRIX_LAYOUT_COLS, rows);
  set(y_, CUBLASLT_MATRIX_LAYOUT_LD, args.y_stride);
}

std::vector<cublasLtMatmulAlgo_t> LtMatmul::heuristic_algorithms(const LinearArgs& args, std::size_t workspace_bytes) {
  constexpr int kWanted = 64;
  describe(args);
  cublasLtMatmulPreference_t preference = nullptr;
  check_lt(lt_.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  lt_.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                           sizeof workspace_bytes);
  lt_.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction,
                                           sizeof no_reduction);
  std::vector<cublasLtMatmulHeuristicResult_t> results(kWanted);
  int count = 0;
  const cublasStatus_t status = lt_.cublasLtMatmulAlgoGetHeuristic(handle_, operation_, w_, x_, y_, y_, preference,
                                                                   kWanted, results.data(), &count);
  lt_.cublasLtMatmulPreferenceDestroy(preference);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;  // no algorithm for this shape
  for (int i = 0; i < count; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS && !splits_k(config_of(result.algo))) algorithms.push_back(result.algo);
  }
  return algorithms;
}

bool LtMatmul::make(const LtConfig& config, const LinearArgs& args, std::size_t workspace_bytes,
                    cublasLtMatmulAlgo_t& algorithm) {
  describe(args);
  const cudaDataType_t out = f32_out_ ? CUDA_R_32F : CUDA_R_16BF;
  if (lt_.cublasLtMatmulAlgoInit(handle_, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, out, out, config[0],
                                 &algorithm) != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  for (std::size_t i = 1; i < config.size(); ++i) {
    const auto wide = static_cast<std::uint32_t>(config[i]);
    const auto narrow = static_cast<std::uint16_t>(config[i]);
    const bool is_narrow = i >= kFirstNarrowAttribute;
    const void* value = is_narrow ? static_cast<const void*>(&narrow) : &wide;
    const std::size_t size = is_narrow ? sizeof narrow : sizeof wide;
    const cublasStatus_t status = lt_.cublasLtMatmulAlgoConfigSetAttribute(&algorithm, kAttributes[i], value, size);
    // Attributes that an algorithm lacks must be 0.
    if (status != CUBLAS_STATUS_SUCCESS && config[i] != 0) return false;
  }
  cublasLtMatmulHeuristicResult_t result = {};
  return lt_.cublasLtMatmulAlgoCheck(handle_, operation_, w_, x_, y_, y_, &algorithm, &result) ==
             CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= workspace_bytes;
}

LtConfig LtMatmul::config_of(const cublasLtMatmulAlgo_t& algorithm) const {
  LtConfig config{};
  for (std::size_t i = 0; i < config.size(); ++i) {
    std::uint32_t wide = 0;
    std::uint16_t narrow = 0;
    const bool is_narrow = i >= kFirstNarrowAttribute;
    std::size_t written = 0;
    const cublasStatus_t status = lt_.cublasLtMatmulAlgoConfigGetAttribute(
        &algorithm, kAttributes[i], is_narrow ? static_cast<void*>(&narrow) : &wide,
        is_narrow ? sizeof narrow : sizeof wide, &written);
    if (status == CUBLAS_STATUS_SUCCESS) config[i] = is_narrow ? narrow : static_cast<std::int32_t>(wide);
  }
  return config;
}

cublasStatus_t LtMatmul::run(const LinearArgs& args, const void* bias, const cublasLtMatmulAlgo_t& algorithm,
                             void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  describe(args);
  if (bias_ && bias != bias_pointer_) {
    check_lt(lt_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
             "cublasLtMatmulDescSetAttribute");
    bias_pointer_ = bias;
  }
  const float one = 1.0f, zero = 0.0f;
  return lt_.cublasLtMatmul(handle_, operation_, &one, args.w, w_, args.x, x_, &zero, args.y, y_, args.y, y_,
                            &algorithm, workspace, workspace_bytes, stream);
}

}  // namespace mortise::cuda
