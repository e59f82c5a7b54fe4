#include "execution/model_stack.hpp"

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "error.hpp"
#include "execution/device_memory.hpp"
#include "execution/populate_pages.hpp"
#include "execution/weight_reader.hpp"

namespace mortise {
namespace {

// Bytes of logits of one call of the head: enough to keep the device busy, little compared with the weights. On a GPU,
// 256 rows of the largest vocabularies fit into one call, so the head's weights are read once for them.
constexpr std::int64_t kMaxLogitBytes = std::int64_t{32} << 20, kMaxGpuLogitBytes = std::int64_t{256} << 20;

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

mortise_status memory_info(const DevicePart& device, std::uint64_t& free_bytes, std::uint64_t& total_bytes) {
  return device.value<&mortise_device_table::memory_info>("memory_info", mortise_status{MORTISE_INTERNAL}, &free_bytes,
                                                          &total_bytes);
}

std::string weight_type_name(const mortise_model_dims& dims) {
  return dims.weight_type == MORTISE_F8_E4M3      ? "fp8"
         : dims.weight_type == MORTISE_F4_E2M1    ? "mxfp4"
         : dims.weight_type == MORTISE_I8_BLOCK32 ? fmt::format("int{}-block32", dims.weight_bits)
                                                  : fmt::format("int{}", dims.weight_bits);
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
    case KvDtype::kFp8:
      return MORTISE_F8_E4M3;
    case KvDtype::kAuto:
      break;
  }
  return dims.dtype;
}

struct ModelStack::KvMemory {
  KvMemory(const DevicePart& device, std::uint64_t bytes, bool populate) : device(device), bytes(bytes) {
    device.call<&mortise_device_table::allocate>("allocate", bytes, &data);
    if (!populate || !shares_host_memory(device)) return;
    populating = std::jthread([this](const std::stop_token& stop) {
      populate_pages({static_cast<std::byte*>(data), this->bytes}, stop, [this] { return is_scarce(); });
    });
  }
  ~KvMemory() {
    populating = {};  // stops and joins the thread
    device.tell<&mortise_device_table::free>("free", data);
  }
  KvMemory(const KvMemory&) = delete;
  KvMemory& operator=(const KvMemory&) = delete;

  // Populating stops when the system has little free memory; the other pages are then allocated when they are first
  // used. A start must not drive other processes out of memory.
  bool is_scarce() const { return free_device_memory(device) < device_memory(device) / 16; }

  DevicePart device;
  const std::uint64_t bytes;
  void* data = nullptr;
  std::jthread populating;
};

ModelFiles ModelFiles::open(const std::filesystem::path& folder) {
  return {Checkpoint::open(folder), Tokenizer::load(folder)};
}

ModelStack::ModelStack(std::shared_ptr<const PartInstance> device, std::shared_ptr<const ModelFiles> files,
                       const StackParts& wanted, mortise_query query, StackRank rank)
    : device_(std::move(device)), rank_(rank), block_size_(wanted.block_size), populate_kv_(wanted.populate_kv) {
  parts_.device = device_->active_part<mortise_device, mortise_device_table>();
  const std::string& config = files->checkpoint.config().json;
  query.model_config = {config.data(), config.size()};
  const PartChoice& choice = wanted.model.select(query);
  CreateContext context;
  context.device = parts_.device.self;
  context.device_table = parts_.device.api;
  context.device_health = parts_.device.health;
  context.model_config = config;
  context.rank = rank_.rank;
  context.world = rank_.world;
  model_ = std::make_shared<OpenModel>(
      OpenModel{device_, std::move(files), PartInstance(*choice.component, choice.options, context)});
  open_model();
  kv_dtype_ = mortise::kv_dtype(wanted.kv_dtype, dims());
  choose_attention(wanted.attention, query, nullptr);
}

ModelStack::ModelStack(const ModelStack& running, const StackParts& wanted, mortise_query query)
    : device_(running.device_),
      rank_(running.rank_),
      model_(running.model_),
      block_size_(wanted.block_size),
      populate_kv_(wanted.populate_kv),
      kv_dtype_(mortise::kv_dtype(wanted.kv_dtype, running.dims())),
      running_(running.cache_) {
  parts_.device = running.parts_.device;
  parts_.model = running.parts_.model;
  parts_.hidden_size = running.parts_.hidden_size;
  choose_attention(wanted.attention, query, &running);
  if (wanted.own_kv && attention_ != running.attention_) running_ = {};
}

ModelStack::~ModelStack() = default;

void ModelStack::open_model() {
  parts_.model = model_->instance.active_part<mortise_model, mortise_model_table>();
  mortise_model_dims& dims = model_->dims;
  dims.struct_size = sizeof dims;
  model_->instance.perform(
      "dims", [&](mortise_error* error) { return parts_.model.api->dims(parts_.model.self, &dims, error); });
  parts_.hidden_size = dims.hidden_size;
  model_->vocab_hash = vocabulary_hash(tokenizer());
  require_numerics(parts_.device, parts_.model.name, dims.dtype);
  if (const double weights = gib(weight_bytes()), memory = gib(device_memory(parts_.device)); weights > memory) {
    fail("{}: its weights take {:.1f} GiB in {}, and {} has {:.1f} GiB of memory; use a smaller model or more memory",
         checkpoint().path().string(), weights, weight_format(dims), parts_.device.name, memory);
  }
}

std::uint64_t ModelStack::weight_bytes() const {
  const auto world = static_cast<std::uint64_t>(rank_.world);
  return (prepared_bytes(checkpoint(), dims()) + world - 1) / world;
}

std::int32_t ModelStack::max_logit_rows(std::int32_t max_batched_tokens) const {
  const std::int64_t bytes = shares_host_memory(parts_.device) ? kMaxLogitBytes : kMaxGpuLogitBytes;
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(bytes / (std::int64_t{4} * dims().vocab_size), 1, max_batched_tokens));
}

