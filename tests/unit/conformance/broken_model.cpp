// tests/unit/conformance/broken_model.cpp: the model llama (LLAMA_FILE) with one defect that an option names. The
// defects touch memory as if it were the host's: they run on the CPU.
#include <algorithm>
#include <cmath>

#include <unistd.h>

#include "defects.hpp"
#include "mortise/attention.h"
#include "mortise/model.h"

namespace {

using broken::Defect;

const mortise_component& llama() {
  return broken::component_of(LLAMA_FILE);
}
const mortise_model_table& table() {
  return *static_cast<const mortise_model_table*>(llama().table);
}

struct Model {
  Defect defect;
  void* inner = nullptr;  // NULL: the defect takes a configuration that llama refuses
  mortise_device* device = nullptr;
  const mortise_device_table* device_table = nullptr;
  pid_t creator = ::gettid();
  mortise_tensor view{};                                    // of the checkpoint
  const mortise_attention_table* kept_attention = nullptr;  // of an earlier step
  bool is_loaded = false, was_deactivated = false;
  int32_t max_batched_tokens = 0, rows_seen = 0, steps = 0, heads = 0;

  mortise_model* handle() const { return static_cast<mortise_model*>(inner); }
};
Model& of(void* instance) {
  return *static_cast<Model*>(instance);
}
Model& of(mortise_model* handle) {
  return *reinterpret_cast<Model*>(handle);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return mortise::guard(error, "create", [&] {
    auto self = std::make_unique<Model>(Model{Defect(mortise::Options(*args).get<std::string>("defect"))});
    self->device = args->device;
    self->device_table = args->device_table;
    mortise_error why = mortise::make_error();
    const mortise_status status = llama().create(host, args, &self->inner, &why);
    if (!self->defect.is("takes_any_config")) mortise::check(status, why);
    void* lost = nullptr;
    if (self->defect.is("leaks_device_memory")) args->device_table->allocate(args->device, 64, &lost, nullptr);
    *instance = self.release();
  });
}
void destroy(void* instance) {
  if (of(instance).inner != nullptr) llama().destroy(of(instance).inner);
  delete &of(instance);
}
mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  of(instance).max_batched_tokens = args->max_batched_tokens;
  return llama().activate(of(instance).inner, args, error);
}
void deactivate(void* instance) {
  of(instance).was_deactivated = of(instance).rows_seen > 0;
  llama().deactivate(of(instance).inner);
}

mortise_status dims(mortise_model* handle, mortise_model_dims* dims, mortise_error* error) {
  const Model& self = of(handle);
  if (self.inner == nullptr) return MORTISE_OK;
  const uint32_t size = dims->struct_size;
  if (self.defect.is("ignores_size_of_dims")) dims->struct_size = sizeof *dims;
  const mortise_status status = table().dims(self.handle(), dims, error);
  dims->struct_size = size;
  if (self.defect.is("changes_dims") && self.is_loaded) ++dims->max_model_len;
  if (self.defect.is("no_scale")) dims->attention_scale = NAN;
  return status;
}

mortise_status load(mortise_model* handle, const mortise_weight_reader* reader, mortise_error* error) {
  Model& self = of(handle);
  reader->get(reader->context, {"model.norm.weight", 17}, &self.view);
  const mortise_status status = table().load(self.handle(), reader, error);
  self.is_loaded = true;
  if (self.defect.is("ignores_missing") || self.defect.is("ignores_shapes")) return MORTISE_OK;
  if (status == MORTISE_OK) return status;
  if (self.defect.is("names_nothing")) std::strcpy(error->message, "the checkpoint is bad");
  if (self.defect.is("leaks_after_failure")) {
    void* lost = nullptr;
    self.device_table->allocate(self.device, 64, &lost, nullptr);
  }
  return self.defect.is("wrong_status") ? MORTISE_NOT_FOUND : status;
}

void flip(void* data, std::size_t number) {
  static_cast<uint8_t*>(data)[4 * number] ^= 1;  // numbers are f32
}

// Whether a defect that depends on the batch shows in this step.
bool shows(Model& self, const mortise_batch& batch) {
  const auto is = [&](const char* name) { return self.defect.is(name); };
  bool has_decode = false, is_ascending = true, has_chunk = false, repeats = false;
  for (int32_t i = 0; i < batch.num_real_seqs; ++i) {
    const int32_t count = batch.cu_seqlens_q[i + 1] - batch.cu_seqlens_q[i];
    has_decode = has_decode || count == 1;
    has_chunk = has_chunk || (count > 1 && count < batch.seq_lens[i]);
    if (i > 0) is_ascending = is_ascending && batch.seq_ids[i] >= batch.seq_ids[i - 1];
    if (i > 0) repeats = repeats || batch.seq_ids[i] == batch.seq_ids[i - 1];
  }
  const bool decodes = batch.max_query_len == 1 && batch.seq_lens[0] > 1;
  bool shows = false;
  shows |= is("depends_on_batch") && batch.num_real_seqs > 1;
  shows |= is("depends_on_order") && !is_ascending;
  shows |= is("depends_on_chunks") && has_chunk;
  shows |= is("decodes_otherwise") && (decodes || (batch.max_query_len == 1 && batch.num_real_seqs > 1));
  shows |= is("mixes_badly") && has_decode && batch.max_query_len > 1;
  shows |= is("reads_padding") && batch.num_tokens > batch.num_real_tokens;
  shows |= is("reads_bounds") && batch.max_seq_len > *std::max_element(batch.seq_lens, batch.seq_lens + batch.num_seqs);
  shows |= is("alternates") && self.steps % 6 == 0;
  shows |= is("depends_on_blocks") && batch.block_table[0] != 1;
  shows |= is("depends_on_block_size") && batch.block_size == 64;
  shows |= is("depends_on_runs") && repeats;
  shows |= is("looks_ahead") && batch.token_ids[batch.num_real_tokens - 1] % 2 == 0;
  shows |= is("forgets") && self.was_deactivated;
  shows |= is("depends_on_sizes") && self.max_batched_tokens == 300;
  shows |= is("depends_on_thread") && self.creator != ::gettid();
  return shows;
}

