#include "attention/span_cuda/attention.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace mortise::span_cuda {
namespace {

constexpr std::size_t kStagings = 4;  // the most steps whose work lists are in upload at the same time
// The most memory for partials. A decode of one sequence of 128 K tokens with 64 query heads needs 36 MiB. Tiles whose
// partials do not fit are not cut (plan.cpp).
constexpr uint64_t kMaxPartialBytes = uint64_t{64} << 20;

constexpr const char* kLower =
    "the attention's lists of work and partial results grow with the scheduler's max_batched_tokens and max_num_seqs; "
    "lower these, or lower kv_cache.memory to leave more memory free";

uint64_t partial_row_bytes(int32_t head_dim) {
  return static_cast<uint64_t>(head_dim) * sizeof(float) + sizeof(float2);
}

cuda::SpanCache cache_of(int32_t kv_dtype) {
  return kv_dtype == MORTISE_I8        ? cuda::SpanCache::kInt8
         : kv_dtype == MORTISE_F8_E4M3 ? cuda::SpanCache::kFp8
                                       : cuda::SpanCache::kBf16;
}

// A device that does not describe itself, as in tests, has a GPU of compute capability 9.0.
const cuda::SpanKernels& kernels_of(mortise_device* device, const mortise_device_table* table) {
  auto info = sized<mortise_device_info>();
  if (MORTISE_HAS(table, describe)) table->describe(device, &info);
  return std::string_view(info.isa) == "sm_80" ? cuda::mma_span_kernels() : cuda::hopper_span_kernels();
}

}  // namespace

void check_cuda(cudaError_t error, const char* where) {
  if (error == cudaSuccess) return;
  throw Failure(MORTISE_INTERNAL, where, std::string("CUDA: ") + cudaGetErrorString(error));
}

void SpanAttention::require_supported(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) {
  const auto refuse = [](const std::string& why) { throw Failure(MORTISE_UNIMPLEMENTED, "attention", why); };
  if (dims.head_dim != 0 && !cuda::is_span_head_dim(dims.head_dim)) {
    std::string served;
    for (const int32_t head_dim : cuda::kSpanHeadDims)
      served += (served.empty() ? "" : ", ") + std::to_string(head_dim);
    refuse("head_dim " + std::to_string(dims.head_dim) + " is not supported on cuda; supported are " + served);
  }
  if (dims.dtype == MORTISE_F32) {
    refuse(
        "the model computes in f32; attention on cuda supports bf16: set the model's dtype = \"bf16\", which rounds "
        "the weights of f32 and f16 checkpoints, or use the cpu device");
  }
  if (dims.dtype != 0 && dims.dtype != MORTISE_BF16) {
    refuse("the model computes in dtype code " + std::to_string(dims.dtype) + "; attention on cuda supports bf16");
  }
  if (kv_dtype != 0 && kv_dtype != MORTISE_BF16 && kv_dtype != MORTISE_I8 && kv_dtype != MORTISE_F8_E4M3) {
    refuse("kv_cache.dtype code " + std::to_string(kv_dtype) +
           " is not supported on cuda; use \"auto\", \"bf16\", \"int8\" or \"fp8\"");
  }
  require_paged_shape("attention", dims, block_size);
}

SpanAttention::SpanAttention(const mortise_create_args& args, Sharing sharing)
    : device_(args.device), table_(args.device_table), sharing_(sharing) {
  if (device_ == nullptr || table_ == nullptr || !MORTISE_HAS(table_, host_allocate) ||
      !MORTISE_HAS(table_, vector_weight)) {
    throw Failure(MORTISE_FAILED_PRECONDITION, "attention",
                  "the device offers neither pinned memory nor vector weights; use the cuda device of this release");
  }
}

SpanAttention::~SpanAttention() {
  deactivate();
}

mortise_kv_layout SpanAttention::kv_layout(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) {
  require_supported(dims, kv_dtype, block_size);
  require_layout_arguments(dims, kv_dtype, block_size);
  const cuda::SpanLayout layout =
      cuda::make_span_layout(dims.num_layers, dims.num_kv_heads, dims.head_dim, block_size, cache_of(kv_dtype));
  auto out = sized<mortise_kv_layout>();
  std::snprintf(out.layout_id, sizeof out.layout_id, "paged-cuda-%s/1 s%d b%d l%d h%d d%d",
                kv_dtype == MORTISE_I8        ? "int8"
                : kv_dtype == MORTISE_F8_E4M3 ? "fp8"
                                              : "bf16",
                cuda::kSpan, block_size, dims.num_layers, dims.num_kv_heads, dims.head_dim);
  out.bytes_per_block = layout.block_elements * sizeof(cuda::Bf16Bits);
  return out;
}

