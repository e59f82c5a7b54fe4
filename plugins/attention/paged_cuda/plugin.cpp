// plugins/attention/paged_cuda/plugin.cpp: the component table; each entry unpacks its arguments behind the exception
// barrier.
#include "attention/paged_cuda/paged.hpp"

namespace mortise::paged_cuda {
namespace {

static_assert(cuda::kSpan == 128, "the numerics id names the span");

// The host reads block_size too: it owns the blocks. The plugin takes it from bind.
constexpr const char* kOptionsSchema = R"({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "block_size": {
      "title": "tokens of a KV block",
      "type": "integer",
      "enum": [16, 32, 64, 128],
      "default": 16
    }
  }
})";

Paged& paged_of(void* instance) {
  return *static_cast<Paged*>(instance);
}
Paged& paged_of(mortise_attention* instance) {
  return *reinterpret_cast<Paged*>(instance);
}

mortise_status supports(const mortise_query* query, mortise_error* reason) {
  return guard(reason, "paged", [&] {
    const auto asked = known(query);
    if (asked.device != nullptr && std::string_view(asked.device) != "cuda") {
      throw Failure(MORTISE_UNIMPLEMENTED, "paged",
                    std::string("this file serves the device cuda, not ") + asked.device);
    }
    require_supported(asked.dims == nullptr ? mortise_model_dims{} : known(asked.dims), asked.kv_dtype,
                      asked.block_size);
  });
}

mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  return guard(error, "create", [&] { *instance = new Paged(known(args)); });
}

void destroy(void* instance) {
  delete &paged_of(instance);
}

mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  return guard(error, "activate", [&] { paged_of(instance).activate(known(args)); });
}

void deactivate(void* instance) {
  paged_of(instance).deactivate();
}

mortise_status kv_layout(mortise_attention*, const mortise_model_dims* dims, int32_t kv_dtype, int32_t block_size,
                         mortise_kv_layout* layout, mortise_error* error) {
  return guard(error, "kv_layout", [&] {
    mortise_kv_layout value = Paged::kv_layout(known(dims), kv_dtype, block_size);
    value.struct_size = layout->struct_size;
    std::memcpy(layout, &value, std::min<std::size_t>(layout->struct_size, sizeof value));
  });
}

mortise_status bind(mortise_attention* attention, const mortise_attention_bind_args* args, mortise_error* error) {
  return guard(error, "bind", [&] { paged_of(attention).bind(known(args)); });
}

mortise_status plan(mortise_attention* attention, const mortise_step* step, mortise_error* error) {
  return guard(error, "plan", [&] { paged_of(attention).plan(known(step)); });
}

mortise_status append(mortise_attention* attention, const mortise_step* step, const mortise_append_args* args,
                      mortise_error* error) {
  return guard(error, "append", [&] { paged_of(attention).append(known(step), known(args)); });
}

mortise_status run(mortise_attention* attention, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  return guard(error, "run", [&] { paged_of(attention).run(known(step), layer, known(q), known(out)); });
}

mortise_status copy_blocks(mortise_attention* attention, mortise_stream* stream, const int32_t* from, const int32_t* to,
                           int32_t num_blocks, mortise_error* error) {
  return guard(error, "copy_blocks", [&] { paged_of(attention).copy_blocks(stream, from, to, num_blocks); });
}

constexpr mortise_attention_table kTable = {
    sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, run, copy_blocks,
};

constexpr mortise_component kPaged = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_ATTENTION,
    0,
    MORTISE_CAP_EXACT | MORTISE_CAP_CAPTURE | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_SLIDING_WINDOW,
    "paged",
    "paged KV cache in bf16, attention in spans of 128 keys on tensor cores",
    kOptionsSchema,
    "cuda-span128/1",
    &kTable,
    supports,
    create,
    destroy,
    activate,
    deactivate,
    nullptr,
};

}  // namespace
}  // namespace mortise::paged_cuda

MORTISE_PLUGIN("mortise.paged-cuda", "Mortise", "0.1.0", "Apache-2.0", &mortise::paged_cuda::kPaged)
