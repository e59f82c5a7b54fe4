#include "execution/model_stack.hpp"

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <span>
#include <thread>
#include <utility>

#include "error.hpp"
#include "execution/device_memory.hpp"
#include "execution/populate_pages.hpp"
#include "execution/weight_reader.hpp"

namespace mortise {
namespace {

// Logits of one call of the head: large enough to keep the device busy, small beside the weights. A GPU reads the head
// once for 256 sequences with the largest vocabularies there are.
constexpr std::int64_t kMaxLogitBytes = std::int64_t{32} << 20, kMaxGpuLogitBytes = std::int64_t{256} << 20;

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

mortise_status memory_info(const DevicePart& device, std::uint64_t& free_bytes, std::uint64_t& total_bytes) {
  return device.value<&mortise_device_table::memory_info>("memory_info", mortise_status{MORTISE_INTERNAL}, &free_bytes,
                                                          &total_bytes);
}

}  // namespace

std::int32_t kv_dtype(KvDtype wanted, const mortise_model_dims& dims) {
  switch (wanted) {
    case KvDtype::kBf16:
      return MORTISE_BF16;
    case KvDtype::kF32:
      return MORTISE_F32;
    case KvDtype::kInt8:
      return MORTISE_I8;
    case KvDtype::kAuto:
      break;
  }
  return dims.dtype;
}

struct ModelStack::KvMemory {
  KvMemory(const DevicePart& device, std::uint64_t bytes, bool populate) : device(device) {
    device.call<&mortise_device_table::allocate>("allocate", bytes, &data);
    if (!populate || !shares_host_memory(device)) return;
    populating = std::jthread([this, bytes](const std::stop_token& stop) {
      populate_pages({static_cast<std::byte*>(data), bytes}, stop, [this] { return is_scarce(); });
    });
  }
  ~KvMemory() {
    populating = {};  // ends it
    device.tell<&mortise_device_table::free>("free", data);
  }
  KvMemory(const KvMemory&) = delete;
  KvMemory& operator=(const KvMemory&) = delete;

  // The rest is then taken as it is used: a start must not be what drives others out of memory.
  bool is_scarce() const { return free_device_memory(device) < device_memory(device) / 16; }

  DevicePart device;
  void* data = nullptr;
  std::jthread populating;
};

ModelFiles ModelFiles::open(const std::filesystem::path& folder) {
  return {Checkpoint::open(folder), Tokenizer::load(folder)};
}

ModelStack::ModelStack(std::shared_ptr<const PartInstance> device, ModelFiles files, const StackParts& wanted,
                       mortise_query query)
    : device_(std::move(device)),
      checkpoint_(std::move(files.checkpoint)),
      tokenizer_(std::move(files.tokenizer)),
      block_size_(wanted.block_size),
      populate_kv_(wanted.populate_kv) {
  parts_.device = device_->active_part<mortise_device, mortise_device_table>();
  open_model(wanted.model, query);
  query.dims = &dims_;
  query.kv_dtype = kv_dtype_ = mortise::kv_dtype(wanted.kv_dtype, dims_);
  query.block_size = block_size_;
  open_attention(wanted.attention, query);
  parts_.graphs = graph_table();
  parts_.prefix_groups = (attention_->component().capabilities & MORTISE_CAP_CASCADE) != 0;
  parts_.vocab_size = dims_.vocab_size;
}

ModelStack::~ModelStack() = default;

void ModelStack::open_model(const PartDescription& model, mortise_query& query) {
  const std::string& config = checkpoint_.config().json;
  query.model_config = {config.data(), config.size()};
  const PartChoice& choice = model.select(query);
  CreateContext context;
  context.device = parts_.device.self;
  context.device_table = parts_.device.api;
  context.device_health = parts_.device.health;
  context.model_config = config;
  model_.emplace(*choice.component, choice.options, context);
  parts_.model = model_->active_part<mortise_model, mortise_model_table>();
  dims_.struct_size = sizeof dims_;
  model_->perform("dims",
                  [&](mortise_error* error) { return parts_.model.api->dims(parts_.model.self, &dims_, error); });
  parts_.hidden_size = dims_.hidden_size;
  if (numerics_id_of(parts_.device, dims_.dtype) == nullptr) {
    fail("{}: computes in {}, which {} cannot", parts_.model.name, dtype_name(dims_.dtype), parts_.device.name);
  }
  if (const double weights = gib(weight_bytes()), memory = gib(device_memory(parts_.device)); weights > memory) {
    fail("{}: its weights take {:.1f} GiB in {}, and {} has {:.1f} GiB of memory; take a smaller model or more memory",
         checkpoint_.folder().string(), weights, weight_format(dims_), parts_.device.name, memory);
  }
}

std::uint64_t ModelStack::weight_bytes() const {
  return prepared_bytes(checkpoint_, dims_);
}

std::int32_t ModelStack::max_logit_rows(std::int32_t max_batched_tokens) const {
  const std::int64_t bytes = shares_host_memory(parts_.device) ? kMaxLogitBytes : kMaxGpuLogitBytes;
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(bytes / (std::int64_t{4} * dims_.vocab_size), 1, max_batched_tokens));
}

