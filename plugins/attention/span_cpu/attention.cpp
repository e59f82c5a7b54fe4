#include "attention/span_cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "attention/span_cpu/shared_prefix.hpp"

namespace mortise::span_cpu {
namespace {

const mortise_parallel_table* parallel_of(const char* name, const mortise_create_args& args) {
  const mortise_device_table* device = args.device_table;
  const void* table = nullptr;
  if (args.device != nullptr && device != nullptr && MORTISE_HAS(device, get_ext)) {
    table = device->get_ext(args.device, MORTISE_EXT_PARALLEL);
  }
  const auto* parallel = static_cast<const mortise_parallel_table*>(table);
  if (parallel == nullptr || !MORTISE_HAS(device, vector_weight)) {
    throw Failure(MORTISE_FAILED_PRECONDITION, name,
                  std::string("the device does not offer ") + MORTISE_EXT_PARALLEL + "; use the cpu device");
  }
  return parallel;
}

const cpu::KernelTable& kernels_for(const char* name, const std::string& isa) {
  for (cpu::Isa candidate : cpu::available_isas()) {
    if (isa == cpu::isa_name(candidate)) return cpu::kernels(candidate);
  }
  throw Failure(MORTISE_FAILED_PRECONDITION, name,
                "the device computes with instruction set '" + isa + "', for which there are no kernels here");
}

}  // namespace

void invalid(const char* where, std::string message) {
  throw Failure(MORTISE_INVALID_ARGUMENT, where, std::move(message));
}

void require_supported(const char* name, const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) {
  const auto refuse = [=](const std::string& why) { throw Failure(MORTISE_UNIMPLEMENTED, name, why); };
  if (dims.head_dim != 0 && (dims.head_dim % 8 != 0 || dims.head_dim < 8 || dims.head_dim > cpu::kMaxHeadDim)) {
    refuse("head_dim " + std::to_string(dims.head_dim) + " is not a multiple of 8 from 8 to " +
           std::to_string(cpu::kMaxHeadDim));
  }
  if (dims.num_heads < 0 || dims.num_kv_heads < 0 ||
      (dims.num_kv_heads != 0 && dims.num_heads % dims.num_kv_heads != 0)) {
    refuse(std::to_string(dims.num_heads) + " query heads cannot share " + std::to_string(dims.num_kv_heads) +
           " kv heads evenly");
  }
  if (dims.dtype != 0 && dims.dtype != MORTISE_BF16 && dims.dtype != MORTISE_F32) {
    refuse("the model computes in dtype code " + std::to_string(dims.dtype) + "; bf16 and f32 are served");
  }
  if (kv_dtype != 0 && kv_dtype != MORTISE_BF16 && kv_dtype != MORTISE_F32 && kv_dtype != MORTISE_I8) {
    refuse("kv_cache.dtype code " + std::to_string(kv_dtype) + " is not served; use \"auto\" or \"int8\"");
  }
  if (kv_dtype != 0 && kv_dtype != MORTISE_I8 && dims.dtype != 0 && kv_dtype != dims.dtype) {
    refuse("kv_cache.dtype differs from the type that the model computes in; use \"auto\", or \"int8\"");
  }
  if (block_size != 0 && block_size != 16 && block_size != 32 && block_size != 64 && block_size != 128) {
    refuse("block_size " + std::to_string(block_size) + " is none of 16, 32, 64, 128");
  }
}

SpanAttention::SpanAttention(const mortise_host* host, const mortise_create_args& args, const char* name,
                             bool shares_prefixes)
    : name_(name),
      device_(args.device),
      device_table_(args.device_table),
      parallel_(parallel_of(name, args)),
      kernels_(kernels_for(name, parallel_->isa(args.device))),
      num_threads_(parallel_->num_threads(args.device)),
      shares_prefixes_(shares_prefixes),
      scratch_(host),
      partials_(host) {}

mortise_kv_layout SpanAttention::kv_layout(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) const {
  require_supported(name_, dims, kv_dtype, block_size);
  if (dims.head_dim < 1 || dims.num_kv_heads < 1 || dims.num_layers < 1 || block_size < 1 || kv_dtype == 0) {
    invalid("kv_layout", "the model's dimensions, kv_dtype and block_size must all be given");
  }
  const cpu::KvLayout layout =
      cpu::make_kv_layout(dtype_bytes(kv_dtype), dims.num_layers, dims.num_kv_heads, dims.head_dim, block_size);
  auto out = sized<mortise_kv_layout>();
  std::snprintf(out.layout_id, sizeof out.layout_id, "paged-cpu-%s/1 b%d l%d h%d d%d",
                kv_dtype == MORTISE_BF16  ? "bf16"
                : kv_dtype == MORTISE_F32 ? "f32"
                                          : "int8",
                block_size, dims.num_layers, dims.num_kv_heads, dims.head_dim);
  out.bytes_per_block = layout.block_elements * static_cast<std::size_t>(layout.element_bytes);
  return out;
}

void SpanAttention::bind(const mortise_attention_bind_args& args) {
  if (args.dims == nullptr || args.kv == nullptr) invalid("bind", "dims and kv must be given");
  const mortise_model_dims dims = known(args.dims);
  const mortise_kv_layout layout = kv_layout(dims, args.kv_dtype, args.block_size);
  if (dims.dtype == 0) invalid("bind", "the model's dtype must be given");
  if (dims.num_heads < 1) invalid("bind", "the model has no query heads");
  if (!(dims.attention_scale > 0) || !std::isfinite(dims.attention_scale)) {
    invalid("bind", "attention_scale " + std::to_string(dims.attention_scale) + " is not a positive number");
  }
  if (args.num_blocks < 1 || args.kv_bytes / layout.bytes_per_block < static_cast<uint64_t>(args.num_blocks)) {
    invalid("bind", std::to_string(args.kv_bytes) + " bytes do not hold " + std::to_string(args.num_blocks) +
                        " blocks of " + std::to_string(layout.bytes_per_block));
  }
  if (reinterpret_cast<std::uintptr_t>(args.kv) % 64 != 0) invalid("bind", "kv is not aligned to 64 bytes");
  dims_ = dims;
  layout_ = cpu::make_kv_layout(dtype_bytes(args.kv_dtype), dims.num_layers, dims.num_kv_heads, dims.head_dim,
                                args.block_size);
  kv_ = static_cast<std::byte*>(args.kv);
  num_blocks_ = args.num_blocks;
  scale_ = cpu::span_scale(dims.attention_scale);

  plans_.clear();
  plan_index_.clear();
  for (int32_t layer = 0; layer < dims.num_layers; ++layer) {
    const int32_t window = dims.sliding_windows == nullptr ? 0 : std::max(0, dims.sliding_windows[layer]);
    const auto same =
        std::find_if(plans_.begin(), plans_.end(), [=](const Plan& plan) { return plan.window == window; });
    plan_index_.push_back(static_cast<std::size_t>(same - plans_.begin()));
    if (same == plans_.end()) plans_.emplace_back().window = window;
  }
}

void SpanAttention::activate(const mortise_activate_args& args) {
  if (kv_ == nullptr) throw Failure(MORTISE_FAILED_PRECONDITION, "activate", "bind comes first");
  scratch_.reserve(static_cast<std::size_t>(num_threads_));
  const auto rows = static_cast<std::size_t>(std::max(args.max_batched_tokens, 0));
  append_rows_.reserve(rows);
  for (Plan& plan : plans_) {
    plan.blocks.reserve(rows);
    plan.rounds[0].units.reserve(rows * static_cast<std::size_t>(dims_.num_kv_heads));
  }
  planned_ = false;
  active_ = true;
}

void SpanAttention::deactivate() {
  active_ = false;
  scratch_.release();
  partials_.release();
}

std::byte* SpanAttention::layer_memory(int32_t layer) const {
  return kv_ +
         static_cast<std::size_t>(layer) * layout_.layer_elements * static_cast<std::size_t>(layout_.element_bytes);
}

SpanAttention::Heads SpanAttention::as_heads(const mortise_tensor& tensor, const char* where, const char* name,
                                             int32_t num_heads, int64_t num_rows) const {
  const auto text = [&](const std::string& why) { return std::string(name) + " " + why; };
  if (tensor.dtype != dims_.dtype) {
    invalid(where,
            text("has dtype code " + std::to_string(tensor.dtype) + ", the model " + std::to_string(dims_.dtype)));
  }
  const bool shape = tensor.ndim == 3 && tensor.shape[0] == num_rows && tensor.shape[1] == num_heads &&
                     tensor.shape[2] == dims_.head_dim;
  if (!shape) {
    invalid(where, text("must be [" + std::to_string(num_rows) + ", " + std::to_string(num_heads) + ", " +
                        std::to_string(dims_.head_dim) + "], is [" + std::to_string(tensor.shape[0]) + ", " +
                        std::to_string(tensor.shape[1]) + ", " + std::to_string(tensor.shape[2]) + "] of " +
                        std::to_string(tensor.ndim) + " dimensions"));
  }
  if (tensor.stride[2] != 1 || tensor.stride[0] < 0 || tensor.stride[1] < 0) {
    invalid(where, text("must have neighbouring elements within a head"));
  }
  const int64_t elements =
      num_rows == 0 ? 0 : (num_rows - 1) * tensor.stride[0] + (num_heads - 1) * tensor.stride[1] + dims_.head_dim;
  if (elements > 0 &&
      (tensor.data == nullptr || static_cast<uint64_t>(elements * dtype_bytes(tensor.dtype)) > tensor.bytes)) {
    invalid(where, text("does not fit its " + std::to_string(tensor.bytes) + " bytes"));
  }
  return {static_cast<std::byte*>(tensor.data), tensor.stride[0], tensor.stride[1]};
}

void SpanAttention::check_sequence(const mortise_batch& batch, int32_t seq) const {
  const auto wrong = [&](const std::string& why) { invalid("plan", "sequence " + std::to_string(seq) + ": " + why); };
  const int32_t begin = batch.cu_seqlens_q[seq], end = batch.cu_seqlens_q[seq + 1], seq_len = batch.seq_lens[seq];
  if (begin > end || begin < 0 || end > batch.num_tokens) wrong("cu_seqlens_q does not ascend to num_tokens");
  if (seq_len == 0) return;
  if (seq_len < end - begin) wrong("seq_len is less than its rows");
  const int32_t needed = (seq_len - 1) / layout_.block_size + 1;
  if (needed > batch.max_blocks) wrong("seq_len is beyond its row of block_table");
  const int32_t* blocks = batch.block_table + static_cast<std::ptrdiff_t>(seq) * batch.max_blocks;
  for (int32_t i = 0; i < needed; ++i) {
    if (blocks[i] < 0 || blocks[i] >= num_blocks_) wrong("block " + std::to_string(blocks[i]) + " is not in the pool");
  }
  for (int32_t row = begin; row < end; ++row) {
    const int32_t position = seq_len - (end - row);
    if (batch.positions[row] != position) wrong("positions do not end at seq_len - 1");
    const int64_t slot = static_cast<int64_t>(blocks[position / layout_.block_size]) * layout_.block_size +
                         position % layout_.block_size;
    if (batch.slot_mapping[row] != slot) wrong("slot_mapping and block_table differ");
  }
}

void SpanAttention::check_batch(const mortise_batch& batch) const {
  if (batch.block_size != layout_.block_size) {
    invalid("plan", "the batch has block_size " + std::to_string(batch.block_size) + ", the cache " +
                        std::to_string(layout_.block_size));
  }
  if (batch.cu_seqlens_q[0] != 0 || batch.cu_seqlens_q[batch.num_seqs] != batch.num_tokens) {
    invalid("plan", "cu_seqlens_q does not go from 0 to num_tokens");
  }
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) check_sequence(batch, seq);
  if (!shares_prefixes_) return;
  const std::string fault = fault_of_groups(batch);
  if (!fault.empty()) invalid("plan", "prefix groups: " + fault);
}

