// tests/unit/conformance/broken_attention.cpp: the built-in attention of the CPU (PAGED_FILE), with one defect that an
// option names. The defects touch memory as if it were the host's: they run on the CPU.
#include <algorithm>
#include <map>

#include "defects.hpp"
#include "mortise/attention.h"

namespace {

using broken::Defect;

const mortise_component& paged() {
  return broken::component_of(PAGED_FILE);
}
const mortise_attention_table& table() {
  return *static_cast<const mortise_attention_table*>(paged().table);
}

struct Attention {
  Defect defect;
  void* inner = nullptr;
  mortise_device* device = nullptr;
  const mortise_device_table* device_table = nullptr;
  mortise_model_dims dims{};
  char* kv = nullptr;
  uint64_t kv_bytes = 0, block_bytes = 0;
  const int32_t* kept = nullptr;  // of an earlier batch
  int rows_written = 0;
  bool saw_nan = false;
  int runs = 0;
  std::map<int32_t, uint64_t> owners;  // of blocks

  mortise_attention* handle() const { return static_cast<mortise_attention*>(inner); }
};
Attention& of(void* instance) {
  return *static_cast<Attention*>(instance);
}
Attention& of(mortise_attention* handle) {
  return *reinterpret_cast<Attention*>(handle);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return mortise::guard(error, "create", [&] {
    auto self = std::make_unique<Attention>(Attention{Defect(mortise::Options(*args).get<std::string>("defect"))});
    mortise_create_args inner = *args;  // the options of paged: none
    self->device = args->device;
    self->device_table = args->device_table;
    mortise_error why = mortise::make_error();
    mortise::check(paged().create(host, &inner, &self->inner, &why), why);
    void* lost = nullptr;
    if (self->defect.is("leaks_device_memory")) args->device_table->allocate(args->device, 64, &lost, nullptr);
    *instance = self.release();
  });
}
void destroy(void* instance) {
  paged().destroy(of(instance).inner);
  delete &of(instance);
}
mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  return paged().activate(of(instance).inner, args, error);
}
void deactivate(void* instance) {
  const Attention& self = of(instance);
  if (self.defect.is("clears_cache")) std::memset(self.kv, 0, self.kv_bytes);
  paged().deactivate(self.inner);
}

mortise_status kv_layout(mortise_attention* handle, const mortise_model_dims* dims, int32_t kv_dtype,
                         int32_t block_size, mortise_kv_layout* layout, mortise_error* error) {
  const mortise_status status = table().kv_layout(of(handle).handle(), dims, kv_dtype, block_size, layout, error);
  if (of(handle).defect.is("one_id")) std::strcpy(layout->layout_id, "one for all");
  return status;
}

mortise_status bind(mortise_attention* handle, const mortise_attention_bind_args* args, mortise_error* error) {
  Attention& self = of(handle);
  mortise_attention_bind_args inner = *args;
  self.dims = *args->dims;
  if (self.defect.is("ignores_windows")) self.dims.sliding_windows = nullptr;
  inner.dims = &self.dims;
  self.kv = static_cast<char*>(args->kv);
  self.kv_bytes = args->kv_bytes;
  self.block_bytes = args->kv_bytes / static_cast<uint64_t>(args->num_blocks);
  if (self.defect.is("takes_any_memory")) inner.kv_bytes *= 2;
  return table().bind(self.handle(), &inner, error);
}

mortise_status plan(mortise_attention* handle, const mortise_step* step, mortise_error* error) {
  Attention& self = of(handle);
  [[maybe_unused]] static volatile int32_t sink;
  if (self.kept != nullptr) sink = self.kept[0];
  if (self.defect.is("keeps_batch")) self.kept = step->batch->positions;
  if (self.defect.is("throws")) throw std::string("out of a step");
  return table().plan(self.handle(), step, error);
}

bool has_nan(const mortise_tensor& tensor) {
  const auto* bits = static_cast<const uint16_t*>(tensor.data);
  return std::any_of(bits, bits + tensor.shape[0] * tensor.stride[0],
                     [](uint16_t value) { return (value & 0x7fff) > 0x7f80; });
}

mortise_status append(mortise_attention* handle, const mortise_step* step, const mortise_append_args* args,
                      mortise_error* error) {
  Attention& self = of(handle);
  const mortise_batch& batch = *step->batch;
  mortise_append_args inner = *args;
  mortise_rope rope{};
  if (args->rope != nullptr) {
    rope = *args->rope;
    if (self.defect.is("ignores_interleaved")) rope.interleaved = 0;
    inner.rope = &rope;
  }
  if (self.defect.is("ignores_norms")) inner.k_norm = nullptr;
  if (self.defect.is("mixes_layers")) inner.layer %= 3;
  if (self.defect.is("changes_v")) *static_cast<uint16_t*>(args->v->data) = 0;
  self.rows_written += batch.num_real_tokens;
  self.saw_nan = self.saw_nan || has_nan(*args->v);
  const mortise_status status = table().append(self.handle(), step, &inner, error);
  const bool has_padding = batch.num_tokens > batch.num_real_tokens;
  if ((self.defect.is("writes_other_slots") && batch.seq_ids[0] > 4) ||
      (self.defect.is("writes_for_padding") && has_padding)) {
    std::memset(self.kv + 2 * self.block_bytes, 0x11, self.block_bytes);  // the first one of the second sequence
  }
  return status;
}

void flip(const mortise_tensor* out, int64_t row) {
  *static_cast<uint8_t*>(static_cast<void*>(static_cast<uint16_t*>(out->data) + row * out->stride[0] + 2)) ^= 1;
}