void ModelStack::open_attention(const PartDescription& attention, mortise_query& query) {
  const PartChoice& choice = attention.select(query);
  CreateContext context;
  context.device = parts_.device.self;
  context.device_table = parts_.device.api;
  context.device_health = parts_.device.health;
  attention_.emplace(*choice.component, choice.options, context);
  parts_.attention = attention_->active_part<mortise_attention, mortise_attention_table>();
  if ((choice.component->capabilities & MORTISE_CAP_EXACT) == 0) {
    fail("{}: is not exact (its rows may depend on their batch), so it cannot be part of a pipeline",
         parts_.attention.name);
  }

  check_windows(*choice.component);

  mortise_kv_layout layout{};
  layout.struct_size = sizeof layout;
  attention_->perform("kv_layout", [&](mortise_error* error) {
    return parts_.attention.api->kv_layout(parts_.attention.self, &dims_, kv_dtype_, block_size_, &layout, error);
  });
  if (layout.bytes_per_block == 0) fail("{}: says that a KV block has 0 bytes", parts_.attention.name);
  kv_bytes_per_block_ = layout.bytes_per_block;
}

// An attention that ignores windows would answer, and answer wrongly.
void ModelStack::check_windows(const Component& attention) const {
  if (dims_.sliding_windows == nullptr || (attention.capabilities & MORTISE_CAP_SLIDING_WINDOW) != 0) return;
  const std::span<const std::int32_t> windows(dims_.sliding_windows, static_cast<std::size_t>(dims_.num_layers));
  const auto count = std::ranges::count_if(windows, [](std::int32_t window) { return window != 0; });
  if (count == 0) return;
  fail(
      "{}: has no sliding windows (MORTISE_CAP_SLIDING_WINDOW), and {} has them in {} of its {} layers; take an "
      "attention that has them, such as paged",
      parts_.attention.name, parts_.model.name, count, dims_.num_layers);
}

void ModelStack::bind_kv(std::int32_t num_blocks) {
  if (parts_.graphs != nullptr) ++num_blocks;
  const std::uint64_t kv_bytes = static_cast<std::uint64_t>(num_blocks) * kv_bytes_per_block_;
  kv_ = std::make_unique<KvMemory>(parts_.device, kv_bytes, populate_kv_);
  mortise_attention_bind_args bind{};
  bind.struct_size = sizeof bind;
  bind.dims = &dims_;
  bind.kv_dtype = kv_dtype_;
  bind.block_size = block_size_;
  bind.num_blocks = num_blocks;
  bind.kv = kv_->data;
  bind.kv_bytes = kv_bytes;
  attention_->perform(
      "bind", [&](mortise_error* error) { return parts_.attention.api->bind(parts_.attention.self, &bind, error); });
}

void ModelStack::activate_model(const mortise_activate_args& sizes) {
  model_->activate(sizes);
}

void ModelStack::activate_attention(const mortise_activate_args& sizes) {
  attention_->activate(sizes);
}

