#include "engine/assembly.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "error.hpp"

namespace mortise {
namespace {

// Logits of one call of the head: large enough to keep the device busy, small beside the weights. A GPU reads the head
// once for 256 sequences with the largest vocabularies there are.
constexpr std::int64_t kMaxLogitBytes = std::int64_t{32} << 20, kMaxGpuLogitBytes = std::int64_t{256} << 20;

// Of a device whose KV cache is to fill it: what stays free for workspaces and captured graphs.
constexpr std::uint64_t kKeptFree = std::uint64_t{1} << 30, kKeptShare = 12;

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

std::int32_t abi_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return MORTISE_BF16;
    case Dtype::kF16:
      return MORTISE_F16;
    case Dtype::kF32:
      return MORTISE_F32;
    case Dtype::kI8:
      return MORTISE_I8;
    case Dtype::kU8:
      return MORTISE_U8;
    case Dtype::kI32:
      return MORTISE_I32;
    case Dtype::kI64:
      return MORTISE_I64;
    default:
      return 0;
  }
}

// What a model reads a checkpoint through. Quantised matrices stay until the model has loaded.
struct WeightReader {
  const Checkpoint& checkpoint;
  std::deque<QuantizedMatrix> quantized;
};

// A dense view; NOT_FOUND for an unknown name, DATA_LOSS for a tensor that the ABI cannot say.
mortise_status read_weight(void* context, mortise_string_view name, mortise_tensor* tensor) {
  const TensorView* view =
      static_cast<const WeightReader*>(context)->checkpoint.find({name.data, static_cast<std::size_t>(name.size)});
  if (view == nullptr) return MORTISE_NOT_FOUND;
  mortise_tensor result{};
  result.struct_size = sizeof result;
  result.flags = MORTISE_TENSOR_READ_ONLY;
  result.dtype = abi_dtype(view->dtype);
  if (result.dtype == 0 || view->shape.empty() || view->shape.size() > 4) return MORTISE_DATA_LOSS;
  result.data = const_cast<std::byte*>(view->bytes.data());
  result.bytes = view->bytes.size();
  result.ndim = static_cast<std::int32_t>(view->shape.size());
  std::int64_t stride = 1;
  for (int i = 3; i >= 0; --i) {
    result.shape[i] = i < result.ndim ? static_cast<std::int64_t>(view->shape[static_cast<std::size_t>(i)]) : 1;
    result.stride[i] = i < result.ndim ? stride : 1;
    if (i < result.ndim) stride *= result.shape[i];
  }
  *tensor = result;
  return MORTISE_OK;
}

void read_quantized_rows(void* context, std::int64_t n0, std::int64_t n1, std::uint8_t* values, float* scales,
                         std::uint8_t* zeros) {
  static_cast<const QuantizedMatrix*>(context)->read(n0, n1, values, scales, zeros);
}

mortise_status read_quantized(void* context, mortise_string_view name, mortise_quantized_matrix* matrix,
                              mortise_error* error) {
  auto& reader = *static_cast<WeightReader*>(context);
  try {
    auto found = reader.checkpoint.find_quantized({name.data, static_cast<std::size_t>(name.size)});
    if (!found) return MORTISE_NOT_FOUND;
    const QuantizedMatrix& kept = reader.quantized.emplace_back(std::move(*found));
    mortise_quantized_matrix result{};
    result.struct_size = sizeof result;
    result.n = kept.rows();
    result.k = kept.columns();
    result.bits = kept.bits();
    result.group_size = static_cast<std::int32_t>(kept.group_size());
    result.order = kept.order().empty() ? nullptr : kept.order().data();
    result.context = const_cast<QuantizedMatrix*>(&kept);
    result.read = read_quantized_rows;
    *matrix = result;
    return MORTISE_OK;
  } catch (const std::exception& e) {
    error->code = MORTISE_DATA_LOSS;
    fmt::format_to_n(error->message, sizeof error->message - 1, "{}", e.what()).out[0] = '\0';
    return MORTISE_DATA_LOSS;
  }
}