// Whether a defect that depends on the batch shows in this step.
bool shows(Attention& self, const mortise_batch& batch, const mortise_tensor& q) {
  const auto is = [&](const char* name) { return self.defect.is(name); };
  bool shows = false;
  bool has_decode = false, is_ascending = true, has_chunk = false, has_drafts = false, repeats = false, foreign = false;
  for (int32_t i = 0; i < batch.num_real_seqs; ++i) {
    const int32_t count = batch.cu_seqlens_q[i + 1] - batch.cu_seqlens_q[i];
    has_decode = has_decode || count == 1;
    has_chunk = has_chunk || (count > 9 && count < batch.seq_lens[i]);
    has_drafts = has_drafts || (count > 1 && count < 10 && count < batch.seq_lens[i]);
    if (i > 0) is_ascending = is_ascending && batch.seq_ids[i] >= batch.seq_ids[i - 1];
    if (i > 0) repeats = repeats || batch.seq_ids[i] == batch.seq_ids[i - 1];
    for (int32_t block = 0; block < (batch.seq_lens[i] - 1) / batch.block_size + 1; ++block) {
      const int32_t id = batch.block_table[i * batch.max_blocks + block];
      foreign = foreign || self.owners.emplace(id, batch.seq_ids[i]).first->second != batch.seq_ids[i];
    }
  }
  const int64_t dense = static_cast<int64_t>(self.dims.num_heads) * self.dims.head_dim;
  shows |= is("one_bit");
  shows |= is("depends_on_batch") && batch.num_real_seqs > 1;
  shows |= is("depends_on_order") && !is_ascending;
  shows |= is("depends_on_chunks") && has_chunk;
  shows |= is("decodes_otherwise") && batch.num_real_seqs > 1 && batch.max_query_len == 1;
  shows |= is("mixes_badly") && has_decode && batch.max_query_len > 1;
  shows |= is("false_multi_query") && has_drafts;
  shows |= is("false_cascade") && batch.num_groups > 0;
  shows |= is("depends_on_runs") && repeats;
  shows |= is("reads_bounds") && batch.max_seq_len > *std::max_element(batch.seq_lens, batch.seq_lens + batch.num_seqs);
  shows |= is("depends_on_blocks") && batch.block_table[0] > 20;
  shows |= is("depends_on_block_size") && batch.block_size == 64;
  shows |= is("owns_blocks") && foreign;
  shows |= is("needs_dense_rows") && q.stride[0] != dense;
  shows |= is("reads_stale") && self.saw_nan;
  shows |= is("reads_later_rows") && self.saw_nan && batch.seq_lens[0] == 60;
  shows |= is("keeps_state") && self.rows_written < 20;
  shows |= is("alternates") && ++self.runs % 5 == 0;
  shows |= is("wrong_in_f32") && self.dims.dtype == MORTISE_F32;
  shows |= is("wrong_groups") && self.dims.num_heads == 8;
  shows |= is("wrong_head_size") && self.dims.head_dim == 80;
  return shows;
}

mortise_status run(mortise_attention* handle, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  Attention& self = of(handle);
  if (self.defect.is("mixes_layers")) layer %= 3;
  const mortise_status status = table().run(self.handle(), step, layer, q, out, error);
  if (shows(self, *step->batch, *q)) flip(out, 0);
  if (self.defect.is("writes_past_out")) static_cast<uint16_t*>(out->data)[out->bytes / 2] = 7;
  if (self.defect.is("allocates_in_step")) {
    void* memory = nullptr;
    self.device_table->allocate(self.device, 64, &memory, nullptr);
    self.device_table->free(self.device, memory);
  }
  return status;
}

mortise_status copy_blocks(mortise_attention* handle, mortise_stream* stream, const int32_t* from, const int32_t* to,
                           int32_t num_blocks, mortise_error* error) {
  const Attention& self = of(handle);
  if (!self.defect.is("copies_half")) return table().copy_blocks(self.handle(), stream, from, to, num_blocks, error);
  for (int32_t i = 0; i < num_blocks; ++i) {
    std::memcpy(self.kv + static_cast<uint64_t>(to[i]) * self.block_bytes,
                self.kv + static_cast<uint64_t>(from[i]) * self.block_bytes, self.block_bytes / 2);
  }
  return MORTISE_OK;
}

mortise_status supports(const mortise_query* query, mortise_error* reason) {
  return paged().supports(query, reason);
}

const mortise_attention_table kTable = {sizeof kTable, 0, kv_layout, bind, plan, append, run, copy_blocks};

const mortise_component kComponent = {
    sizeof kComponent,
    0,
    MORTISE_KIND_ATTENTION,
    0,
    MORTISE_CAP_EXACT | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_CASCADE | MORTISE_CAP_SLIDING_WINDOW,
    "broken_attention",
    "does one thing wrong",
    R"({"type": "object", "properties": {"defect": {"title": "what it does wrong", "type": "string", "default": "none"}}})",
    "attention-span256/1",
    &kTable,
    supports,
    create,
    destroy,
    activate,
    deactivate,
    nullptr};

// The same in a class of its own, whose bits the suite does not know.
constexpr mortise_component in_another_class(mortise_component component) {
  component.name = "another_class";
  component.numerics_id = "another-span/1";
  return component;
}
const mortise_component kAnotherClass = in_another_class(kComponent);

}  // namespace

MORTISE_PLUGIN("org.example.broken", "tests", "1", "Apache-2.0", &kComponent, &kAnotherClass)
