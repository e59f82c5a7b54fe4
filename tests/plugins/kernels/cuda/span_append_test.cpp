// append: q in place, K and V in their slots, with the bits of the scalar references of the CPU's kernels.
// Covers: plugins/kernels/cuda/{span,span_append,span_layout}
#include <cmath>
#include <random>

#include "byte_cache.hpp"
#include "gpu.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/reference/norm.hpp"
#include "kernels/cpu/reference/rope.hpp"
#include "kernels/cpu/reference/span.hpp"
#include "kernels/cuda/span.hpp"
#include "world.hpp"

namespace mortise::test::span_append_test {
namespace {

struct Case {
  int32_t head_dim, rotary_dim;
  bool interleaved, norm;
  int32_t block_size;
  cuda::SpanCache cache = cuda::SpanCache::kBf16;
  int32_t rows = 53, heads = 6, kv_heads = 2;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "heads of " << c.head_dim << ", rotary_dim " << c.rotary_dim << (c.interleaved ? " interleaved" : "")
             << (c.norm ? ", norms" : "") << ", blocks of " << c.block_size
             << (c.cache == cuda::SpanCache::kInt8  ? ", int8"
                 : c.cache == cuda::SpanCache::kFp8 ? ", fp8"
                                                    : "")
             << ", " << c.rows << " rows, " << c.heads << " and " << c.kv_heads << " heads";
}

class Append : public testing::TestWithParam<Case> {};

constexpr int32_t kPositions = 300, kBlocks = 12;
constexpr float kEps = 1e-6f;

std::vector<Bf16> normal(std::size_t n, float size, std::mt19937& rng) {
  std::normal_distribution<float> distribution(0, size);
  std::vector<Bf16> values(n);
  for (Bf16& x : values) x = narrow(distribution(rng));
  return values;
}

struct Tables {
  std::vector<float> cos, sin;
};
Tables rope_tables(int32_t rotary_dim) {
  Tables tables;
  for (int32_t position = 0; position < kPositions; ++position) {
    for (int32_t i = 0; i < rotary_dim / 2; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / rotary_dim);
      tables.cos.push_back(static_cast<float>(std::cos(angle)));
      tables.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return tables;
}

// A head after norm and rope.
std::vector<Bf16> prepared(const Case& c, const Bf16* head, const std::vector<Bf16>& norm, const Tables& tables,
                           int32_t position) {
  const auto dim = static_cast<std::size_t>(c.head_dim);
  std::vector<Bf16> x(head, head + dim);
  if (c.norm) {
    std::vector<Bf16> y(dim);
    cpu::reference::rms_norm<Bf16>(x.data(), nullptr, norm.data(), y.data(), dim, kEps);
    x = y;
  }
  if (c.rotary_dim > 0) {
    std::vector<float> wide(dim);
    for (std::size_t i = 0; i < dim; ++i) wide[i] = widen(x[i]);
    const auto at = static_cast<std::size_t>(position * (c.rotary_dim / 2));
    const auto pairs = c.interleaved ? cpu::reference::RopePairs::kInterleaved : cpu::reference::RopePairs::kHalves;
    cpu::reference::rope<Bf16>(pairs, wide.data(), &tables.cos[at], &tables.sin[at],
                               static_cast<std::size_t>(c.rotary_dim));
    for (std::size_t i = 0; i < static_cast<std::size_t>(c.rotary_dim); ++i) x[i] = narrow(wide[i]);
  }
  return x;
}

// K after norm and rope, and V, as they are written.
std::pair<std::vector<Bf16>, std::vector<Bf16>> written(const std::vector<Bf16>& k, const Bf16* v) {
  std::vector<float> keys, values;
  for (std::size_t d = 0; d < k.size(); ++d) keys.push_back(widen(k[d])), values.push_back(widen(v[d]));
  cpu::reference::span_written(keys.data(), values.data(), static_cast<int>(k.size()));
  std::pair<std::vector<Bf16>, std::vector<Bf16>> heads;
  for (const float x : keys) heads.first.push_back(narrow(x));
  for (const float x : values) heads.second.push_back(narrow(x));
  return heads;
}

TEST_P(Append, GivesTheBitsOfTheScalarReferences) {
  MORTISE_NEEDS_GPU();
  const cpu::DenormalsOff off;
  const Case& c = GetParam();
  std::mt19937 rng(31);
  const cuda::SpanLayout layout = cuda::make_span_layout(2, c.kv_heads, c.head_dim, c.block_size, c.cache);
  // q, k and v are views of one matrix, as a fused product leaves them. Some rows are huge, some tiny.
  const int32_t columns = (c.heads + 2 * c.kv_heads) * c.head_dim;
  std::vector<Bf16> qkv;
  for (int32_t row = 0; row < c.rows; ++row) {
    const float size = row % 7 == 3 ? 1e18f : row % 7 == 5 ? 1e-19f : 1;
    const std::vector<Bf16> values = normal(static_cast<std::size_t>(columns), size, rng);
    qkv.insert(qkv.end(), values.begin(), values.end());
  }
  // Some heads of V get a non-finite element: one head in some rows, all heads in others.
  int32_t not_finite = 0;
  for (int32_t row = 0; row < c.rows; ++row) {
    for (int32_t head = 0; head < c.kv_heads; ++head) {
      if (row % 3 != 0 || (head + row) % 4 == 0) continue;
      constexpr Bf16 kBits[] = {0x7fc0, 0xffc0, 0x7f80, 0xff80};
      const auto d = static_cast<int32_t>(rng() % static_cast<uint32_t>(c.head_dim));
      qkv[static_cast<std::size_t>(row * columns + (c.heads + c.kv_heads + head) * c.head_dim + d)] = kBits[rng() % 4];
      ++not_finite;
    }
  }
  ASSERT_GT(not_finite, 20);
  std::vector<int32_t> positions;
  std::vector<int64_t> slots;
  for (int32_t row = 0; row < c.rows; ++row) {
    positions.push_back(static_cast<int32_t>(rng() % kPositions));
    slots.push_back(row == 20 ? -1 : (row * 17 + 5) % (kBlocks * c.block_size));
  }
  const Tables tables = rope_tables(c.rotary_dim);
  const std::vector<Bf16> q_norm = normal(static_cast<std::size_t>(c.head_dim), 1, rng);
  const std::vector<Bf16> k_norm = normal(static_cast<std::size_t>(c.head_dim), 1, rng);

  DeviceArray<Bf16> device_qkv(qkv), kv(kBlocks * layout.block_elements);
  kv.fill(0xee);
  const DeviceArray<Bf16> device_q_norm(q_norm), device_k_norm(k_norm);
  const DeviceArray<int32_t> device_positions(positions);
  const DeviceArray<int64_t> device_slots(slots);
  const DeviceArray<float> cos(tables.cos), sin(tables.sin);
  cuda::SpanAppend append{};
  append.q = device_qkv.data();
  append.k = append.q + c.heads * c.head_dim;
  append.v = append.k + c.kv_heads * c.head_dim;
  append.q_row_stride = append.k_row_stride = append.v_row_stride = columns;
  append.q_head_stride = append.k_head_stride = append.v_head_stride = c.head_dim;
  append.num_tokens = c.rows;
  append.num_heads = c.heads;
  append.positions = device_positions.data();
  append.slots = device_slots.data();
  if (c.rotary_dim > 0) append.cos = cos.data(), append.sin = sin.data();
  append.rotary_dim = c.rotary_dim;
  append.interleaved = c.interleaved;
  if (c.norm) append.q_norm = device_q_norm.data(), append.k_norm = device_k_norm.data();
  append.eps = kEps;
  append.kv = kv.data() + layout.layer_elements;
  append.layout = layout;
  check_cuda(cuda::span_append(append, nullptr), "append");
  check_cuda(cudaDeviceSynchronize(), "append");

  std::vector<Bf16> expected_qkv = qkv, expected_kv(kBlocks * layout.block_elements, 0xeeee);
  for (int32_t row = 0; row < c.rows; ++row) {
    for (int32_t head = 0; head < c.heads + c.kv_heads; ++head) {
      Bf16* x = &expected_qkv[static_cast<std::size_t>(row * columns + head * c.head_dim)];
      const bool is_q = head < c.heads;
      const int32_t position = positions[static_cast<std::size_t>(row)];
      const std::vector<Bf16> head_values = prepared(c, x, is_q ? q_norm : k_norm, tables, position);
      if (is_q) {
        std::copy(head_values.begin(), head_values.end(), x);
        continue;
      }
      const int64_t slot = slots[static_cast<std::size_t>(row)];
      if (slot < 0) continue;
      const auto [key, value] = written(head_values, x + c.kv_heads * c.head_dim);
      const std::size_t at = static_cast<std::size_t>(slot / c.block_size) * layout.block_elements +
                             layout.layer_elements + static_cast<std::size_t>(head - c.heads) * layout.head_elements;
      const int32_t token = static_cast<int32_t>(slot % c.block_size);
      if (cuda::in_bytes(c.cache)) {
        put_byte_row(byte_row(key, c.cache), layout, token, false, &expected_kv[at]);
        put_byte_row(byte_row(value, c.cache), layout, token, true, &expected_kv[at]);
        continue;
      }
      for (int32_t d = 0; d < c.head_dim; ++d) {
        Bf16* const to = &expected_kv[at + static_cast<std::size_t>(cuda::span_offset(c.head_dim, token, d))];
        to[0] = key[static_cast<std::size_t>(d)];
        to[layout.head_elements / 2] = value[static_cast<std::size_t>(d)];
      }
    }
  }
  EXPECT_EQ(device_qkv.values(), expected_qkv);
  EXPECT_EQ(kv.values(), expected_kv);  // every other slot is as it was
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Append,
    testing::Values(Case{128, 0, false, false, 16}, Case{128, 128, false, false, 16}, Case{128, 128, true, false, 32},
                    Case{64, 64, false, false, 64}, Case{128, 128, false, true, 16}, Case{64, 64, false, true, 16},
                    Case{64, 64, true, true, 128}, Case{128, 0, false, true, 16}, Case{128, 64, false, false, 16},
                    Case{128, 40, false, true, 16}, Case{64, 36, false, false, 16}, Case{64, 22, true, false, 16},
                    Case{32, 32, false, true, 16}, Case{32, 32, true, false, 64}, Case{80, 80, false, true, 16},
                    Case{80, 32, false, false, 32}, Case{80, 0, false, true, 16}, Case{96, 96, false, true, 16},
                    Case{96, 24, true, true, 128}, Case{192, 192, false, true, 16}, Case{192, 64, false, false, 16},
                    Case{256, 256, false, true, 16}, Case{256, 64, true, true, 32}, Case{256, 0, false, true, 16}));

// From 128 tokens on another kernel rotates whole heads into a cache in bf16. 192 slots are enough for each row's own.
constexpr cuda::SpanCache kBf16 = cuda::SpanCache::kBf16;
INSTANTIATE_TEST_SUITE_P(
    ManyTokens, Append,
    testing::Values(Case{128, 128, false, false, 16, kBf16, 128}, Case{128, 128, false, false, 32, kBf16, 131, 33, 1},
                    Case{128, 128, false, false, 16, kBf16, 150, 40, 10}, Case{64, 64, false, false, 16, kBf16, 129},
                    Case{64, 64, false, false, 64, kBf16, 190, 9, 9}, Case{256, 256, false, false, 16, kBf16, 130},
                    Case{128, 128, false, true, 16, kBf16, 130}, Case{128, 64, false, false, 16, kBf16, 130},
                    Case{128, 128, true, false, 16, kBf16, 130}, Case{80, 80, false, false, 16, kBf16, 130},
                    Case{128, 128, false, false, 16, cuda::SpanCache::kInt8, 130}));

constexpr cuda::SpanCache kInt8 = cuda::SpanCache::kInt8;
constexpr cuda::SpanCache kFp8 = cuda::SpanCache::kFp8;
INSTANTIATE_TEST_SUITE_P(Fp8, Append,
                         testing::Values(Case{32, 32, false, true, 16, kFp8}, Case{80, 80, false, true, 16, kFp8},
                                         Case{128, 128, false, true, 16, kFp8}, Case{256, 256, false, true, 32, kFp8}));
INSTANTIATE_TEST_SUITE_P(Int8, Append,
                         testing::Values(Case{32, 32, false, true, 16, kInt8}, Case{64, 64, false, false, 32, kInt8},
                                         Case{80, 80, false, true, 16, kInt8}, Case{96, 24, true, true, 128, kInt8},
                                         Case{128, 128, false, true, 16, kInt8}, Case{128, 0, false, false, 64, kInt8},
                                         Case{192, 64, false, false, 16, kInt8},
                                         Case{256, 256, false, true, 32, kInt8}));

}  // namespace
}  // namespace mortise::test::span_append_test
