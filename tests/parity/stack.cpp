#include "parity/stack.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "loader/option_reader.hpp"
#include "mortise/plugin.hpp"

namespace mortise::test {
namespace {

// ---- the host, as small as the ABI allows ----

void log_nothing(const mortise_host*, int32_t, mortise_string_view) {}
void* host_allocate(const mortise_host*, uint64_t bytes, uint64_t alignment) {
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void host_free(const mortise_host*, void* memory) {
  std::free(memory);
}
uint64_t now_ns(const mortise_host*) {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
const void* no_ext(const mortise_host*, const char*) {
  return nullptr;
}

constexpr mortise_host kHost = {sizeof(mortise_host),
                                0,
                                MORTISE_ABI_MINOR,
                                0,
                                "mortise",
                                "test",
                                log_nothing,
                                host_allocate,
                                host_free,
                                now_ns,
                                no_ext};

void require(mortise_status status, const mortise_error& error, const char* what) {
  if (status != MORTISE_OK) {
    throw std::runtime_error(std::string(what) + ": " + error.where + ": " + error.message);
  }
}

std::string with_defaults(const char* schema, const std::string& options) {
  nlohmann::json values = nlohmann::json::parse(options);
  const nlohmann::json description = nlohmann::json::parse(schema);
  for (const auto& [name, property] : description.at("properties").items()) {
    if (!values.contains(name) && property.contains("default")) values[name] = property["default"];
  }
  return values.dump();
}

int32_t abi_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return MORTISE_BF16;
    case Dtype::kF16:
      return MORTISE_F16;
    case Dtype::kF32:
      return MORTISE_F32;
    default:
      return MORTISE_U8;  // no weight is one
  }
}

mortise_status get_weight(void* context, mortise_string_view name, mortise_tensor* tensor) {
  const TensorView* found = static_cast<const Checkpoint*>(context)->find(view(name));
  if (found == nullptr || found->shape.empty() || found->shape.size() > 2) return MORTISE_NOT_FOUND;
  const int64_t columns = found->shape.size() == 2 ? found->shape[1] : 1;
  auto* data = const_cast<std::byte*>(found->bytes.data());
  *tensor = make_tensor(data, abi_dtype(found->dtype), found->shape[0], columns);
  tensor->flags = MORTISE_TENSOR_READ_ONLY;
  tensor->ndim = static_cast<int32_t>(found->shape.size());
  return MORTISE_OK;
}

// The component `name` of a plugin file, which is loaded once and never unloaded.
const mortise_component* component_of(const std::filesystem::path& file, const std::string& name) {
  void* image = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (image == nullptr) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<const mortise_module* (*)()>(dlsym(image, MORTISE_PLUGIN_ENTRY_NAME));
  if (entry == nullptr) throw std::runtime_error(dlerror());
  const mortise_module* module = entry();
  for (int32_t i = 0; i < module->num_components; ++i) {
    if (module->components[i]->name == name) return module->components[i];
  }
  throw std::runtime_error(file.string() + ": no component " + name);
}

}  // namespace

Parts built_in_parts(const std::string& model) {
  const std::filesystem::path folder = MORTISE_BINARY_DIR;
  return {component_of(folder / "cpu.so", "cpu"), component_of(folder / "paged-cpu.so", "paged"),
          component_of(folder / (model + ".so"), model)};
}

// One step's arrays, on the host: the devices under test read host memory.
struct Stack::Batch {
  std::vector<uint64_t> seq_ids;
  std::vector<int32_t> token_ids, positions, cu_seqlens_q{0}, seq_lens, logit_rows;
  std::vector<std::vector<int32_t>> blocks;
  std::vector<int32_t> block_table;
  std::vector<int64_t> slot_mapping;

