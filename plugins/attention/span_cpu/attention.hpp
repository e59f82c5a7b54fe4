// plugins/attention/span_cpu/attention.hpp: an instance of attention over a paged KV cache on the CPU: its cache
// layout, its plans for a step, its memory. It is the common part of paged and cascade, which differ only in how plans
// use prefix groups.
//   attention.cpp  life: options, layout, binding, buffers     plan, plan_units, shared_prefix  rows -> units of work
//   append.cpp  q/k norm, rope, writing K and V     run.cpp  attention, copies of blocks
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attention/span_cpu/plan.hpp"
#include "kernels/cpu/kernels.hpp"
#include "mortise/attention.hpp"
#include "mortise/ext/parallel.h"

namespace mortise::span_cpu {

enum class Sharing { kNone, kPrefixGroups };

// Owns 64-byte aligned memory of the host for T that need no construction. Invariant: data() has room for size()
// elements. Used by one thread at a time.
template <typename T>
class HostBuffer {
 public:
  explicit HostBuffer(const mortise_host* host) : host_(host) {}
  ~HostBuffer() { host_->free(host_, data_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  // Makes room for n elements. The contents are lost if the memory grows.
  void reserve(std::size_t n) {
    if (n <= size_) return;
    void* const grown = host_->allocate(host_, n * sizeof(T), 64);
    if (grown == nullptr) throw std::bad_alloc();
    host_->free(host_, data_);
    data_ = grown;
    size_ = n;
  }
  void release() {
    host_->free(host_, data_);
    data_ = nullptr;
    size_ = 0;
  }
  T* data() const { return static_cast<T*>(data_); }
  std::size_t size() const { return size_; }

 private:
  const mortise_host* host_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Attention over a paged cache on the CPU. bind() comes before activate(), and plan() before each step's append() and
// run(). The host calls one function at a time; each call spreads its work over the device's threads. Invariant: plans_
// belong to the step that was planned last.
class SpanAttention {
 public:
  static constexpr const char* kDevice = "cpu";
  static void require_supported(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size);
  static const void* get_ext(const char* id);

  SpanAttention(const mortise_host* host, const mortise_create_args& args, Sharing sharing);

  mortise_kv_layout kv_layout(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) const;
  void bind(const mortise_attention_bind_args& args);
  void activate(const mortise_activate_args& args);
  void deactivate();
  void plan(const mortise_step& step);
  void append(const mortise_step& step, const mortise_append_args& args);
  void run(const mortise_step& step, int32_t layer, const mortise_tensor& q, const mortise_tensor& out);
  // Returns the bytes that the step planned last reads; 0 before the first plan.
  uint64_t kv_bytes_read(int32_t layer) const;
  void copy_blocks(mortise_stream* stream, const int32_t* from, const int32_t* to, int32_t num_blocks);

 private:
  struct AppendWork {
    AttentionHeads q, k, v;
    const void *q_norm, *k_norm;  // [head_dim] of the model's type; null: none
    float norm_eps;
    mortise_rope rope;  // rotary_dim 0: none
    const int32_t* positions;
    const int64_t* slots;
    void* kv;  // at the layer
  };

  void plan_append(const mortise_batch& batch);
  const void* norm_weight(const mortise_weight* weight, cpu::Bf16* narrowed) const;
  template <typename T>
  void prepare_row(const AppendWork& work, const AttentionHeads& heads, int32_t num_heads, const void* weight,
                   int32_t row) const;
  template <typename T>
  void write_rows(const AppendWork& work, Task rows) const;
  template <typename T>
  void append_rows(const AppendWork& work, Task rows) const;
  cpu::SpanUnit span_unit(const mortise_batch& batch, int32_t layer, const AttentionHeads& q, const AttentionHeads& out,
                          const Plan& plan, const Unit& unit) const;
  cpu::SpanPartials placed(const Partials& partials) const {
    return {partials_.data() + partials.at, static_cast<std::ptrdiff_t>(partials.stride), partials.count};
  }
  const Plan& plan_of(int32_t layer) const { return plans_[kv_.window_index(layer)]; }
  std::byte* layer_memory(int32_t layer) const;
  const mortise_model_dims& dims() const { return kv_.dims(); }
  bool bf16() const { return dims().dtype == MORTISE_BF16; }
  const cpu::SpanKernels& span_kernels() const;

  template <typename F>
  void parallel(int32_t num_tasks, F&& f) const {
    parallel_->run(
        device_, num_tasks,
        [](void* context, int32_t task, int32_t thread) { (*static_cast<F*>(context))(task, thread); }, &f);
  }

  mortise_device* const device_;
  const mortise_device_table* const device_table_;
  const mortise_parallel_table* const parallel_;
  const cpu::KernelTable& kernels_;
  const cpu::Bf16Kernels& bf16_kernels_;
  const int32_t num_threads_;
  const Sharing sharing_;

  PagedKv kv_;
  cpu::KvLayout layout_{};  // after bind
  int32_t kv_dtype_ = 0;
  float scale_ = 0;

  bool active_ = false;
  std::vector<Plan> plans_;               // one for each of kv_.windows()
  std::vector<Task> append_rows_;         // runs of rows that belong to a sequence, one task each
  HostBuffer<cpu::SpanScratch> scratch_;  // [num_threads]
  HostBuffer<float> partials_;
};

}  // namespace mortise::span_cpu
