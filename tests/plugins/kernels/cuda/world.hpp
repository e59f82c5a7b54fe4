// world.hpp: sequences with K and V in a paged cache on the GPU, and any batches of their rows, computed by the span
// kernels after any plan. Every row's q, k and v follow from (seed, sequence, position, head), so that however the work
// is cut and whoever is in the batch, a row must come out with the same bits.
#pragma once

#include <map>
#include <vector>

#include "attention/span_cuda/plan.hpp"
#include "gpu.hpp"
#include "groups.hpp"
#include "kernels/cuda/reference/span.hpp"
#include "kernels/cuda/span_kernels.hpp"

namespace mortise::test {

using Bf16 = uint16_t;

float widen(Bf16 h);
Bf16 narrow(float x);

// The first `tokens` of a sequence are those of an earlier one, in the same blocks.
struct Prefix {
  int32_t earlier_seq, tokens;
};

struct Config {
  int32_t num_heads = 8, num_kv_heads = 2, head_dim = 128;
  int32_t block_size = 16;
  int32_t window = 0;
  cuda::SpanCache cache = cuda::SpanCache::kBf16;
  float q_size = 1;  // standard deviation of q: larger makes the softmax sharper
  uint32_t seed = 1;
  std::vector<int32_t> lengths;  // of the sequences
  std::vector<Prefix> prefixes;  // of the sequences, or empty: none shares any; whole blocks of them are shared
};

// `count` rows of sequence `seq` from `position` on; `count` negative: that many rows of padding.
struct Chunk {
  int32_t seq, position, count;
};

struct RowKey {
  int32_t seq, position;
  auto operator<=>(const RowKey&) const = default;
};
using Rows = std::map<RowKey, std::vector<Bf16>>;  // out, [num_heads, head_dim]

// How a batch is computed.
struct Method {
  bool prefill = true;     // long chunks on the prefill kernel
  int32_t num_blocks = 8;  // of the decode kernel, and the most of the prefill kernel
  int64_t partial_rows = 1 << 20;
  int32_t num_shared_blocks = 0;  // of the decode kernel, for spans that sequences share
};

class World {
 public:
  explicit World(const Config& config);

  // Poisons out and shared memory, computes the batch and adds its rows to `rows`. The plan by which it did.
  span_cuda::Plan compute(const std::vector<Chunk>& batch, const Method& method, Rows& rows);
  // The same rows by the reference.
  Rows reference(const std::vector<Chunk>& batch);
  // In double, from q, k and v, of one row.
  std::vector<double> exact(RowKey row) const;

  const Config& config() const { return config_; }
  cuda::SpanArgs args(const DeviceArray<Bf16>& q, DeviceArray<Bf16>& out) const;  // of a cache in bf16
  int32_t max_blocks() const { return max_blocks_; }
  std::vector<Bf16> q_row(RowKey row) const;
  std::vector<Bf16> kv_head(int32_t seq, int32_t position, int32_t kv_head, bool values) const;
  // Replaces V of a token, in the cache, by `value`; q, k and v of others stay.
  void set_value(int32_t seq, int32_t position, float value);
  // Replaces the first element of K.
  void set_first_of_key(int32_t seq, int32_t position, float value);
  // The token's K and V become what is written when its V is not finite.
  void break_token(int32_t seq, int32_t position);

 private:
  int32_t shared_tokens(int32_t seq) const;
  std::size_t slot_offset(int32_t seq, int32_t position, int32_t kv_head, bool values) const;
  // The first `elements` of K or of V.
  void set(int32_t seq, int32_t position, bool values, int32_t elements, float number);
  void upload();
  std::vector<Bf16> queries(const std::vector<RowKey>& rows) const;

  Config config_;
  const cuda::SpanKernels& kernels_;
  cuda::SpanLayout layout_;       // of what the reference reads, in bf16
  cuda::SpanLayout byte_layout_;  // and of a cache in bytes that the kernels read, whose numbers are the same
  int32_t max_blocks_ = 0;
  std::vector<int32_t> table_;  // [sequences, max_blocks_], scattered
  DeviceArray<Bf16> kv_, byte_kv_;
  DeviceArray<int32_t> device_table_;
  std::vector<Bf16> host_kv_;
};

// The rows of a batch, in its order; {-1, ..} for padding.
std::vector<RowKey> rows_of(const std::vector<Chunk>& batch);

}  // namespace mortise::test