void SpanAttention::check_step(const mortise_step& step, const char* where, int32_t layer) const {
  if (!planned_ || step.batch->step_id != planned_step_) {
    throw Failure(MORTISE_FAILED_PRECONDITION, where, "plan was not called for this step");
  }
  if (layer < 0 || layer >= dims_.num_layers) invalid(where, "there is no layer " + std::to_string(layer));
}

void SpanAttention::plan(const mortise_step& step) {
  if (!active_) throw Failure(MORTISE_FAILED_PRECONDITION, "plan", "the instance is not active");
  const mortise_batch batch = known(step.batch);
  check_batch(batch);
  planned_ = false;
  const PlanShape shape = {dims_.num_kv_heads, dims_.num_heads / dims_.num_kv_heads, layout_.value_width, num_threads_,
                           shares_prefixes_};
  int64_t floats = 0;
  for (Plan& plan : plans_) {
    make_plan(batch, shape, plan);
    floats = std::max(floats, plan.partial_floats);
  }
  partials_.reserve(static_cast<std::size_t>(floats));
  for (Plan& plan : plans_) {
    plan.placed_priors.clear();
    for (const Partials& prior : plan.priors) plan.placed_priors.push_back(placed(prior));
  }
  plan_append(batch);
  planned_step_ = step.batch->step_id;
  planned_ = true;
}

}  // namespace mortise::span_cpu
