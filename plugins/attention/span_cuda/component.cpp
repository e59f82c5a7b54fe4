// component.cpp: each entry unpacks its arguments behind the exception barrier.
#include "attention/span_cuda/component.hpp"

#include <cstring>

namespace mortise::span_cuda {
namespace {

SpanAttention& attention_of(void* instance) {
  return *static_cast<SpanAttention*>(instance);
}
SpanAttention& attention_of(mortise_attention* instance) {
  return *reinterpret_cast<SpanAttention*>(instance);
}

mortise_status kv_layout(mortise_attention*, const mortise_model_dims* dims, int32_t kv_dtype, int32_t block_size,
                         mortise_kv_layout* layout, mortise_error* error) {
  return guard(error, "kv_layout", [&] {
    mortise_kv_layout value = SpanAttention::kv_layout(known(dims), kv_dtype, block_size);
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

mortise_status copy_blocks(mortise_attention* attention, mortise_stream* stream, const int32_t* from, const int32_t* to,
                           int32_t num_blocks, mortise_error* error) {
  return guard(error, "copy_blocks", [&] { attention_of(attention).copy_blocks(stream, from, to, num_blocks); });
}

}  // namespace

const mortise_attention_table kAttentionTable = {
    sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, run, copy_blocks,
};

mortise_status supports(const mortise_query* query, mortise_error* reason) {
  return guard(reason, "attention", [&] {
    const auto asked = known(query);
    if (asked.device != nullptr && std::string_view(asked.device) != "cuda") {
      throw Failure(MORTISE_UNIMPLEMENTED, "attention",
                    std::string("this file serves the device cuda, not ") + asked.device);
    }
    require_supported(asked.dims == nullptr ? mortise_model_dims{} : known(asked.dims), asked.kv_dtype,
                      asked.block_size);
  });
}

mortise_status create(Sharing sharing, const mortise_create_args* args, void** instance, mortise_error* error) {
  return guard(error, "create", [&] { *instance = new SpanAttention(known(args), sharing); });
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

}  // namespace mortise::span_cuda
