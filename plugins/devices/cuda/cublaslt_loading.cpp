#include "devices/cuda/cublaslt_loading.hpp"

#include <cstdint>

#include "devices/cuda/known_algorithms.hpp"
#include "devices/cuda/lt_matmul.hpp"
#include "devices/cuda/temporary.hpp"
#include "mortise/plugin.hpp"

namespace mortise::cuda {
namespace {

constexpr std::int64_t kSize = 64;  // all dimensions of the products

void multiply(LtMatmul& matmul, const LinearArgs& args, cudaStream_t stream) {
  for (const LtConfig& config : known_algorithms()) {
    cublasLtMatmulAlgo_t algorithm;
    if (!matmul.make(config, args, 0, algorithm)) continue;
    matmul.run(args, nullptr, algorithm, nullptr, 0, stream);
    return;
  }
}

void load(const CublasLt& lt, cublasLtHandle_t handle, cudaStream_t stream) {
  const Temporary memory(3 * kSize * kSize * sizeof(float), "matrices", "linear", "");
  const auto at = [&](std::int64_t place) { return static_cast<float*>(memory.get()) + place * kSize * kSize; };
  LinearArgs args = {};
  args.x = reinterpret_cast<const std::uint16_t*>(at(0));
  args.w = reinterpret_cast<const std::uint16_t*>(at(1));
  args.y = at(2);
  args.x_stride = args.w_stride = args.y_stride = args.m = args.n = args.k = kSize;
  for (const ElementType type : {ElementType::kBf16, ElementType::kF32}) {
    args.y_type = type;
    LtMatmul matmul(lt, handle, {kSize, kSize, type == ElementType::kF32, /*bias=*/false, kSize});
    multiply(matmul, args, stream);
  }
  cudaStreamSynchronize(stream);
}

}  // namespace

CublasLtLoading::CublasLtLoading(const CublasLt& lt, cublasLtHandle_t handle) {
  int device = 0;
  cudaGetDevice(&device);
  thread_ = std::jthread([this, &lt, handle, device] {
    // Errors are ignored here: the product that needs the kernels fails again and reports them.
    cudaStream_t stream = nullptr;
    if (cudaSetDevice(device) == cudaSuccess &&
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess) {
      try {
        load(lt, handle, stream);
      } catch (const Failure&) {
      }
      cudaStreamDestroy(stream);
    }
    done_ = true;
  });
}

void CublasLtLoading::wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace mortise::cuda
