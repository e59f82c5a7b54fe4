// attention.hpp: an instance of attention over a paged KV cache on CUDA: its cache layout, its plans of a step, its
// memory on the device. The same class is cascade: then whole spans that sequences share are read once for all of them.
//   attention.cpp  life: layout, binding, buffers     plan.cpp, share.cpp  rows -> work     step.cpp  plan, append,
//   run, copies
#pragma once

#include <string>
#include <vector>

#include "attention/span_cuda/plan.hpp"
#include "kernels/cuda/span.hpp"
#include "mortise/attention.h"
#include "mortise/plugin.hpp"

namespace mortise::span_cuda {

[[noreturn]] void invalid(const char* where, std::string message);
void check_cuda(cudaError_t error, const char* where);

// What the plugins can serve; throws Failure with the reason if they cannot. Zeros are unknown and no reason.
void require_supported(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size);

enum class Sharing { kNone, kPrefixGroups };

// Memory of the device, or pinned memory of the host, that is given back at the end.
class DeviceBuffer {
 public:
  enum class Kind { kDevice, kPinned };
  DeviceBuffer(mortise_device* device, const mortise_device_table* table, Kind kind)
      : device_(device), table_(table), kind_(kind) {}
  ~DeviceBuffer() { release(); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void allocate(uint64_t bytes);  // What was there is lost.
  void release();
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  mortise_device* const device_;
  const mortise_device_table* const table_;
  const Kind kind_;
  void* memory_ = nullptr;
};

class SpanAttention {
 public:
  SpanAttention(const mortise_create_args& args, Sharing sharing);
  ~SpanAttention();

  static mortise_kv_layout kv_layout(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size);
  void bind(const mortise_attention_bind_args& args);
  void activate(const mortise_activate_args& args);
  void deactivate();
  void plan(const mortise_step& step);
  void append(const mortise_step& step, const mortise_append_args& args);
  void run(const mortise_step& step, int32_t layer, const mortise_tensor& q, const mortise_tensor& out);
  void copy_blocks(mortise_stream* stream, const int32_t* from, const int32_t* to, int32_t num_blocks);

 private:
  // [rows, heads, head_dim] in bf16, as q, k, v and out come.
  struct Heads {
    cuda::Bf16Bits* data;
    int64_t row_stride, head_stride;  // elements
  };
  // Where the lists of a plan lie, in bytes: worker_begin, block_begin and how many merges there are first; the runs of
  // the prefill kernel right behind those of the decode kernel.
  struct Room {
    std::size_t block_begin, counts, merges, runs, shared_runs, shared_rows, bytes;
  };
  struct Part {
    std::size_t begin, end;  // bytes
  };
  // The plan for layers of one window, and where it lies on the device.
  struct WindowPlan {
    int32_t window;
    Plan plan;
    std::size_t offset;  // in work_
  };
  struct Staging {  // pinned memory that a copy may still be reading
    std::byte* memory;
    mortise_event* event;
    bool used;
  };

  Heads as_heads(const mortise_tensor& tensor, const char* where, const char* name, int32_t num_heads,
                 int64_t num_rows) const;
  void check_batch(const mortise_batch& batch) const;
  void check_sequence(const mortise_batch& batch, int32_t seq) const;
  void check_step(const mortise_step& step, const char* where, int32_t layer) const;
  void upload(const mortise_step& step);
  std::vector<Part> write_plan(const Plan& plan, std::byte* to) const;
  cuda::SpanWork span_work(const Plan& plan, const std::byte* work, const mortise_batch& batch) const;
  const cuda::Bf16Bits* norm_weight(const mortise_weight* weight) const;
  cudaStream_t stream(const mortise_step& step) const;
  void check_groups(const mortise_batch& batch) const;
  PlanShape plan_shape() const;
  Room make_room() const;

  mortise_device* const device_;
  const mortise_device_table* const table_;
  const Sharing sharing_;

  mortise_model_dims dims_{};  // after bind
  cuda::SpanLayout layout_{};
  std::byte* kv_ = nullptr;
  int32_t num_blocks_ = 0;
  float scale_ = 0;
  std::vector<WindowPlan> plans_;        // one per width of window
  std::vector<std::size_t> plan_index_;  // [num_layers]

  bool active_ = false;
  int32_t num_multiprocessors_ = 0;
  int32_t max_tokens_ = 0, max_seqs_ = 0;
  int64_t partial_rows_ = 0;
  PlanShape shape_{};
  Room room_{};
  DeviceBuffer work_, partials_, pinned_;
  std::vector<Staging> staging_;
  std::size_t next_staging_ = 0;
  uint64_t planned_step_ = 0;
  bool planned_ = false;
};

}  // namespace mortise::span_cuda
