// tests/parity/stack.hpp: device, attention and model joined through their ABI tables, with no engine: what a step
// needs and nothing more. Sequences own whole blocks of the KV pool; every row of a step is a logit row. Works with the
// plugin files and with components that a test defines itself. Failures are thrown as std::runtime_error.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "mortise/attention.h"

namespace mortise::test {

struct Parts {
  const mortise_component* device;
  const mortise_component* attention;
  const mortise_component* model;
};
// cpu, paged and a model plugin from the build directory.
Parts built_in_parts(const std::string& model = "llama");

struct StackOptions {
  std::string device = "{}";  // JSON; the defaults of the schema are added
  std::string attention = "{}";
  std::string dtype = "auto";
  std::string model = "{}";  // JSON: further options of the model
  int32_t block_size = 16;
  int32_t num_blocks = 128;
  int32_t max_batched_tokens = 512;
};

using Row = std::vector<float>;  // the logits of one position

class Stack {
 public:
  Stack(const Parts& parts, const std::filesystem::path& checkpoint, const StackOptions& options);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  const mortise_model_dims& dims() const { return dims_; }
  std::string isa() const;  // what the device says it runs on

  // Tokens that follow those which sequence `id` has already been fed; a new id starts a sequence.
  struct Feed {
    uint64_t id;
    std::vector<int32_t> tokens;
  };
  // One step over all feeds together. result[f][t]: the logits after token t of feed f.
  std::vector<std::vector<Row>> step(const std::vector<Feed>& feeds) { return step_sliced(feeds, dims_.vocab_size); }
  // The same, the head called for `slice` columns of the vocabulary at a time. REQUIRES: slice is a multiple of 64.
  std::vector<std::vector<Row>> step_sliced(const std::vector<Feed>& feeds, int32_t slice);

 private:
  // One part's instance: destroyed, and deactivated before if it was active, at the end of its life.
  class Instance {
   public:
    Instance(const mortise_component* component, const mortise_create_args& args);
    ~Instance();
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;
    void activate(const mortise_activate_args& args);
    template <typename T>
    T* as() const {
      return static_cast<T*>(instance_);
    }

   private:
    const mortise_component* component_;
    void* instance_ = nullptr;
    bool active_ = false;
  };
  struct Sequence {
    int32_t num_tokens = 0;
    std::vector<int32_t> blocks;
  };
  struct Batch;

  std::unique_ptr<Instance> create(const mortise_component* component, const std::string& options) const;
  void load_model();
  void bind_attention();
  void* allocate(uint64_t bytes);
  void add_feed(const Feed& feed, Batch& batch);
  std::vector<Row> logits(const mortise_step& step, const mortise_tensor& hidden, int32_t num_rows, int32_t slice);

  mortise_device* device() const { return device_->as<mortise_device>(); }
  mortise_attention* attention() const { return attention_->as<mortise_attention>(); }
  mortise_model* model() const { return model_->as<mortise_model>(); }

  const StackOptions options_;
  const Checkpoint checkpoint_;
  const mortise_device_table* const device_table_;
  const mortise_attention_table* const attention_table_;
  const mortise_model_table* const model_table_;
  std::unique_ptr<Instance> device_;  // destroyed last
  std::vector<std::shared_ptr<void>> memory_;
  mortise_model_dims dims_{};
  std::unique_ptr<Instance> model_;
  std::unique_ptr<Instance> attention_;
  float* logits_ = nullptr;
  std::map<uint64_t, Sequence> sequences_;
  int32_t next_block_ = 0;
  uint64_t next_step_ = 1;
};

}  // namespace mortise::test