// Shares the serving attention if it has the same description and sizes; otherwise opens a new one.
void ModelStack::choose_attention(const PartDescription& attention, mortise_query& query, const ModelStack* running) {
  query.dims = &model_->dims;
  query.kv_dtype = kv_dtype_;
  query.block_size = block_size_;
  attention_choice_ = attention.select(query);
  if (running != nullptr && same_part(attention_choice_, running->attention_choice_) &&
      block_size_ == running->block_size_ && kv_dtype_ == running->kv_dtype_) {
    attention_ = running->attention_;
    layout_ = running->layout_;
    return finish_parts();
  }
  open_attention();
}

void ModelStack::open_attention() {
  CreateContext context;
  context.device = parts_.device.self;
  context.device_table = parts_.device.api;
  context.device_health = parts_.device.health;
  attention_ = std::make_shared<PartInstance>(*attention_choice_.component, attention_choice_.options, context);
  finish_parts();
  if ((attention_->component().capabilities & MORTISE_CAP_EXACT) == 0) {
    fail("{}: is not exact (a row's result may depend on its batch), so it cannot be part of a pipeline",
         parts_.attention.name);
  }

  check_windows(attention_->component());

  layout_ = {};
  layout_.struct_size = sizeof layout_;
  attention_->perform("kv_layout", [&](mortise_error* error) {
    return parts_.attention.api->kv_layout(parts_.attention.self, &model_->dims, kv_dtype_, block_size_, &layout_,
                                           error);
  });
  layout_.layout_id[sizeof layout_.layout_id - 1] = '\0';
  if (layout_.bytes_per_block == 0) fail("{}: says that a KV block has 0 bytes", parts_.attention.name);
}

void ModelStack::finish_parts() {
  parts_.attention = attention_->active_part<mortise_attention, mortise_attention_table>();
  parts_.graphs = graph_table();
  parts_.rejection = static_cast<const mortise_rejection_table*>(device_->get_ext(MORTISE_EXT_REJECTION));
  parts_.prefix_groups = (attention_->component().capabilities & MORTISE_CAP_CASCADE) != 0;
  parts_.vocab_size = dims().vocab_size;
}

// Refuses an attention that does not know sliding windows: it would return wrong results instead of an error.
void ModelStack::check_windows(const Component& attention) const {
  if (dims().sliding_windows == nullptr || (attention.capabilities & MORTISE_CAP_SLIDING_WINDOW) != 0) return;
  const std::span<const std::int32_t> windows(dims().sliding_windows, static_cast<std::size_t>(dims().num_layers));
  const auto count = std::ranges::count_if(windows, [](std::int32_t window) { return window != 0; });
  if (count == 0) return;
  fail(
      "{}: has no sliding windows (MORTISE_CAP_SLIDING_WINDOW), but {} needs them in {} of its {} layers; use an "
      "attention that supports them, such as paged",
      parts_.attention.name, parts_.model.name, count, dims().num_layers);
}

std::uint64_t ModelStack::kv_bytes() const {
  return cache_.memory ? cache_.memory->bytes : 0;
}