// Bytes of a tensor once it is prepared. Integers lie as they lie in the file; the matrices of the layers may become
// integers; whatever has a row per token stays (the embedding).
std::uint64_t prepared_bytes(const TensorView& view, const mortise_model_dims& dims) {
  const std::uint64_t element_bytes = dims.dtype == MORTISE_BF16 ? 2 : 4;
  const bool is_float = view.dtype == Dtype::kBf16 || view.dtype == Dtype::kF16 || view.dtype == Dtype::kF32;
  if (view.dtype == Dtype::kOther) return 0;
  if (!is_float) return view.bytes.size();
  const std::uint64_t count = view.bytes.size() / dtype_size(view.dtype);
  const bool layer = view.shape.size() == 2 && view.shape[0] != dims.vocab_size;
  if (dims.weight_bits == 0 || !layer) return count * element_bytes;
  constexpr std::uint64_t kGroupBytes = 5;  // a scale and a zero point
  const auto rows = static_cast<std::uint64_t>(view.shape[0]), columns = static_cast<std::uint64_t>(view.shape[1]);
  const auto group = dims.weight_group_size == 0 ? columns : static_cast<std::uint64_t>(dims.weight_group_size);
  return count * static_cast<std::uint64_t>(dims.weight_bits) / 8 +
         rows * ((columns + group - 1) / group) * kGroupBytes;
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

// The KV cache's type: "auto" is the model's.
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

// Which component serves is known only with the configuration, whose path is an option: all choices name the same one.
std::string model_folder(const PipelineDescription& description) {
  const nlohmann::json& options = description.model.choices.front().options;
  if (!options.contains("path") || !options.at("path").is_string()) {
    fail("{}: model '{}' has no option 'path' that names a checkpoint folder", description.model.where,
         description.model.name);
  }
  return options.at("path").get<std::string>();
}

}  // namespace

struct Assembly::DeviceMemory {
  DeviceMemory(const DevicePart& device, std::uint64_t bytes) : device(device) {
    mortise_error error = empty_error();
    check_part(device.api->allocate(device.self, bytes, &data, &error), error, device.name);
  }
  ~DeviceMemory() { device.api->free(device.self, data); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  DevicePart device;
  void* data = nullptr;
};

ModelFiles ModelFiles::open(const std::filesystem::path& folder) {
  return {Checkpoint::open(folder), Tokenizer::load(folder)};
}

Assembly::Assembly(const PipelineDescription& description, std::optional<ModelFiles> files) {
  mortise_query query = description.query();
  open_device(description);
  take_files(files ? std::move(*files) : ModelFiles::open(model_folder(description)));
  open_model(description, query);
  open_attention(description, query);
  open_policies(description, query);
  load_weights();
  activate(description);
}

Assembly::~Assembly() = default;

void Assembly::open_device(const PipelineDescription& description) {
  const PartChoice& choice = description.device.select(description.query());
  device_.emplace(*choice.component, choice.options, CreateContext{});
  parts_.device = {device_->handle<mortise_device>(), device_->table<mortise_device_table>(),
                   choice.component->label()};
  // Models and attention allocate from the device, so it is active before they are made.
  device_->activate({});
}

void Assembly::take_files(ModelFiles files) {
  checkpoint_.emplace(std::move(files.checkpoint));
  tokenizer_.emplace(std::move(files.tokenizer));
}

void Assembly::open_model(const PipelineDescription& description, mortise_query& query) {
  const std::string& config = checkpoint_->config().json;
  query.model_config = {config.data(), config.size()};
  const PartChoice& choice = description.model.select(query);
  CreateContext context;
  context.device = parts_.device.self;
  context.device_table = parts_.device.api;
  context.model_config = config;
  model_.emplace(*choice.component, choice.options, context);
  parts_.model = {model_->handle<mortise_model>(), model_->table<mortise_model_table>(), choice.component->label()};
  dims_.struct_size = sizeof dims_;
  mortise_error error = empty_error();
  model_->check(parts_.model.api->dims(parts_.model.self, &dims_, &error), error, "dims");
  if (parts_.device.api->numerics_id(parts_.device.self, dims_.dtype) == nullptr) {
    fail("{}: computes in {}, which {} cannot", parts_.model.name, dtype_name(dims_.dtype), parts_.device.name);
  }
  if (const double weights = gib(weight_bytes()), memory = gib(device_memory()); weights > memory) {
    fail("{}: its weights take {:.1f} GiB in {}, and {} has {:.1f} GiB of memory; take a smaller model or more memory",
         checkpoint_->folder().string(), weights, weight_format(dims_), parts_.device.name, memory);
  }
}

std::uint64_t Assembly::weight_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, view] : checkpoint_->tensors()) bytes += prepared_bytes(view, dims_);
  return bytes;
}

