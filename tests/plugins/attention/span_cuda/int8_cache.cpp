#include "int8_cache.hpp"

#include <cstring>

#include "kernels/cpu/reference/linear_int.hpp"
#include "world.hpp"

namespace mortise::test {

std::uint16_t Int8Row::read_back(std::size_t d) const {
  return narrow(static_cast<float>(q[d]) * scale);
}

Int8Row int8_row(const std::vector<std::uint16_t>& row) {
  std::vector<float> wide;
  for (const std::uint16_t x : row) wide.push_back(widen(x));
  const auto quantised = cpu::reference::quantise_activations(wide);
  return {{quantised.q.begin(), quantised.q.end()}, quantised.scale};
}

void put_int8_row(const Int8Row& row, const cuda::SpanLayout& layout, std::int32_t token, bool values,
                  std::uint16_t* head) {
  const auto dim = row.q.size();
  const auto chunk_bytes = cuda::kKeyChunk * (dim + sizeof(float)), in_chunk = static_cast<std::size_t>(token % 16);
  char* const chunk = reinterpret_cast<char*>(head + (values ? layout.head_elements / 2 : 0)) +
                      static_cast<std::size_t>(token / 16) * chunk_bytes;
  std::memcpy(chunk + in_chunk * dim, row.q.data(), dim);
  std::memcpy(chunk + cuda::kKeyChunk * dim + in_chunk * sizeof(float), &row.scale, sizeof row.scale);
}

}  // namespace mortise::test