  mortise_batch view(int32_t block_size, uint64_t step_id);
};

mortise_batch Stack::Batch::view(int32_t block_size, uint64_t step_id) {
  auto batch = sized<mortise_batch>();
  batch.step_id = step_id;
  batch.num_seqs = batch.num_real_seqs = static_cast<int32_t>(seq_ids.size());
  batch.num_tokens = batch.num_real_tokens = batch.num_logit_rows = static_cast<int32_t>(token_ids.size());
  batch.block_size = block_size;
  batch.max_blocks = 1;
  for (const auto& list : blocks) batch.max_blocks = std::max(batch.max_blocks, static_cast<int32_t>(list.size()));
  for (const auto& list : blocks) {
    block_table.insert(block_table.end(), list.begin(), list.end());
    block_table.resize(block_table.size() + batch.max_blocks - list.size(), INT32_MIN);  // never to be read
  }
  for (std::size_t i = 0; i < seq_ids.size(); ++i) {
    batch.max_query_len = std::max(batch.max_query_len, cu_seqlens_q[i + 1] - cu_seqlens_q[i]);
    batch.max_seq_len = std::max(batch.max_seq_len, seq_lens[i]);
  }
  logit_rows.resize(token_ids.size());
  std::iota(logit_rows.begin(), logit_rows.end(), 0);
  batch.seq_ids = seq_ids.data();
  batch.token_ids = batch.device_token_ids = token_ids.data();
  batch.positions = batch.device_positions = positions.data();
  batch.cu_seqlens_q = batch.device_cu_seqlens_q = cu_seqlens_q.data();
  batch.seq_lens = batch.device_seq_lens = seq_lens.data();
  batch.block_table = batch.device_block_table = block_table.data();
  batch.slot_mapping = batch.device_slot_mapping = slot_mapping.data();
  batch.logit_rows = batch.device_logit_rows = logit_rows.data();
  return batch;
}

Stack::Instance::Instance(const mortise_component* component, const mortise_create_args& args) : component_(component) {
  mortise_error error = make_error();
  require(component->create(&kHost, &args, &instance_, &error), error, component->name);
}

Stack::Instance::~Instance() {
  if (active_) component_->deactivate(instance_);
  component_->destroy(instance_);
}

void Stack::Instance::activate(const mortise_activate_args& args) {
  if (component_->activate == nullptr) return;
  mortise_error error = make_error();
  require(component_->activate(instance_, &args, &error), error, component_->name);
  active_ = true;
}

Stack::Stack(const Parts& parts, const std::filesystem::path& folder, const StackOptions& options)
    : options_(options),
      checkpoint_(Checkpoint::open(folder)),
      device_table_(static_cast<const mortise_device_table*>(parts.device->table)),
      attention_table_(static_cast<const mortise_attention_table*>(parts.attention->table)),
      model_table_(static_cast<const mortise_model_table*>(parts.model->table)) {
  auto activate = sized<mortise_activate_args>();
  activate.max_num_seqs = 64;
  activate.max_batched_tokens = activate.max_logit_rows = options.max_batched_tokens;
  activate.block_size = options.block_size;
  activate.num_blocks = options.num_blocks;

  device_ = create(parts.device, options.device);
  device_->activate(activate);
  nlohmann::json model = nlohmann::json::parse(options.model);
  model.update({{"path", folder.string()}, {"dtype", options.dtype}});
  model_ = create(parts.model, model.dump());
  load_model();
  activate.max_model_len = dims_.max_model_len;
  model_->activate(activate);
  attention_ = create(parts.attention, options.attention);
  bind_attention();
  attention_->activate(activate);
  logits_ = static_cast<float*>(allocate(sizeof(float) * static_cast<uint64_t>(options.max_batched_tokens) *
                                         static_cast<uint64_t>(dims_.vocab_size)));
}

Stack::~Stack() = default;

std::unique_ptr<Stack::Instance> Stack::create(const mortise_component* component, const std::string& options) const {
  const std::string json = with_defaults(component->options_schema, options);
  auto args = sized<mortise_create_args>();
  const OptionReader reader(nlohmann::json::parse(json));
  reader.give_to(args);
  args.model_config = mortise::view(std::string_view(checkpoint_.config().json));
  args.world = 1;
  if (device_ != nullptr) {
    args.device = device();
    args.device_table = device_table_;
  }
  return std::make_unique<Instance>(component, args);
}

void Stack::load_model() {
  mortise_error error = make_error();
  auto reader = sized<mortise_weight_reader>();
  reader.context = const_cast<Checkpoint*>(&checkpoint_);
  reader.get = get_weight;
  dims_.struct_size = sizeof dims_;
  require(model_table_->dims(model(), &dims_, &error), error, "dims");
  require(model_table_->load(model(), &reader, &error), error, "load");
}

void Stack::bind_attention() {
  mortise_error error = make_error();
  auto layout = sized<mortise_kv_layout>();
  require(attention_table_->kv_layout(attention(), &dims_, dims_.dtype, options_.block_size, &layout, &error), error,
          "kv_layout");
  auto bind = sized<mortise_attention_bind_args>();
  bind.dims = &dims_;
  bind.kv_dtype = dims_.dtype;
  bind.block_size = options_.block_size;
  bind.num_blocks = options_.num_blocks;
  bind.kv_bytes = layout.bytes_per_block * static_cast<uint64_t>(options_.num_blocks);
  bind.kv = allocate(bind.kv_bytes);
  require(attention_table_->bind(attention(), &bind, &error), error, "bind");
}

void* Stack::allocate(uint64_t bytes) {
  void* memory = nullptr;
  mortise_error error = make_error();
  require(device_table_->allocate(device(), bytes, &memory, &error), error, "allocate");
  memory_.emplace_back(memory, [table = device_table_, device = device()](void* p) { table->free(device, p); });
  return memory;
}

std::string Stack::isa() const {
  auto info = sized<mortise_device_info>();
  device_table_->describe(device(), &info);
  return info.isa;
}

void Stack::add_feed(const Feed& feed, Batch& batch) {
  Sequence& sequence = sequences_[feed.id];
  const int32_t block_size = options_.block_size;
  for (const int32_t token : feed.tokens) {
    const int32_t position = sequence.num_tokens++;
    if (position % block_size == 0) {
      if (next_block_ == options_.num_blocks) throw std::runtime_error("the test's KV pool is too small");
      sequence.blocks.push_back(next_block_++);
    }
    batch.token_ids.push_back(token);
    batch.positions.push_back(position);
    batch.slot_mapping.push_back(int64_t{sequence.blocks.back()} * block_size + position % block_size);
  }
  batch.seq_ids.push_back(feed.id);
  batch.cu_seqlens_q.push_back(static_cast<int32_t>(batch.token_ids.size()));
  batch.seq_lens.push_back(sequence.num_tokens);
  batch.blocks.push_back(sequence.blocks);
}

std::vector<std::vector<Row>> Stack::step_sliced(const std::vector<Feed>& feeds, int32_t slice) {
  Batch batch;
  for (const Feed& feed : feeds) add_feed(feed, batch);
  const mortise_batch view = batch.view(options_.block_size, next_step_++);
  auto step = sized<mortise_step>();
  step.generation = 1;
  step.batch = &view;
  step.device = device();
  step.device_table = device_table_;
  step.attention = attention();
  step.attention_table = attention_table_;
  step.world = 1;

  mortise_error error = make_error();
  auto hidden = sized<mortise_tensor>();
  require(attention_table_->plan(attention(), &step, &error), error, "plan");
  require(model_table_->forward(model(), &step, &hidden, &error), error, "forward");
  const std::vector<Row> rows = logits(step, hidden, view.num_tokens, slice);

  std::vector<std::vector<Row>> result;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    result.emplace_back(rows.begin() + batch.cu_seqlens_q[i], rows.begin() + batch.cu_seqlens_q[i + 1]);
  }
  return result;
}

std::vector<Row> Stack::logits(const mortise_step& step, const mortise_tensor& hidden, int32_t num_rows,
                               int32_t slice) {
  mortise_error error = make_error();
  std::vector<Row> rows(static_cast<std::size_t>(num_rows));
  for (int32_t begin = 0; begin < dims_.vocab_size; begin += slice) {
    const int32_t width = std::min(slice, dims_.vocab_size - begin);
    const mortise_tensor out = make_tensor(logits_, MORTISE_F32, num_rows, width);
    require(model_table_->head(model(), &step, &hidden, begin, begin + width, &out, &error), error, "head");
    for (int32_t r = 0; r < num_rows; ++r) {
      const float* row = logits_ + int64_t{r} * width;
      rows[static_cast<std::size_t>(r)].insert(rows[static_cast<std::size_t>(r)].end(), row, row + width);
    }
  }
  return rows;
}

}  // namespace mortise::test
