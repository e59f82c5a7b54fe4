// component.hpp: what the component tables of paged and cascade on CUDA have in common: all but name, capabilities and
// `create`.
#pragma once

#include "attention/span_cuda/attention.hpp"
#include "mortise/attention.h"

namespace mortise::span_cuda {

static_assert(cuda::kSpan == 128, "the numerics id names the span");
constexpr const char* kNumericsId = "cuda-span128/1";

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

extern const mortise_attention_table kAttentionTable;

mortise_status supports(const mortise_query* query, mortise_error* reason);
mortise_status create(Sharing sharing, const mortise_create_args* args, void** instance, mortise_error* error);
void destroy(void* instance);
mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error);
void deactivate(void* instance);

}  // namespace mortise::span_cuda