void ModelStack::bind_kv(std::int32_t num_blocks, const std::function<void()>& give_up) {
  if (parts_.graphs != nullptr) ++num_blocks;
  const std::uint64_t kv_bytes = static_cast<std::uint64_t>(num_blocks) * layout_.bytes_per_block;
  const bool runs = running_.memory != nullptr;
  has_running_kv_ = runs && running_.layout_id == layout_.layout_id && running_.num_blocks == num_blocks &&
                    running_.memory->bytes >= kv_bytes;
  cache_ = {nullptr, layout_.layout_id, num_blocks};
  if (has_running_kv_) {
    cache_.memory = running_.memory;
    if (attention_->active()) return;  // the serving attention, which is bound already
  } else if (runs && !shares_host_memory(parts_.device) && running_.memory->bytes >= kv_bytes) {
    give_up();
    cache_.memory = running_.memory;
    parts_.device.call<&mortise_device_table::fill>("fill", nullptr, cache_.memory->data, std::uint8_t{0}, kv_bytes);
  } else {
    cache_.memory = std::make_shared<KvMemory>(parts_.device, kv_bytes, populate_kv_);
  }
  if (attention_->active()) open_attention();  // an instance can be bound only once
  mortise_attention_bind_args bind{};
  bind.struct_size = sizeof bind;
  bind.dims = &model_->dims;
  bind.kv_dtype = kv_dtype_;
  bind.block_size = block_size_;
  bind.num_blocks = num_blocks;
  bind.kv = cache_.memory->data;
  bind.kv_bytes = kv_bytes;
  attention_->perform(
      "bind", [&](mortise_error* error) { return parts_.attention.api->bind(parts_.attention.self, &bind, error); });
}

void ModelStack::activate_model(const mortise_activate_args& sizes) {
  if (!model_->instance.active()) model_->instance.activate(sizes);
}

void ModelStack::activate_attention(const mortise_activate_args& sizes) {
  if (!attention_->active()) attention_->activate(sizes);
}

void ModelStack::resize(const mortise_activate_args& now, const mortise_activate_args& before) {
  model_->instance.resize(now, before);
  if (!attention_->active()) return;
  try {
    attention_->resize(now, before);
  } catch (const Error&) {
    model_->instance.resize(before, now);
    throw;
  }
}

// Asks the device to load the weights from a file that it saved for this checkpoint. Returns null if there is no such
// file, if the device's options turn it off, or if the checkpoint's files cannot be identified.
const mortise_weight_cache_table* ModelStack::open_weight_cache() {
  const auto* table = static_cast<const mortise_weight_cache_table*>(device_->get_ext(MORTISE_EXT_WEIGHT_CACHE));
  if (table == nullptr || table->enabled(parts_.device.self) == 0) return nullptr;
  const std::optional<std::string> identity = checkpoint().identity();
  if (!identity) {
    spdlog::warn(
        "{}: {} keeps no packed weights of it at this start: its weights are not in files, or a file was changed less "
        "than a tenth of a second ago, so that the next change might go unnoticed; a later start keeps them",
        checkpoint().path().string(), parts_.device.name);
    return nullptr;
  }
  const std::string folder = checkpoint().path().string();
  std::string format = dtype_name(dims().dtype);
  if (dims().weight_bits != 0) {
    format += fmt::format("-{}-{}", weight_type_name(dims()), dims().weight_group_size);
  }
  if (rank_.world > 1) format += fmt::format("-rank{}of{}", rank_.rank, rank_.world);
  mortise_weight_cache_args args{};
  args.struct_size = sizeof args;
  args.folder = {folder.data(), folder.size()};
  args.format = {format.data(), format.size()};
  args.identity = {identity->data(), identity->size()};
  parts_.device.perform("weight cache",
                        [&](mortise_error* error) { return table->open(parts_.device.self, &args, error); });
  return table;
}

// Lets the device store its measurements next to the checkpoint.
void ModelStack::name_tuning_folder() {
  const auto* table = static_cast<const mortise_tuning_table*>(device_->get_ext(MORTISE_EXT_TUNING));
  if (table == nullptr) return;
  const std::string folder = checkpoint().path().string();
  parts_.device.perform("tuning", [&](mortise_error* error) {
    return table->keep_beside(parts_.device.self, {folder.data(), folder.size()}, error);
  });
}

