#include "attention/span_cpu/attention.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace mortise::span_cpu {
namespace {

const mortise_parallel_table* parallel_of(const mortise_create_args& args) {
  const mortise_device_table* device = args.device_table;
  const void* table = nullptr;
  if (args.device != nullptr && device != nullptr && MORTISE_HAS(device, get_ext)) {
    table = device->get_ext(args.device, MORTISE_EXT_PARALLEL);
  }
  const auto* parallel = static_cast<const mortise_parallel_table*>(table);
  if (parallel == nullptr || !MORTISE_HAS(device, vector_weight)) {
    throw Failure(MORTISE_FAILED_PRECONDITION, "attention",
                  std::string("the device does not offer ") + MORTISE_EXT_PARALLEL + "; use the cpu device");
  }
  return parallel;
}

cpu::Isa isa_named(const std::string& isa) {
  for (cpu::Isa candidate : cpu::available_isas()) {
    if (isa == cpu::isa_name(candidate)) return candidate;
  }
  throw Failure(MORTISE_FAILED_PRECONDITION, "attention",
                "the device computes with instruction set '" + isa + "', which this plugin has no kernels for");
}

// Sums of bf16 models are added in the order of the device's products.
cpu::SumOrder order_of(const mortise_create_args& args) {
  const char* const id = args.device_table->numerics_id(args.device, MORTISE_BF16);
  return id != nullptr && std::string_view(id) == "cpu-bf16-pairs/1" ? cpu::SumOrder::kPairs : cpu::SumOrder::kTiles;
}

// Returns whether the cache has a byte for each number, and scales.
bool in_bytes(int32_t kv_dtype) {
  return kv_dtype == MORTISE_I8 || kv_dtype == MORTISE_F8_E4M3;
}

}  // namespace

void SpanAttention::require_supported(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) {
  const auto refuse = [](const std::string& why) { throw Failure(MORTISE_UNIMPLEMENTED, "attention", why); };
  if (dims.head_dim != 0 && (dims.head_dim % 8 != 0 || dims.head_dim < 8 || dims.head_dim > cpu::kMaxHeadDim)) {
    refuse("head_dim " + std::to_string(dims.head_dim) + " is not a multiple of 8 from 8 to " +
           std::to_string(cpu::kMaxHeadDim));
  }
  if (dims.dtype != 0 && dims.dtype != MORTISE_BF16 && dims.dtype != MORTISE_F32) {
    refuse("the model computes in dtype code " + std::to_string(dims.dtype) + "; expected bf16 or f32");
  }
  if (kv_dtype != 0 && kv_dtype != MORTISE_BF16 && kv_dtype != MORTISE_F32 && !in_bytes(kv_dtype)) {
    refuse("kv_cache.dtype code " + std::to_string(kv_dtype) + " is not supported; use \"auto\", \"int8\" or \"fp8\"");
  }
  if (kv_dtype != 0 && !in_bytes(kv_dtype) && dims.dtype != 0 && kv_dtype != dims.dtype) {
    refuse("kv_cache.dtype differs from the type that the model computes in; use \"auto\", \"int8\" or \"fp8\"");
  }
  require_paged_shape("attention", dims, block_size);
}

SpanAttention::SpanAttention(const mortise_host* host, const mortise_create_args& args, Sharing sharing)
    : device_(args.device),
      device_table_(args.device_table),
      parallel_(parallel_of(args)),
      kernels_(cpu::kernels(isa_named(parallel_->isa(args.device)))),
      bf16_kernels_(cpu::bf16_kernels(isa_named(parallel_->isa(args.device)), order_of(args))),
      num_threads_(parallel_->num_threads(args.device)),
      sharing_(sharing),
      scratch_(host),
      partials_(host) {}

mortise_kv_layout SpanAttention::kv_layout(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) const {
  require_supported(dims, kv_dtype, block_size);
  require_layout_arguments(dims, kv_dtype, block_size);
  const cpu::KvLayout layout =
      cpu::make_kv_layout(dtype_bytes(kv_dtype), dims.num_layers, dims.num_kv_heads, dims.head_dim, block_size);
  auto out = sized<mortise_kv_layout>();
  std::snprintf(out.layout_id, sizeof out.layout_id, "paged-cpu-%s/1 b%d l%d h%d d%d",
                kv_dtype == MORTISE_BF16  ? "bf16"
                : kv_dtype == MORTISE_F32 ? "f32"
                : kv_dtype == MORTISE_I8  ? "int8"
                                          : "fp8",
                block_size, dims.num_layers, dims.num_kv_heads, dims.head_dim);
  out.bytes_per_block = layout.block_elements * static_cast<std::size_t>(layout.element_bytes);
  return out;
}

void SpanAttention::bind(const mortise_attention_bind_args& args) {
  if (args.dims == nullptr) invalid("bind", "dims and kv must be given");
  const mortise_model_dims dims = known(args.dims);
  kv_.bind(args, kv_layout(dims, args.kv_dtype, args.block_size), 64);
  layout_ = cpu::make_kv_layout(dtype_bytes(args.kv_dtype), dims.num_layers, dims.num_kv_heads, dims.head_dim,
                                args.block_size);
  kv_dtype_ = args.kv_dtype;
  scale_ = cpu::span_scale(dims.attention_scale);
  plans_.clear();
  for (const int32_t window : kv_.windows()) plans_.emplace_back().window = window;
}

void SpanAttention::activate(const mortise_activate_args& args) {
  kv_.require_bound("activate");
  scratch_.reserve(static_cast<std::size_t>(num_threads_));
  const auto rows = static_cast<std::size_t>(std::max(args.max_batched_tokens, 0));
  append_rows_.reserve(rows);
  for (Plan& plan : plans_) {
    plan.row_blocks.reserve(rows);
    plan.rounds[0].units.reserve(rows * static_cast<std::size_t>(dims().num_kv_heads));
  }
  kv_.clear_planned();
  active_ = true;
}

void SpanAttention::deactivate() {
  active_ = false;
  scratch_.release();
  partials_.release();
}

std::byte* SpanAttention::layer_memory(int32_t layer) const {
  return kv_.data() +
         static_cast<std::size_t>(layer) * layout_.layer_elements * static_cast<std::size_t>(layout_.element_bytes);
}

void SpanAttention::plan(const mortise_step& step) {
  if (!active_) throw Failure(MORTISE_FAILED_PRECONDITION, "plan", "the instance is not active");
  const mortise_batch batch = known(step.batch);
  kv_.clear_planned();
  kv_.check_batch(batch);
  const bool shares_prefixes = sharing_ == Sharing::kPrefixGroups;
  if (shares_prefixes) kv_.check_groups(batch);
  const PlanShape shape = {dims().num_kv_heads, dims().num_heads / dims().num_kv_heads, layout_.value_width,
                           num_threads_, shares_prefixes};
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
  kv_.set_planned(batch);
}

}  // namespace mortise::span_cpu