// Asks the device to take the weights from a file that it made of this checkpoint; null: it has no such file, or its
// options want none, or the checkpoint's files cannot be told from others.
const mortise_weight_cache_table* ModelStack::open_weight_cache() {
  const auto* table = static_cast<const mortise_weight_cache_table*>(device_->get_ext(MORTISE_EXT_WEIGHT_CACHE));
  if (table == nullptr || table->enabled(parts_.device.self) == 0) return nullptr;
  const std::optional<std::string> identity = checkpoint_.identity();
  if (!identity) {
    spdlog::warn(
        "{}: {} keeps no packed weights of it at this start: its weights are in no file, or one was changed less "
        "than a tenth of a second before, so that the next change could not be told; a later start keeps them",
        checkpoint_.folder().string(), parts_.device.name);
    return nullptr;
  }
  const std::string folder = checkpoint_.folder().string();
  std::string format = dtype_name(dims_.dtype);
  if (dims_.weight_bits != 0) format += fmt::format("-int{}-{}", dims_.weight_bits, dims_.weight_group_size);
  mortise_weight_cache_args args{};
  args.struct_size = sizeof args;
  args.folder = {folder.data(), folder.size()};
  args.format = {format.data(), format.size()};
  args.identity = {identity->data(), identity->size()};
  parts_.device.perform("weight cache",
                        [&](mortise_error* error) { return table->open(parts_.device.self, &args, error); });
  return table;
}

void ModelStack::load_weights() {
  const mortise_weight_cache_table* const cache = open_weight_cache();
  WeightReader weights(checkpoint_);
  const mortise_weight_reader reader = weights.abi();
  const auto close_cache = [&](std::int32_t complete) {
    if (cache == nullptr) return;
    parts_.device.value_of("weight cache", 0, [&] { return cache->close(parts_.device.self, complete), 0; });
  };
  try {
    model_->perform("load",
                    [&](mortise_error* error) { return parts_.model.api->load(parts_.model.self, &reader, error); });
  } catch (const Error&) {
    close_cache(0);
    throw;
  }
  close_cache(1);
}

// Graphs are of use if everything that runs in a step can be captured.
const mortise_graph_table* ModelStack::graph_table() const {
  for (const PartInstance* part : {&*device_, &*model_, &*attention_}) {
    if ((part->component().capabilities & MORTISE_CAP_CAPTURE) == 0) return nullptr;
  }
  return static_cast<const mortise_graph_table*>(device_->get_ext(MORTISE_EXT_GRAPH));
}

ShardParts parts_of(std::shared_ptr<const ModelStack> stack) {
  ShardParts parts = stack->parts();
  parts.owner = std::move(stack);
  return parts;
}

const char* numerics_id_of(const DevicePart& device, std::int32_t dtype) {
  return device.value<&mortise_device_table::numerics_id>("numerics_id", static_cast<const char*>(nullptr), dtype);
}

std::uint64_t device_memory(const DevicePart& device) {
  std::uint64_t free_bytes = 0, total_bytes = 0;
  const mortise_status status = memory_info(device, free_bytes, total_bytes);
  return status == MORTISE_OK ? total_bytes : UINT64_MAX;  // a device that cannot say refuses by itself
}

std::uint64_t free_device_memory(const DevicePart& device) {
  std::uint64_t free_bytes = 0, total_bytes = 0;
  const mortise_status status = memory_info(device, free_bytes, total_bytes);
  return status == MORTISE_OK ? free_bytes : 0;
}

std::uint64_t vocabulary_hash(const Tokenizer& tokenizer) {
  std::string all;
  for (std::size_t id = 0; id < tokenizer.vocab_size(); ++id) {
    all += tokenizer.token(static_cast<std::int32_t>(id)).value_or("");
    all += '\0';
  }
  return XXH64(all.data(), all.size(), 0);
}

const char* dtype_name(std::int32_t dtype) {
  return dtype == MORTISE_BF16 ? "bf16" : dtype == MORTISE_I8 ? "int8" : "f32";
}

// "bf16", "int8", "int4 in groups of 64".
std::string weight_format(const mortise_model_dims& dims) {
  if (dims.weight_bits == 0) return dtype_name(dims.dtype);
  const std::string bits = fmt::format("int{}", dims.weight_bits);
  return dims.weight_group_size == 0 ? bits : fmt::format("{} in groups of {}", bits, dims.weight_group_size);
}

}  // namespace mortise
