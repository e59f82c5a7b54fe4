// attention.hpp: an instance of attention over a paged KV cache on the CPU: its cache layout, its plans of a step, its
// memory. What paged and cascade have in common, which is all but what their plans make of prefix groups.
//   attention.cpp  life: options, layout, binding, buffers     plan, plan_units, shared_prefix  rows -> units of work
//   append.cpp  q/k norm, rope, writing K and V     run.cpp  attention, copies of blocks     component.cpp  the ABI's
//   tables
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attention/span_cpu/plan.hpp"
#include "kernels/cpu/kernels.hpp"
#include "mortise/attention.h"
#include "mortise/ext/parallel.h"
#include "mortise/plugin.hpp"

namespace mortise::span_cpu {

[[noreturn]] void invalid(const char* where, std::string message);

// What is served; throws Failure with the reason otherwise. Zeros are unknown and no reason.
void require_supported(const char* name, const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size);

// Memory from the host, 64-byte aligned, for T that need no construction.
template <typename T>
class HostBuffer {
 public:
  explicit HostBuffer(const mortise_host* host) : host_(host) {}
  ~HostBuffer() { host_->free(host_, data_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  // Room for n elements; what was there is lost if the memory grows.
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

class SpanAttention {
 public:
  // `name` is the component's, for messages; with `shares_prefixes` plans use the batch's prefix groups.
  SpanAttention(const mortise_host* host, const mortise_create_args& args, const char* name, bool shares_prefixes);

  mortise_kv_layout kv_layout(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) const;
  void bind(const mortise_attention_bind_args& args);
  void activate(const mortise_activate_args& args);
  void deactivate();
  void plan(const mortise_step& step);
  void append(const mortise_step& step, const mortise_append_args& args);
  void run(const mortise_step& step, int32_t layer, const mortise_tensor& q, const mortise_tensor& out);
  // Of the step that was planned last; 0: none was.
  uint64_t kv_bytes_read(int32_t layer) const;
  void copy_blocks(const int32_t* from, const int32_t* to, int32_t num_blocks);

 private:
  // [rows, heads, head_dim] of the model's type, as q, k, v and out come.
  struct Heads {
    std::byte* data;
    std::ptrdiff_t row_stride, head_stride;  // elements
  };
  struct AppendWork {
    Heads q, k, v;
    const void *q_norm, *k_norm;  // [head_dim] of the model's type; null: none
    float norm_eps;
    const mortise_rope* rope;  // null: none
    const int32_t* positions;
    const int64_t* slots;
    void* kv;  // at the layer
  };

  Heads as_heads(const mortise_tensor& tensor, const char* where, const char* name, int32_t num_heads,
                 int64_t num_rows) const;
  void check_batch(const mortise_batch& batch) const;
  void check_sequence(const mortise_batch& batch, int32_t seq) const;
  void check_step(const mortise_step& step, const char* where, int32_t layer) const;
  void plan_append(const mortise_batch& batch);
  const void* norm_weight(const mortise_weight* weight, cpu::Bf16* narrowed) const;
  template <typename T>
  void prepare_row(const AppendWork& work, const Heads& heads, int32_t num_heads, const void* weight,
                   int32_t row) const;
  template <typename T>
  void write_rows(const AppendWork& work, Task rows) const;
  template <typename T>
  void append_rows(const AppendWork& work, Task rows) const;
  cpu::SpanUnit span_unit(const mortise_batch& batch, int32_t layer, const Heads& q, const Heads& out, const Plan& plan,
                          const Unit& unit) const;
  cpu::SpanPartials placed(const Partials& partials) const {
    return {partials_.data() + partials.at, static_cast<std::ptrdiff_t>(partials.stride), partials.count};
  }
  const Plan& plan_of(int32_t layer) const { return plans_[plan_index_[static_cast<std::size_t>(layer)]]; }
  std::byte* layer_memory(int32_t layer) const;
  bool bf16() const { return dims_.dtype == MORTISE_BF16; }
  bool int8() const { return layout_.element_bytes == 1; }
  const cpu::SpanKernels& span_kernels() const;

  template <typename F>
  void parallel(int32_t num_tasks, F&& f) const {
    parallel_->run(
        device_, num_tasks,
        [](void* context, int32_t task, int32_t thread) { (*static_cast<F*>(context))(task, thread); }, &f);
  }

  const char* const name_;
  mortise_device* const device_;
  const mortise_device_table* const device_table_;
  const mortise_parallel_table* const parallel_;
  const cpu::KernelTable& kernels_;
  const int32_t num_threads_;
  const bool shares_prefixes_;

  mortise_model_dims dims_{};  // after bind
  cpu::KvLayout layout_{};
  std::byte* kv_ = nullptr;
  int32_t num_blocks_ = 0;
  float scale_ = 0;
  std::vector<std::size_t> plan_index_;  // [num_layers]

  bool active_ = false;
  std::vector<Plan> plans_;        // one per width of window
  std::vector<Task> append_rows_;  // runs of rows that belong to a sequence, one task each
  uint64_t planned_step_ = 0;
  bool planned_ = false;
  HostBuffer<cpu::SpanScratch> scratch_;  // [num_threads]
  HostBuffer<float> partials_;
};

}  // namespace mortise::span_cpu
