// runtime/abi_record/attention_replay.hpp: makes the recorded calls of an attention, on a device that computes in host
// memory.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "conformance/device_buffer.hpp"
#include "conformance/guarded_memory.hpp"
#include "conformance/part.hpp"
#include "mortise/attention.h"

namespace mortise::abi_record {

// The status of a call, and its outputs as a record has them.
using CallOutput = std::pair<mortise_status, nlohmann::json>;

// What an attention needs beside its instance: its KV cache, the step that it runs, norm weights. Outlives the
// instance's last call. Used by one thread. Throws an Error where the record is wrong. Invariant: memory that a call
// has given to the attention for later use stays as it is until the attention is destroyed, a step's arrays until the
// next plan.
class AttentionReplay {
 public:
  explicit AttentionReplay(const PartInstance& device) : device_(device), access_(device) {}
  ~AttentionReplay();
  AttentionReplay(const AttentionReplay&) = delete;
  AttentionReplay& operator=(const AttentionReplay&) = delete;

  // Returns whether the attention must be active for this function.
  static bool is_step(const std::string& function);
  // Makes a call of the attention's table.
  CallOutput make(conformance::Part& part, const std::string& function, const nlohmann::json& in);

 private:
  // A tensor in memory that ends at a guard page.
  struct Heads {
    Heads(std::vector<std::byte> bytes, std::int64_t rows, std::int64_t heads, std::int64_t head_dim,
          std::int32_t dtype);
    conformance::GuardedArray<std::byte> bytes;
    mortise_tensor tensor{};
  };

  CallOutput kv_layout(conformance::Part& part, const nlohmann::json& in);
  CallOutput bind(conformance::Part& part, const nlohmann::json& in);
  CallOutput plan(conformance::Part& part, const nlohmann::json& in);
  CallOutput append(conformance::Part& part, const nlohmann::json& in);
  CallOutput run(conformance::Part& part, const nlohmann::json& in);
  CallOutput copy_blocks(conformance::Part& part, const nlohmann::json& in);
  Heads heads_of(const nlohmann::json& in, const char* name, std::int32_t num_heads, std::int32_t dtype) const;
  std::vector<float> rope_table(const nlohmann::json& in, const char* name, std::int32_t half) const;
  mortise_weight* weight_of(const nlohmann::json& in, const char* name);
  std::int32_t dtype_of(const nlohmann::json& in) const;

  const PartInstance& device_;
  const conformance::DeviceAccess access_;
  conformance::ReadOnlyCopies bound_;  // lives until the attention is destroyed, as do the next two
  mortise_model_dims dims_{};
  void* kv_ = nullptr;
  std::uint64_t bytes_per_block_ = 0;
  std::unique_ptr<conformance::ReadOnlyCopies> planned_;  // the arrays of the step
  mortise_batch batch_{};
  mortise_step step_{};
  std::map<std::string, mortise_weight*> weights_;  // by the digits of their bytes
};

}  // namespace mortise::abi_record
