// runtime/conformance/own_attention.hpp: an attention that a case starts with a shape of its own.
#pragma once

#include <memory>
#include <optional>

#include "conformance/attention_scene.hpp"
#include "conformance/device_watch.hpp"
#include "conformance/subject.hpp"

namespace mortise::conformance {

// An attention instance with KV memory of its own, ready for steps. Invariant: the instance is bound to kv_ as long as
// both live. Used by one thread.
class OwnAttention {
 public:
  static constexpr std::int32_t kNumBlocks = 256;

  // Throws NotApplicable if the attention refuses the shape, and CaseFailed if it then does not start. `watch` sees its
  // calls of the device and outlives it.
  OwnAttention(Subject& subject, AttentionShape shape, DeviceWatch* watch = nullptr);
  ~OwnAttention();
  OwnAttention(const OwnAttention&) = delete;
  OwnAttention& operator=(const OwnAttention&) = delete;

  AttentionScene& scene() { return *scene_; }
  Part& part() { return *part_; }
  const mortise_kv_layout& layout() const { return layout_; }
  // Throws CaseFailed if something outside the KV memory was overwritten.
  void expect_guards() const { kv_->expect_guards("the KV memory"); }
  // Returns another instance that is bound to the same KV memory. Destroy it before this one.
  std::unique_ptr<Part> another_on_same_memory(Subject& subject) const;

 private:
  std::unique_ptr<Part> bound_part(Subject& subject, const mortise_device_table* table) const;

  const AttentionShape shape_;
  const mortise_model_dims dims_;
  mortise_kv_layout layout_{};
  std::unique_ptr<DeviceBuffer> kv_;
  std::unique_ptr<Part> part_;
  std::optional<AttentionScene> scene_;
};

// Asks a fresh instance for the layout; if it refuses the shape, the returned Answer says why.
Answer ask_layout(const Part& part, const mortise_model_dims& dims, std::int32_t block_size, mortise_kv_layout& layout);

}  // namespace mortise::conformance
