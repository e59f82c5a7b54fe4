// plugins/proposers/draft_model/plugin.cpp: options, entry.
#include "mortise/proposer.hpp"
#include "proposers/draft_model/draft_model.hpp"

namespace mortise::draft_model {
namespace {

constexpr const char* kOptionsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"title": "checkpoint folder of the draft model, which has the target's tokenizer", "type": "string",
             "minLength": 1, "format": "path"},
    "max_tokens": {"title": "maximum number of draft tokens for a sequence in a step", "type": "integer", "minimum": 1,
                   "maximum": 64, "default": 5},
    "branches": {"title": "number of first tokens to try, each the start of a branch of max_tokens tokens",
                 "type": "integer", "minimum": 1, "maximum": 8, "default": 1},
    "kv_memory": {"title": "memory for the draft model's KV blocks: bytes, a text such as \"512MiB\", or auto: as many tokens as the target's KV cache holds",
                  "type": ["integer", "string"], "default": "auto"},
    "dtype": {"title": "what the draft model computes in; auto: bf16 for bf16 checkpoints, f32 for f32 and f16 checkpoints",
              "enum": ["auto", "bf16", "f32"], "default": "auto"},
    "attention": {"title": "options of the pipeline's attention that differ for the draft model",
                  "type": "object", "default": {}},
    "devices": {"title": "ranks of the pipeline's device that run the draft model, counted from 0; several cut it",
                "type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1023}, "minItems": 1,
                "uniqueItems": true, "default": [0]}
  }
})schema";

constexpr mortise_component kDraftModel =
    ProposerComponent<DraftModel>::component("draft_model", "drafts with a smaller model of the same tokenizer",
                                             kOptionsSchema, MORTISE_CAP_TREE | MORTISE_CAP_DISTRIBUTION);

}  // namespace
}  // namespace mortise::draft_model

MORTISE_PLUGIN("mortise.draft_model", "Mortise", "0.1.0", "Apache-2.0", &mortise::draft_model::kDraftModel)
