// runtime/bench_command/prefix_attention.hpp: attention alone, without a model: sequences that share a prefix decode a
// token each, with `paged`, which reads the prefix for each of them, and with `cascade`, which reads it once.
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
  std::int64_t members, shared, own;  // sequences; tokens that all have; tokens of its own that each has
};

// One attention over the cache, and the step that is measured.
class PrefixSide {
 public:
  PrefixSide(const DevicePart& device, const Component& component, const mortise_model_dims& dims,
             const ExecutionLimits& limits, std::int32_t kv_dtype);

  mortise_kv_layout layout() const;
  // Gives it the cache and makes it ready. REQUIRES: kv holds limits.num_blocks blocks of the layout.
  void bind(void* kv, std::uint64_t bytes);
  // Writes the tokens of these runs into the cache, random ones.
  void append(std::span<const RowRun> runs, std::int64_t num_rows);
  // A step of these runs: the plan, and attention of all layers, into `out`. Queued; wait() for its end.
  void run(std::span<const RowRun> runs, std::int64_t num_rows);
  void wait() const;

  // Of the last step, all layers; nullopt: the plugin does not count.
  std::optional<std::uint64_t> kv_bytes_read() const;
  // What the last step gave.
  std::vector<std::uint16_t> out(std::int64_t num_rows);

 private:
  void plan(std::span<const RowRun> runs);
  mortise_tensor heads(void* data, std::int64_t num_rows, std::int32_t num_heads) const;

  ShardParts parts_;  // the device; the batches of a cascade tell their groups
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
  std::size_t q_ = 0, k_ = 0, v_ = 0;  // of upload_
};

// Both of them over one cache.
class PrefixAttention {
 public:
  // On the pipeline's device, with its block size and type of cache, and the heads of `shape`. Throws an Error when
  // they do not give the same bits.
  PrefixAttention(const PipelineDescription& description, const ModelShape& shape, const PrefixWork& work);

  static constexpr std::size_t kPaged = 0, kCascade = 1;
  double seconds(std::size_t side);  // of a step
  std::optional<std::uint64_t> kv_bytes_read(std::size_t side) const { return sides_[side]->kv_bytes_read(); }
  // Each token's K and V read once, and what the rows compute with them.
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
