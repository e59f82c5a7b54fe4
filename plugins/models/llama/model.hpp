// plugins/models/llama/model.hpp: an instance of the model, from its configuration to hidden rows and logits.
// It keeps weights, a rope table and buffers for one step, all in device memory, and nothing of any sequence. What a
// step runs on (device table, attention, stream) comes with the step each time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "models/llama/config.hpp"
#include "models/llama/weights.hpp"
#include "mortise/plugin.hpp"

namespace mortise::llama {

// Device memory that is given back at the end of its life.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceRef owner, uint64_t bytes);
  void* get() const { return memory_.get(); }

 private:
  struct Deleter {
    DeviceRef owner;
    void operator()(void* memory) const { owner.table->free(owner.device, memory); }
  };
  std::unique_ptr<void, Deleter> memory_{nullptr, Deleter{}};
};

// What a step writes, for max_batched_tokens rows T. Devices take pages when they are touched, so unused rows are free.
struct Buffers {
  DeviceMemory residual;   // [T, hidden_size]
  DeviceMemory x;          // [T, hidden_size]: normed input of a block, its output, and at the end `hidden`
  DeviceMemory qkv;        // [T, q_columns + 2 * kv_columns]
  DeviceMemory attention;  // [T, q_columns]
  DeviceMemory gate_up;    // [T, 2 * intermediate_size]; only if gate and up are weights of different kinds
  DeviceMemory activated;  // [T, intermediate_size]
};

class Model {
 public:
  // REQUIRES: the options were validated by the schema. Throws Failure, see parse_config.
  explicit Model(const mortise_create_args& args);

  const mortise_model_dims& dims() const { return dims_; }
  void load(const mortise_weight_reader& reader);
  void activate(const mortise_activate_args& args);
  void deactivate();

  // Runs all layers over the step's rows; returns `hidden`, valid until the next forward.
  mortise_tensor forward(const mortise_step& step);
  void head(const mortise_step& step, const mortise_tensor& hidden, int32_t vocab_begin, int32_t vocab_end,
            const mortise_tensor& logits);

 private:
  void build_rope_table(int64_t num_positions);
  // Elements from row to row of the buffers.
  int64_t row_stride(int64_t columns) const;
  mortise_tensor rows(const DeviceMemory& memory, int64_t num_rows, int64_t columns) const;
  void run_attention(const mortise_step& step, int32_t layer, int32_t num_tokens);
  void run_mlp(const mortise_step& step, int32_t layer, int32_t num_tokens);

  DeviceRef device_;
  bool host_memory_;  // the device's memory is the host's
  Config config_;
  mortise_model_dims dims_;
  WeightFormat format_;
  Weights weights_;
  int32_t max_batched_tokens_ = 0;
  Buffers buffers_;
  DeviceMemory cos_;  // [max_model_len, head_dim / 2]
  DeviceMemory sin_;
};

}  // namespace mortise::llama
