// plugins/attention/span_cuda/attention.hpp: an instance of attention over a paged KV cache on CUDA: its cache layout,
// its plans of a step, its memory on the device. With prefix groups the same class is cascade: whole spans that
// sequences share are read once for all of them.
//   attention.cpp  life: layout, binding, buffers     plan.cpp, share.cpp  rows -> work
//   step.cpp  plan, append, run, copies
#pragma once

#include <string>
#include <vector>

#include "attention/span_cuda/plan.hpp"
#include "kernels/cuda/span_kernels.hpp"
#include "mortise/attention.hpp"
#include "mortise/device.hpp"

namespace mortise::span_cuda {

void check_cuda(cudaError_t error, const char* where);

enum class Sharing { kNone, kPrefixGroups };

// Attention over a paged cache on a GPU. bind() comes before activate(), and plan() before each step's append() and
// run(), which queue kernels on the step's stream and return. The host calls one function at a time. Invariant: a
// staging buffer is not written while a copy may read it. Used only by the thread that runs steps.
class SpanAttention {
 public:
  static constexpr const char* kDevice = "cuda";
  static void require_supported(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size);

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
  // Where the lists of a plan are, as offsets in bytes. worker_begin, block_begin and the numbers of merges come first;
  // the runs of the prefill kernel directly follow those of the decode kernel.
  struct Room {
    std::size_t block_begin, counts, merges, runs, shared_runs, shared_rows, bytes;
  };
  struct ByteRange {
    std::size_t begin, end;  // bytes
  };
  // The plan for layers of one window, and its place on the device.
  struct WindowPlan {
    int32_t window;
    Plan plan;
    std::size_t offset;  // in work_
  };
  struct Staging {  // pinned memory that a copy may still read
    std::byte* memory;
    mortise_event* event;
    bool used;
  };

  AttentionHeads heads(const mortise_tensor& tensor, const char* where, const char* name, int32_t num_heads,
                       int64_t num_rows) const;
  void upload(const mortise_step& step);
  std::vector<ByteRange> write_plan(const Plan& plan, std::byte* to) const;
  cuda::SpanWork span_work(const Plan& plan, const std::byte* work, const mortise_batch& batch) const;
  const cuda::Bf16Bits* norm_weight(const mortise_weight* weight) const;
  cudaStream_t stream(const mortise_step& step) const;
  bool has_whole_tiles(const mortise_batch& batch) const;
  int32_t decode_blocks(const mortise_batch& batch) const;
  PlanShape plan_shape() const;
  Room make_room() const;

  const mortise_model_dims& dims() const { return kv_.dims(); }
  cuda::Bf16Bits* layer_memory(int32_t layer) const;

  mortise_device* const device_;
  const mortise_device_table* const table_;
  const Sharing sharing_;

  PagedKv kv_;
  const cuda::SpanKernels* kernels_ = nullptr;  // after bind
  cuda::SpanLayout layout_{};
  float scale_ = 0;
  std::vector<WindowPlan> plans_;  // one for each of kv_.windows()

  bool active_ = false;
  int32_t num_multiprocessors_ = 0;
  int32_t max_tokens_ = 0, max_seqs_ = 0;
  int64_t partial_rows_ = 0;
  PlanShape shape_{};
  Room room_{};
  DeviceMemory work_, partials_, pinned_;
  std::vector<Staging> staging_;
  std::size_t next_staging_ = 0;
};

}  // namespace mortise::span_cuda