std::uint64_t Assembly::device_memory() const {
  std::uint64_t free_bytes = 0, total_bytes = 0;
  const mortise_status status = parts_.device.api->memory_info(parts_.device.self, &free_bytes, &total_bytes);
  return status == MORTISE_OK ? total_bytes : UINT64_MAX;  // a device that cannot say refuses by itself
}

void Assembly::open_attention(const PipelineDescription& description, mortise_query& query) {
  query.dims = &dims_;
  query.kv_dtype = kv_dtype_ = kv_dtype(description.kv_cache.dtype, dims_);
  const PartChoice& choice = description.attention.select(query);
  CreateContext context;
  context.device = parts_.device.self;
  context.device_table = parts_.device.api;
  attention_.emplace(*choice.component, choice.options, context);
  parts_.attention = {attention_->handle<mortise_attention>(), attention_->table<mortise_attention_table>(),
                      choice.component->label()};
  if ((choice.component->capabilities & MORTISE_CAP_EXACT) == 0) {
    fail("{}: is not exact (its rows may depend on their batch), so it cannot be part of a pipeline",
         parts_.attention.name);
  }

  mortise_kv_layout layout{};
  layout.struct_size = sizeof layout;
  mortise_error error = empty_error();
  attention_->check(parts_.attention.api->kv_layout(parts_.attention.self, &dims_, kv_dtype_, description.block_size,
                                                    &layout, &error),
                    error, "kv_layout");
  if (layout.bytes_per_block == 0) fail("{}: says that a KV block has 0 bytes", parts_.attention.name);
  kv_bytes_per_block_ = layout.bytes_per_block;
  limits_.max_num_seqs = description.max_num_seqs;
  limits_.max_batched_tokens = description.max_batched_tokens;
  limits_.max_model_len = dims_.max_model_len;
  limits_.block_size = description.block_size;
  limits_.prefix_cache = description.kv_cache.prefix_cache;
  limits_.rejection = description.speculation.verify == Verify::kRejection;
  limits_.adaptive_lengths = description.speculation.lengths == DraftLengths::kAdaptive;
  limits_.batch_expansion =
      description.speculation.batch_expansion || (choice.component->capabilities & MORTISE_CAP_MULTI_QUERY) == 0;
  const std::int64_t logit_bytes = shares_host_memory(parts_.device) ? kMaxLogitBytes : kMaxGpuLogitBytes;
  limits_.max_logit_rows = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(logit_bytes / (std::int64_t{4} * dims_.vocab_size), 1, limits_.max_batched_tokens));
  limits_.num_blocks = useful_blocks(description, description.kv_cache.memory_bytes / kv_bytes_per_block_);
  if (fills_device(description)) return;  // what is left is known once the weights are there
  if (limits_.num_blocks == 0) {
    fail("{}: kv_cache.memory of {} bytes holds no block of {} tokens, which takes {} bytes; raise it",
         description.where, description.kv_cache.memory_bytes, description.block_size, kv_bytes_per_block_);
  }
  const std::uint64_t kv_bytes = static_cast<std::uint64_t>(limits_.num_blocks) * kv_bytes_per_block_;
  // More than there is would be filled until the system ends the process.
  if (kv_bytes > device_memory() - weight_bytes()) {
    fail(
        "{}: {:.1f} GiB of KV cache and {:.1f} GiB of weights do not fit the {:.1f} GiB of memory of {}; lower "
        "kv_cache.memory",
        description.where, gib(kv_bytes), gib(weight_bytes()), gib(device_memory()), parts_.device.name);
  }
}