void SpanAttention::bind(const mortise_attention_bind_args& args) {
  if (args.dims == nullptr) invalid("bind", "dims and kv must be given");
  const mortise_model_dims dims = known(args.dims);
  kv_.bind(args, kv_layout(dims, args.kv_dtype, args.block_size), 16);
  layout_ = cuda::make_span_layout(dims.num_layers, dims.num_kv_heads, dims.head_dim, args.block_size,
                                   cache_of(args.kv_dtype));
  scale_ = cuda::span_scale(dims.attention_scale);

  // Done in bind, not in activate: the driver loads these kernels now, which takes as long as all of activate, and
  // steps of other parts may run between the two.
  table_->stream_native(device_, nullptr);  // makes the device current for this thread
  kernels_ = &kernels_of(device_, table_);
  check_cuda(kernels_->prepare_decode(dims.head_dim, layout_.cache), "bind");
  plans_.clear();
  for (const int32_t window : kv_.windows()) plans_.emplace_back().window = window;
}

PlanShape SpanAttention::plan_shape() const {
  PlanShape shape{};
  shape.num_heads = dims().num_heads;
  shape.num_kv_heads = dims().num_kv_heads;
  shape.head_dim = dims().head_dim;
  shape.num_workers = num_multiprocessors_ * cuda::span_decode_blocks_per_sm(dims().head_dim);
  shape.partial_rows = partial_rows_;
  if (sharing_ == Sharing::kNone) return shape;
  // A group within a group lists its rows once more, so there is room for two levels. Deeper levels are not shared.
  const int64_t heads = dims().num_heads / dims().num_kv_heads;
  shape.num_shared_blocks = shape.num_workers;
  shape.max_shared_rows = 2 * max_tokens_ * heads;
  shape.max_shared_runs =
      4 * shape.num_workers + (shape.max_shared_rows / cuda::kSharedRows + max_seqs_) * dims().num_kv_heads;
  return shape;
}

SpanAttention::Room SpanAttention::make_room() const {
  std::size_t at = 0;
  const auto take = [&](int64_t count, std::size_t size) {
    const std::size_t begin = (at + 63) / 64 * 64;
    at = begin + static_cast<std::size_t>(count) * size;
    return begin;
  };
  Room room{};
  take(shape_.num_workers + 1, sizeof(int32_t));  // worker_begin
  room.block_begin = take(shape_.num_shared_blocks + 1, sizeof(int32_t));
  room.counts = take(1, sizeof(cuda::SpanMergeCounts));
  room.merges = take(max_merges(shape_, max_tokens_, max_seqs_), sizeof(cuda::SpanMerge));
  room.runs = take(max_runs(shape_, max_tokens_, max_seqs_), sizeof(cuda::SpanRun));
  room.shared_runs = take(shape_.max_shared_runs, sizeof(cuda::SharedRun));
  room.shared_rows = take(shape_.max_shared_rows, sizeof(cuda::SharedRow));
  room.bytes = (at + 255) / 256 * 256;
  return room;
}

void SpanAttention::activate(const mortise_activate_args& args) {
  kv_.require_bound("activate");
  table_->stream_native(device_, nullptr);  // makes the device current for this thread
  int ordinal = 0, multiprocessors = 0;
  check_cuda(cudaGetDevice(&ordinal), "activate");
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal), "activate");
  check_cuda(kernels_->prepare_prefill(dims().head_dim, layout_.cache), "activate");
  num_multiprocessors_ = multiprocessors;
  max_tokens_ = std::max(args.max_batched_tokens, 1);
  max_seqs_ = std::max(args.max_num_seqs, 1);
  // Enough for the largest batch of decodes, each with the longest context and cut at every span.
  const uint64_t spans = static_cast<uint64_t>(std::max(args.max_model_len, 1)) / cuda::kSpan + 1;
  const uint64_t rows = spans * static_cast<uint64_t>(dims().num_heads) * static_cast<uint64_t>(max_tokens_);
  const uint64_t row_bytes = partial_row_bytes(dims().head_dim);
  partial_rows_ = static_cast<int64_t>(std::min(rows, kMaxPartialBytes / row_bytes));
  const DeviceRef device{device_, table_};
  partials_ = DeviceMemory(device, static_cast<uint64_t>(partial_rows_) * row_bytes, kLower);
  shape_ = plan_shape();
  room_ = make_room();
  work_ = DeviceMemory(device, room_.bytes * plans_.size(), kLower);
  pinned_ = DeviceMemory::pinned(device, room_.bytes * plans_.size() * kStagings, kLower);
  for (std::size_t i = 0; i < plans_.size(); ++i) plans_[i].offset = i * room_.bytes;
  for (std::size_t i = 0; i < kStagings; ++i) {
    mortise_error error = make_error();
    Staging staging{pinned_.bytes() + i * room_.bytes * plans_.size(), nullptr, false};
    check(table_->event_create(device_, &staging.event, &error), error);
    staging_.push_back(staging);
  }
  kv_.clear_planned();
  active_ = true;
}

void SpanAttention::deactivate() {
  active_ = false;
  for (const Staging& staging : staging_) {
    mortise_error error = make_error();
    if (staging.used) table_->event_synchronize(device_, staging.event, &error);
    table_->event_destroy(device_, staging.event);
  }
  staging_.clear();
  work_.release();
  partials_.release();
  pinned_.release();
}

}  // namespace mortise::span_cuda