// Tells once if the checkpoint has scales that nothing here uses: activations and KV are not in FP8.
void ModelStack::tell_unused_scales() const {
  if (!checkpoint().config().quantization || checkpoint().config().quantization->type != QuantizedType::kE4m3) {
    return;
  }
  for (const auto& [name, view] : checkpoint().tensors()) {
    if (!name.ends_with(".input_scale") && !name.ends_with(".k_scale") && !name.ends_with(".v_scale")) continue;
    spdlog::info("{}: scales for activations and KV ({}, ...) are not used: only weights are in FP8",
                 checkpoint().path().string(), name);
    return;
  }
}

void ModelStack::load_weights() {
  if (rank_.rank == 0) tell_unused_scales();
  name_tuning_folder();
  const mortise_weight_cache_table* const cache = open_weight_cache();
  WeightReader weights(checkpoint(), dims().dtype);
  const mortise_weight_reader reader = weights.abi();
  const auto close_cache = [&](std::int32_t complete) {
    if (cache == nullptr) return;
    parts_.device.value_of("weight cache", 0, [&] { return cache->close(parts_.device.self, complete), 0; });
  };
  try {
    model_->instance.perform(
        "load", [&](mortise_error* error) { return parts_.model.api->load(parts_.model.self, &reader, error); });
  } catch (const Error&) {
    close_cache(0);
    throw;
  }
  close_cache(1);
  if (const std::string widened = weights.widened(); rank_.rank == 0 && !widened.empty()) {
    spdlog::info("{}: {}", checkpoint().path().string(), widened);
  }
}

// Returns the device's graph functions if everything that runs in a step can be captured, else null.
const mortise_graph_table* ModelStack::graph_table() const {
  for (const PartInstance* const part : {device_.get(), &model(), &attention()}) {
    if ((part->component().capabilities & MORTISE_CAP_CAPTURE) == 0) return nullptr;
  }
  return static_cast<const mortise_graph_table*>(device_->get_ext(MORTISE_EXT_GRAPH));
}

void load_weights(std::span<const std::shared_ptr<ModelStack>> stacks) {
  std::vector<std::exception_ptr> errors(stacks.size());
  const auto load = [&](std::size_t rank) {
    try {
      stacks[rank]->load_weights();
    } catch (...) {
      errors[rank] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 1; rank < stacks.size(); ++rank) threads.emplace_back(load, rank);
    load(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

ShardParts parts_of(std::shared_ptr<const ModelStack> stack) {
  ShardParts parts = stack->parts();
  parts.owner = std::move(stack);
  return parts;
}

const char* numerics_id_of(const DevicePart& device, std::int32_t dtype) {
  return device.value<&mortise_device_table::numerics_id>("numerics_id", static_cast<const char*>(nullptr), dtype);
}

void require_numerics(const DevicePart& device, const std::string& model, std::int32_t dtype) {
  if (numerics_id_of(device, dtype) != nullptr) return;
  const bool rounds = numerics_id_of(device, MORTISE_BF16) != nullptr;
  fail("{}: computes in {}, which {} does not support{}", model, dtype_name(dtype), device.name,
       rounds ? "; with its option dtype = \"bf16\" it rounds its weights and computes in bf16" : "");
}

std::uint64_t device_memory(const DevicePart& device) {
  std::uint64_t free_bytes = 0, total_bytes = 0;
  const mortise_status status = memory_info(device, free_bytes, total_bytes);
  return status == MORTISE_OK ? total_bytes : UINT64_MAX;  // a device that cannot report its memory refuses by itself
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
  return dtype == MORTISE_BF16 ? "bf16" : dtype == MORTISE_I8 ? "int8" : dtype == MORTISE_F8_E4M3 ? "fp8" : "f32";
}

// Returns "bf16", "int8", "int4 in groups of 64", "fp8 in groups of 128", "mxfp4", "int8-block32".
std::string weight_format(const mortise_model_dims& dims) {
  if (dims.weight_bits == 0) return dtype_name(dims.dtype);
  const std::string type = weight_type_name(dims);
  // MXFP4 has no other groups, and those of blocks of 32 are 32 by default.
  const bool usual =
      dims.weight_type == MORTISE_F4_E2M1 || (dims.weight_type == MORTISE_I8_BLOCK32 && dims.weight_group_size == 32);
  const bool grouped = dims.weight_group_size != 0 && !usual;
  return grouped ? fmt::format("{} in groups of {}", type, dims.weight_group_size) : type;
}

std::int32_t weight_class(const mortise_model_dims& dims) {
  return dims.weight_type != 0 ? dims.weight_type : MORTISE_I8;
}

}  // namespace mortise
