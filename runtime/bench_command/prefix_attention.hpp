// runtime/bench_command/prefix_attention.hpp: runs attention without a model. Sequences that share a prefix decode a
// token each, with `paged`, which reads the prefix for each of them, and with `cascade`, which reads it once. Used by
// one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench_command/cost.hpp"
#include "bench_command/model_shape.hpp"
#include "bench_command/probes.hpp"
#include "execution/batch_builder.hpp"
#include "loader/part_instance.hpp"
#include "pipeline/description.hpp"

namespace mortise::bench {

struct PrefixWork {
  std::int64_t members, shared, own;  // sequences; tokens that all share; further tokens of each
};

// One attention on the cache, and the step to be measured. Used by one thread. Invariant: only append() changes K and V
// of the cache.
class PrefixSide {
 public:
  PrefixSide(const DevicePart& device, const Component& component, const mortise_model_dims& dims,
             const ExecutionLimits& limits, std::int32_t kv_dtype);

  mortise_kv_layout layout() const;
  // Binds the cache and activates the attention.
  // REQUIRES: kv holds limits.num_blocks blocks of the layout.
  void bind(void* kv, std::uint64_t bytes);
  // Writes random tokens for these runs into the cache.
  void append(std::span<const RowRun> runs, std::int64_t num_rows);
  // Queues a step of these runs: the plan and the attention of all layers, into `out`. wait() waits for its end.
  void run(std::span<const RowRun> runs, std::int64_t num_rows);
  void wait() const;

  // Returns the bytes of KV that the last step read, over all layers; nullopt if the plugin does not count them.
  std::optional<std::uint64_t> kv_bytes_read() const;
  // Returns the output of the last step.
  std::vector<std::uint16_t> out(std::int64_t num_rows);

 private:
  void plan(std::span<const RowRun> runs);
  mortise_tensor heads(void* data, std::int64_t num_rows, std::int32_t num_heads) const;

  ShardParts parts_;  // the device; batches for cascade list their groups
  PartInstance instance_;
  mortise_attention* self_;
  const mortise_attention_table& table_;
  const mortise_model_dims& dims_;
  const ExecutionLimits limits_;
  const std::int32_t kv_dtype_;
  BatchBuilder builder_;
  PackedUpload upload_;
  DeviceBuffer out_;
  Download download_;
  mortise_step step_{};
  std::uint64_t num_steps_ = 0;
  std::size_t q_ = 0, k_ = 0, v_ = 0;  // offsets in upload_
};

// Both attentions on one cache. Invariant: both sides read the same cache and the same runs. Used by one thread.
class PrefixAttention {
 public:
  // Uses the pipeline's device, its block size and cache type, and the heads of `shape`. Throws an Error if the
  // attentions give different bits.
  PrefixAttention(const PipelineDescription& description, const ModelShape& shape, const PrefixWork& work);

  static constexpr std::size_t kPaged = 0, kCascade = 1;
  double seconds(std::size_t side);  // of a step
  std::optional<std::uint64_t> kv_bytes_read(std::size_t side) const { return sides_[side]->kv_bytes_read(); }
  // Returns the work of reading each token's K and V once, and of the rows' computations with them.
  Work least_work() const;
  std::shared_ptr<LimitProbes> make_probes(const PipelineDescription& description) const;
  mortise_device_info device() const;

 private:
  void make_runs();
  void fill();

  const PrefixWork work_;
  PartInstance device_instance_;
  const DevicePart device_;
  mortise_model_dims dims_{};
  ExecutionLimits limits_;
  std::uint64_t kv_bytes_per_block_ = 0;
  std::unique_ptr<DeviceBuffer> kv_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::vector<BlockId>> blocks_;  // of each member
  std::vector<RowRun> runs_;                  // of the step
  std::unique_ptr<PrefixSide> sides_[2];
};

}  // namespace mortise::bench