// What a step may not do with memory.
void misuse_memory(Model& self, const mortise_step& step) {
  [[maybe_unused]] static volatile uint32_t sink;
  if (self.kept_attention != nullptr) sink = self.kept_attention->struct_size;
  if (self.defect.is("keeps_table")) self.kept_attention = step.attention_table;
  if (self.defect.is("keeps_reader")) sink = *static_cast<const uint32_t*>(self.view.data);
  if (!self.defect.is("allocates_in_step")) return;
  void* memory = nullptr;
  self.device_table->allocate(self.device, 64, &memory, nullptr);
  self.device_table->free(self.device, memory);
}

mortise_status forward(mortise_model* handle, const mortise_step* step, mortise_tensor* hidden, mortise_error* error) {
  Model& self = of(handle);
  if (self.defect.is("throws")) throw std::string("out of a step");
  misuse_memory(self, *step);
  ++self.steps;
  self.rows_seen += step->batch->num_real_tokens;
  mortise_step inner = *step;
  mortise_batch batch = *step->batch;
  const std::vector<int32_t> zeros(static_cast<std::size_t>(batch.num_tokens));
  if (self.defect.is("ignores_tokens")) batch.device_token_ids = zeros.data();
  inner.batch = &batch;
  const mortise_status status = table().forward(self.handle(), &inner, hidden, error);
  if (status != MORTISE_OK) return status;
  if (shows(self, batch)) flip(hidden->data, 2);
  if (self.defect.is("keeps_state") && self.rows_seen < 20) {  // in the last row, which no earlier step has
    flip(hidden->data, static_cast<std::size_t>((batch.num_real_tokens - 1) * hidden->stride[0]));
  }
  if (self.defect.is("wrong_shape")) --hidden->shape[1];
  if (self.defect.is("not_finite")) static_cast<float*>(hidden->data)[3] = INFINITY;
  if (self.defect.is("differs_by_instance")) flip(hidden->data, reinterpret_cast<uintptr_t>(&self) / 16 % 40);
  return status;
}

mortise_status head(mortise_model* handle, const mortise_step* step, const mortise_tensor* hidden, int32_t vocab_begin,
                    int32_t vocab_end, const mortise_tensor* logits, mortise_error* error) {
  Model& self = of(handle);
  const mortise_status status = table().head(self.handle(), step, hidden, vocab_begin, vocab_end, logits, error);
  const auto is = [&](const char* name) { return self.defect.is(name); };
  ++self.heads;
  bool shows = is("depends_on_slice") && vocab_begin > 0;
  shows |= is("depends_on_rows") && hidden->shape[0] == 1;
  shows |= is("needs_dense_rows") && logits->stride[0] != logits->shape[1];
  shows |= is("head_alternates") && self.heads % 7 == 0;
  if (shows) flip(logits->data, 1);
  if (is("writes_past_logits")) static_cast<float*>(logits->data)[logits->shape[0] * logits->stride[0]] = 7;
  if (is("changes_hidden")) flip(hidden->data, 0);
  return status;
}

mortise_status supports(const mortise_query* query, mortise_error* reason) {
  return llama().supports(query, reason);
}

const mortise_model_table kTable = {sizeof kTable, 0, dims, load, forward, head};

constexpr const char* kSchema = R"schema({
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"title": "folder of the checkpoint", "type": "string", "minLength": 1, "format": "path"},
    "defect": {"title": "what it does wrong", "type": "string", "default": "none"},
    "max_model_len": {"title": "as of llama", "type": ["integer", "null"], "minimum": 1, "default": null},
    "dtype": {"title": "as of llama", "enum": ["auto", "bf16", "f32"], "default": "auto"},
    "weights": {"title": "as of llama", "enum": ["auto", "int8", "int8-block32", "int4", "int4-block32", "fp8", "mxfp4"], "default": "auto"},
    "group_size": {"title": "as of llama", "enum": [32, 64, 128], "default": 64}
  }
})schema";

const mortise_component kComponent = {sizeof kComponent,
                                      0,
                                      MORTISE_KIND_MODEL,
                                      0,
                                      MORTISE_CAP_EXACT,
                                      "broken_model",
                                      "does one thing wrong",
                                      kSchema,
                                      nullptr,
                                      &kTable,
                                      supports,
                                      create,
                                      destroy,
                                      activate,
                                      deactivate,
                                      nullptr};

}  // namespace

MORTISE_PLUGIN("org.example.broken", "tests", "1", "Apache-2.0", &kComponent)