bool Assembly::fills_device(const PipelineDescription& description) const {
  return description.kv_cache.fills_device && !shares_host_memory(parts_.device);
}

// Of `blocks`, those that can be of use. Without the prefix cache more than all sequences at full length can use would
// never be touched.
std::int32_t Assembly::useful_blocks(const PipelineDescription& description, std::uint64_t blocks) const {
  const auto affordable = static_cast<std::int64_t>(std::min<std::uint64_t>(blocks, INT32_MAX - 1));
  const std::int64_t blocks_per_sequence = (dims_.max_model_len + description.block_size - 1) / description.block_size;
  return static_cast<std::int32_t>(description.kv_cache.prefix_cache
                                       ? affordable
                                       : std::min(affordable, blocks_per_sequence * description.max_num_seqs));
}

std::uint64_t Assembly::free_memory() const {
  std::uint64_t free_bytes = 0, total_bytes = 0;
  const mortise_status status = parts_.device.api->memory_info(parts_.device.self, &free_bytes, &total_bytes);
  return status == MORTISE_OK ? free_bytes : 0;
}

// Gives the attention its memory; on a device that is to be filled, of what the weights and the model's buffers left.
void Assembly::bind_attention(const PipelineDescription& description) {
  if (fills_device(description)) {
    const std::uint64_t free = free_memory();
    const std::uint64_t kept = std::max(kKeptFree, free / kKeptShare);
    limits_.num_blocks = useful_blocks(description, (free - std::min(free, kept)) / kv_bytes_per_block_);
    if (limits_.num_blocks < 2) {
      fail(
          "{}: of the {:.1f} GiB of {}, {:.1f} GiB are free beside {:.1f} GiB of weights, and {:.1f} GiB of them are "
          "kept for workspaces: no KV block of {} bytes fits; take a smaller model or lower max_batched_tokens",
          description.where, gib(device_memory()), parts_.device.name, gib(free), gib(weight_bytes()), gib(kept),
          kv_bytes_per_block_);
    }
  }
  const bool padded = parts_.graphs != nullptr;
  if (padded) limits_.padding_block = limits_.num_blocks;
  const std::int32_t num_blocks = limits_.num_blocks + (padded ? 1 : 0);
  const std::uint64_t kv_bytes = static_cast<std::uint64_t>(num_blocks) * kv_bytes_per_block_;
  try {
    kv_ = std::make_unique<DeviceMemory>(parts_.device, kv_bytes);
  } catch (const Error& error) {
    fail("{}: {:.1f} GiB of KV cache beside {:.1f} GiB of weights: {}; lower kv_cache.memory", description.where,
         gib(kv_bytes), gib(weight_bytes()), error.what());
  }
  mortise_attention_bind_args bind{};
  bind.struct_size = sizeof bind;
  bind.dims = &dims_;
  bind.kv_dtype = kv_dtype_;
  bind.block_size = description.block_size;
  bind.num_blocks = num_blocks;
  bind.kv = kv_->data;
  bind.kv_bytes = kv_bytes;
  mortise_error error = empty_error();
  attention_->check(parts_.attention.api->bind(parts_.attention.self, &bind, &error), error, "bind");
}

