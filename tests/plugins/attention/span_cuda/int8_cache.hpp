// int8_cache.hpp: a cache in int8 on the host (docs/numerics.md, "A cache in int8 on CUDA"): what is written of K or V
// of a token, by the scalar reference, and what is read of it. REQUIRES: cpu::DenormalsOff.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/span.hpp"

namespace mortise::test {

struct Int8Row {
  std::vector<std::int8_t> q;
  float scale;
  std::uint16_t read_back(std::size_t d) const;  // bf16
};

Int8Row int8_row(const std::vector<std::uint16_t>& row);
// Writes it as K or V of a token of the block whose KV head begins at `head`.
void put_int8_row(const Int8Row& row, const cuda::SpanLayout& layout, std::int32_t token, bool values,
                  std::uint16_t* head);

}  // namespace mortise::test
