// probe.hpp: math.cuh and noise.cuh, number by number, for tests.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

enum class Function {
  kExp2,
  kExp,
  kLog,
  kLog1p,
  kTanh,
  kErf,
  kSigmoid,
  kSilu,
  kRelu,
  kGelu,
  kGeluTanh,
  kGumbel,
  kNoiseAtMost,
  kCount
};

// y[i] = f(x[i]), device memory. kGumbel and kNoiseAtMost take the bits of x as the random word.
cudaError_t launch_probe(Function function, const float* x, float* y, std::size_t n);

// One operation of the arithmetic that everything is made of: y[i] = a[i] op b[i] (c[i]).
enum class Operation { kAdd, kMultiply, kFma, kDivide, kSquareRoot, kCount };
cudaError_t launch_operation(Operation operation, const float* a, const float* b, const float* c, float* y,
                             std::size_t n);

// *wrong (device memory, 0 before) = of all 2^32 random words, how many have noise above noise_at_most or kMostNoise.
cudaError_t launch_count_wrong_bounds(unsigned long long* wrong);

}  // namespace mortise::cuda
