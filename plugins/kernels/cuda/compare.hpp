// compare.hpp: what verifying an algorithm takes: numbers to multiply, and whether two results have the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mortise::cuda {

// Fills p with bf16 numbers of about normal distribution, times `scale`; a function of the seed and the place alone.
cudaError_t launch_random(std::uint16_t* p, std::int64_t count, float scale, std::uint32_t seed, cudaStream_t stream);

// *differences += the number of 32-bit words in which a and b differ.
cudaError_t launch_count_differences(const void* a, const void* b, std::int64_t words, unsigned long long* differences,
                                     cudaStream_t stream);

}  // namespace mortise::cuda
