// byte_cache.hpp: a cache in int8 or E4M3 on the host (docs/numerics.md, "A cache in int8 on CUDA" and "A cache in
// FP8"): what is written of K or V of a token, by the scalar references, and what is read of it. REQUIRES:
// cpu::DenormalsOff.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/span.hpp"

namespace mortise::test {

struct ByteRow {
  std::vector<std::uint8_t> bytes;
  std::vector<float> numbers;  // that the bytes are
  float scale;
  std::uint16_t read_back(std::size_t d) const;  // bf16
};

ByteRow byte_row(const std::vector<std::uint16_t>& row, cuda::SpanCache cache);
// Writes it as K or V of a token of the block whose KV head begins at `head`.
void put_byte_row(const ByteRow& row, const cuda::SpanLayout& layout, std::int32_t token, bool values,
                  std::uint16_t* head);

}  // namespace mortise::test