void Assembly::open_policies(const PipelineDescription& description, const mortise_query& query) {
  CreateContext context;
  context.device = parts_.device.self;
  context.device_table = parts_.device.api;
  const PartChoice& scheduler = description.scheduler.select(query);
  scheduler_.emplace(*scheduler.component, scheduler.options, context);
  parts_.scheduler = {scheduler_->handle<mortise_scheduler>(), scheduler_->table<mortise_scheduler_table>(),
                      scheduler.component->label()};
  for (const PartDescription& proposer : description.proposers) open_proposer(proposer, query, context);
}

void Assembly::open_proposer(const PartDescription& description, const mortise_query& query,
                             const CreateContext& context) {
  const PartChoice& choice = description.select(query);
  PartInstance& instance = proposers_.emplace_back(*choice.component, choice.options, context);
  ActiveProposer& proposer = parts_.proposers.emplace_back();
  proposer.self = instance.handle<mortise_proposer>();
  proposer.api = instance.table<mortise_proposer_table>();
  proposer.name = choice.component->label();
  proposer.plugin = choice.component->name;
  proposer.capabilities = choice.component->capabilities;
  proposer.max_tokens = choice.options.value("max_tokens", 0);
  proposer.sequences = static_cast<const mortise_sequences_table*>(instance.get_ext(MORTISE_EXT_SEQUENCES));
  limits_.max_draft_tokens = std::max(limits_.max_draft_tokens, proposer.max_tokens);
  // With rejection sampling the drafts decide, too, which tokens come out.
  if (limits_.rejection) rejection_id_ += fmt::format("; rejection of {} {}", proposer.plugin, choice.options.dump());
  mortise_proposer_bind_args bind{};
  bind.struct_size = sizeof bind;
  bind.target = &dims_;
  bind.vocab_hash = vocabulary_hash(*tokenizer_);
  mortise_error error = empty_error();
  instance.check(proposer.api->bind(proposer.self, &bind, &error), error, "bind");
}

// Asks the device to take the weights from a file that it made of this checkpoint; null: it has no such file, or its
// options want none, or the checkpoint's files cannot be told from others.
const mortise_weight_cache_table* Assembly::open_weight_cache() {
  const auto* table = static_cast<const mortise_weight_cache_table*>(device_->get_ext(MORTISE_EXT_WEIGHT_CACHE));
  if (table == nullptr || table->enabled(parts_.device.self) == 0) return nullptr;
  const std::optional<std::string> identity = checkpoint_->identity();
  if (!identity) {
    spdlog::warn(
        "{}: {} keeps no packed weights of it at this start: its weights are in no file, or one was changed less "
        "than a tenth of a second before, so that the next change could not be told; a later start keeps them",
        checkpoint_->folder().string(), parts_.device.name);
    return nullptr;
  }
  const std::string folder = checkpoint_->folder().string();
  std::string format = dtype_name(dims_.dtype);
  if (dims_.weight_bits != 0) format += fmt::format("-int{}-{}", dims_.weight_bits, dims_.weight_group_size);
  mortise_weight_cache_args args{};
  args.struct_size = sizeof args;
  args.folder = {folder.data(), folder.size()};
  args.format = {format.data(), format.size()};
  args.identity = {identity->data(), identity->size()};
  mortise_error error = empty_error();
  check_part(table->open(parts_.device.self, &args, &error), error, parts_.device.name);
  return table;
}

void Assembly::load_weights() {
  const mortise_weight_cache_table* const cache = open_weight_cache();
  WeightReader context{*checkpoint_, {}};
  mortise_weight_reader reader{};
  reader.struct_size = sizeof reader;
  reader.context = &context;
  reader.get = read_weight;
  reader.get_quantized = read_quantized;
  mortise_error error = empty_error();
  const mortise_status status = parts_.model.api->load(parts_.model.self, &reader, &error);
  if (cache != nullptr) cache->close(parts_.device.self, status == MORTISE_OK ? 1 : 0);
  model_->check(status, error, "load");
}

