// plugins/kernels/cuda/compare.hpp: helpers that verify a cuBLASLt algorithm: random inputs, and a bitwise comparison
// of two results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mortise::cuda {

// Shapes: arrays of any length, contiguous.
// Order: elements are independent, and integer counts have no order.
// Cost: memory bound.
// Errors: cudaGetLastError() of the launch. Launches on `stream`, never waits, allocates nothing.
// Source: splitmix64, Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
// Oracle: none: they serve the choice of an algorithm, whose bits the tests of linear check.

// Fills p with roughly normal bf16 numbers times `scale`: the sum of four uniform numbers that splitmix64 makes of the
// element's index. Element i depends only on the seed and i.
cudaError_t launch_random(std::uint16_t* p, std::int64_t count, float scale, std::uint32_t seed, cudaStream_t stream);

// *differences += the number of 32-bit words in which a and b differ.
cudaError_t launch_count_differences(const void* a, const void* b, std::int64_t words, unsigned long long* differences,
                                     cudaStream_t stream);

}  // namespace mortise::cuda
