#include "attention/span_cpu/component.hpp"

#include "attention/span_cpu/attention.hpp"
#include "mortise/ext/kv_reads.h"

namespace mortise::span_cpu {
namespace {

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

SpanAttention& attention_of(void* instance) {
  return *static_cast<SpanAttention*>(instance);
}
SpanAttention& attention_of(mortise_attention* instance) {
  return *reinterpret_cast<SpanAttention*>(instance);
}

// What the components differ in.
struct Paged {
  static constexpr const char* kName = "paged";
  static constexpr bool kSharesPrefixes = false;
};
struct Cascade {
  static constexpr const char* kName = "cascade";
  static constexpr bool kSharesPrefixes = true;
};

template <class Kind>
mortise_status supports(const mortise_query* query, mortise_error* reason) {
  return guard(reason, Kind::kName, [&] {
    const auto asked = known(query);
    if (asked.device != nullptr && std::string_view(asked.device) != "cpu") {
      throw Failure(MORTISE_UNIMPLEMENTED, Kind::kName,
                    std::string("this file serves the device cpu, not ") + asked.device);
    }
    require_supported(Kind::kName, asked.dims == nullptr ? mortise_model_dims{} : known(asked.dims), asked.kv_dtype,
                      asked.block_size);
  });
}

template <class Kind>
mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return guard(error, "create",
               [&] { *instance = new SpanAttention(host, known(args), Kind::kName, Kind::kSharesPrefixes); });
}

void destroy(void* instance) {
  delete &attention_of(instance);
}

mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  return guard(error, "activate", [&] { attention_of(instance).activate(known(args)); });
}

void deactivate(void* instance) {
  attention_of(instance).deactivate();
}

mortise_status kv_layout(mortise_attention* attention, const mortise_model_dims* dims, int32_t kv_dtype,
                         int32_t block_size, mortise_kv_layout* layout, mortise_error* error) {
  return guard(error, "kv_layout", [&] {
    mortise_kv_layout value = attention_of(attention).kv_layout(known(dims), kv_dtype, block_size);
    value.struct_size = layout->struct_size;
    std::memcpy(layout, &value, std::min<std::size_t>(layout->struct_size, sizeof value));
  });
}

mortise_status bind(mortise_attention* attention, const mortise_attention_bind_args* args, mortise_error* error) {
  return guard(error, "bind", [&] { attention_of(attention).bind(known(args)); });
}

mortise_status plan(mortise_attention* attention, const mortise_step* step, mortise_error* error) {
  return guard(error, "plan", [&] { attention_of(attention).plan(known(step)); });
}

mortise_status append(mortise_attention* attention, const mortise_step* step, const mortise_append_args* args,
                      mortise_error* error) {
  return guard(error, "append", [&] { attention_of(attention).append(known(step), known(args)); });
}

mortise_status run(mortise_attention* attention, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  return guard(error, "run", [&] { attention_of(attention).run(known(step), layer, known(q), known(out)); });
}

mortise_status copy_blocks(mortise_attention* attention, mortise_stream*, const int32_t* from, const int32_t* to,
                           int32_t num_blocks, mortise_error* error) {
  return guard(error, "copy_blocks", [&] { attention_of(attention).copy_blocks(from, to, num_blocks); });
}

uint64_t kv_bytes(mortise_attention* attention, int32_t layer) {
  return attention_of(attention).kv_bytes_read(layer);
}

constexpr mortise_kv_reads_table kReads = {sizeof(mortise_kv_reads_table), 0, kv_bytes};

const void* get_ext(void*, const char* id) {
  return std::string_view(id) == MORTISE_EXT_KV_READS ? &kReads : nullptr;
}

constexpr mortise_attention_table kTable = {
    sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, run, copy_blocks,
};

template <class Kind>
constexpr mortise_component component(uint64_t more_capabilities, const char* summary) {
  return {
      sizeof(mortise_component),
      0,
      MORTISE_KIND_ATTENTION,
      0,
      MORTISE_CAP_EXACT | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_SLIDING_WINDOW | more_capabilities,
      Kind::kName,
      summary,
      kOptionsSchema,
      "attention-span256/1",
      &kTable,
      supports<Kind>,
      create<Kind>,
      destroy,
      activate,
      deactivate,
      get_ext,
  };
}

}  // namespace

constinit const mortise_component kPaged =
    component<Paged>(0, "paged KV cache in bf16, f32 or int8, attention in spans of 256 keys");
constinit const mortise_component kCascade =
    component<Cascade>(MORTISE_CAP_CASCADE, "as paged; a prefix that sequences share is read once for all of them");

}  // namespace mortise::span_cpu