mortise_activate_args Assembly::sizes() const {
  mortise_activate_args args{};
  args.struct_size = sizeof args;
  args.max_num_seqs = limits_.max_num_seqs;
  args.max_batched_tokens = limits_.max_batched_tokens;
  args.max_logit_rows = limits_.max_logit_rows;
  args.max_model_len = limits_.max_model_len;
  args.block_size = limits_.block_size;
  args.num_blocks = limits_.num_blocks;
  return args;
}

// For the parts that see batches: a sequence may be several runs there.
mortise_activate_args Assembly::batch_sizes() const {
  mortise_activate_args args = sizes();
  args.max_num_seqs = limits_.max_batch_runs();
  return args;
}

// Graphs are of use if everything that runs in a step can be captured.
const mortise_graph_table* Assembly::graph_table() const {
  for (const auto* part : {&device_, &model_, &attention_}) {
    if (((*part)->component().capabilities & MORTISE_CAP_CAPTURE) == 0) return nullptr;
  }
  return static_cast<const mortise_graph_table*>(device_->get_ext(MORTISE_EXT_GRAPH));
}

// The model first: what its buffers leave may become the KV cache.
void Assembly::activate(const PipelineDescription& description) {
  parts_.graphs = graph_table();
  if (fills_device(description)) limits_.num_blocks = useful_blocks(description, free_memory() / kv_bytes_per_block_);
  model_->activate(batch_sizes());
  bind_attention(description);
  attention_->activate(batch_sizes());
  scheduler_->activate(sizes());
  for (PartInstance& proposer : proposers_) proposer.activate(sizes());
}

ModelInfo Assembly::model_info() const {
  ModelInfo info;
  info.vocab_size = dims_.vocab_size;
  info.eos_tokens = checkpoint_->generation_config().eos_token_ids;
  if (info.eos_tokens.empty() && tokenizer_->eos_id()) info.eos_tokens.push_back(*tokenizer_->eos_id());
  // What the head has no logit for is never drawn, and a device refuses to ban it (min_tokens).
  std::erase_if(info.eos_tokens, [&](std::int32_t id) { return id >= info.vocab_size; });
  return info;
}

std::string Assembly::numerics_id() const {
  std::string device = parts_.device.api->numerics_id(parts_.device.self, dims_.dtype);
  if (dims_.weight_bits != 0) {
    const char* id = parts_.device.api->numerics_id(parts_.device.self, MORTISE_I8);
    device += fmt::format(" with {}, {}", id == nullptr ? "unknown" : id, weight_format(dims_));
  }
  return fmt::format("{}; attention {}; model {}; weights {:016x}; kv {}; world 1{}", device,
                     attention_->component().numerics_id, model_->component().name, checkpoint_->fingerprint(),
                     dtype_name(kv_dtype_), rejection_id_);
}

std::string Assembly::system_fingerprint() const {
  const std::string id = numerics_id();
  return fmt::format("mortise-{:016x}", XXH64(id.data(), id.size(), 0));
}

std::string Assembly::vocabulary() const {
  return fmt::format("{:016x}", vocabulary_hash(*tokenizer_));
}

SamplingParams Assembly::default_sampling() const {
  const GenerationConfig& config = checkpoint_->generation_config();
  SamplingParams params;
  if (config.temperature) params.temperature = static_cast<float>(*config.temperature);
  if (config.do_sample == false) params.temperature = 0;
  if (config.top_k) params.top_k = *config.top_k;
  if (config.top_p) params.top_p = static_cast<float>(*config.top_p);
  if (config.min_p) params.min_p = static_cast<float>(*config.min_p);
  if (config.repetition_penalty) params.repetition_penalty = static_cast<float>(*config.repetition_penalty);
  return params;
}

}  // namespace mortise
