// plugins/models/llama/plugin.cpp: the component table; each entry unpacks its arguments behind the exception barrier.
#include "models/llama/model.hpp"

namespace mortise::llama {
namespace {

constexpr const char* kOptionsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"title": "folder of the checkpoint (config.json, safetensors, tokenizer)",
             "type": "string", "minLength": 1, "format": "path"},
    "max_model_len": {"title": "longest sequence in tokens; null: the checkpoint's max_position_embeddings",
                      "type": ["integer", "null"], "minimum": 1, "default": null},
    "dtype": {"title": "what to compute in; auto: bf16 checkpoints in bf16, f32 and f16 ones in f32",
              "enum": ["auto", "bf16", "f32"], "default": "auto"},
    "weights": {"title": "what the layers' matrices are kept as; auto: as in the checkpoint; int8: a scale a row; int4: a scale a group",
                "enum": ["auto", "int8", "int4"], "default": "auto"},
    "group_size": {"title": "columns that share a scale in int4 weights", "enum": [32, 64, 128], "default": 64}
  }
})schema";

Model& model_of(void* instance) {
  return *static_cast<Model*>(instance);
}
Model& model_of(mortise_model* instance) {
  return *reinterpret_cast<Model*>(instance);
}

// Fills as much of *to as its owner knows.
template <typename T>
void fill(T* to, T value) {
  value.struct_size = to->struct_size;
  std::memcpy(to, &value, std::min<std::size_t>(to->struct_size, sizeof(T)));
}

mortise_status supports(const mortise_query* query, mortise_error* reason) {
  return guard(reason, "llama", [&] {
    const auto asked = known(query);
    if (asked.model_config.size != 0) parse_config(view(asked.model_config));
  });
}

mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  return guard(error, "llama", [&] { *instance = new Model(known(args)); });
}

void destroy(void* instance) {
  delete &model_of(instance);
}

mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  const mortise_status status = guard(error, "activate", [&] { model_of(instance).activate(known(args)); });
  if (status != MORTISE_OK) model_of(instance).deactivate();  // half of the buffers are of no use
  return status;
}

void deactivate(void* instance) {
  model_of(instance).deactivate();
}

mortise_status dims(mortise_model* model, mortise_model_dims* out, mortise_error* error) {
  return guard(error, "dims", [&] { fill(out, model_of(model).dims()); });
}

mortise_status load(mortise_model* model, const mortise_weight_reader* reader, mortise_error* error) {
  return guard(error, "load", [&] { model_of(model).load(known(reader)); });
}

mortise_status forward(mortise_model* model, const mortise_step* step, mortise_tensor* hidden, mortise_error* error) {
  return guard(error, "forward", [&] { fill(hidden, model_of(model).forward(known(step))); });
}

mortise_status head(mortise_model* model, const mortise_step* step, const mortise_tensor* hidden, int32_t vocab_begin,
                    int32_t vocab_end, const mortise_tensor* logits, mortise_error* error) {
  return guard(error, "head",
               [&] { model_of(model).head(known(step), known(hidden), vocab_begin, vocab_end, known(logits)); });
}

constexpr mortise_model_table kTable = {sizeof(mortise_model_table), 0, dims, load, forward, head};

constexpr mortise_component kLlama = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_MODEL,
    0,
    MORTISE_CAP_EXACT | MORTISE_CAP_CAPTURE,
    "llama",
    "Llama, Mistral, Qwen2 and Qwen3 checkpoints in bf16 or f32, with weights in these, int8 or int4",
    kOptionsSchema,
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    activate,
    deactivate,
    nullptr,
};

}  // namespace
}  // namespace mortise::llama

MORTISE_PLUGIN("mortise.llama", "Mortise", "0.1.0", "Apache-2.0", &mortise::llama::kLlama)
