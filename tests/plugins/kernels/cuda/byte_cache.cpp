#include "byte_cache.hpp"

#include <cstring>

#include "kernels/cpu/reference/linear_fp8.hpp"
#include "kernels/cpu/reference/linear_int.hpp"
#include "world.hpp"

namespace mortise::test {

std::uint16_t ByteRow::read_back(std::size_t d) const {
  return narrow(numbers[d] * scale);
}

ByteRow byte_row(const std::vector<std::uint16_t>& row, cuda::SpanCache cache) {
  std::vector<float> wide;
  for (const std::uint16_t x : row) wide.push_back(widen(x));
  ByteRow out = {};
  if (cache == cuda::SpanCache::kFp8) {
    const auto rounded = cpu::reference::quantize_fp8(wide, 1, wide.size());
    out = {rounded.values, {}, rounded.scales[0]};
    for (const std::uint8_t value : rounded.values) out.numbers.push_back(cpu::reference::from_e4m3(value));
    return out;
  }
  const auto quantized = cpu::reference::quantize_activations(wide);
  for (const int q : quantized.q) {
    out.bytes.push_back(static_cast<std::uint8_t>(q));
    out.numbers.push_back(static_cast<float>(q));
  }
  out.scale = quantized.scale;
  return out;
}

void put_byte_row(const ByteRow& row, const cuda::SpanLayout& layout, std::int32_t token, bool values,
                  std::uint16_t* head) {
  const auto dim = row.bytes.size();
  const auto chunk_bytes = cuda::kKeyChunk * (dim + sizeof(float)), in_chunk = static_cast<std::size_t>(token % 16);
  char* const chunk = reinterpret_cast<char*>(head + (values ? layout.head_elements / 2 : 0)) +
                      static_cast<std::size_t>(token / 16) * chunk_bytes;
  std::memcpy(chunk + in_chunk * dim, row.bytes.data(), dim);
  std::memcpy(chunk + cuda::kKeyChunk * dim + in_chunk * sizeof(float), &row.scale, sizeof row.scale);
}

}  // namespace mortise::test
