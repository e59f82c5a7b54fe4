// tests/unit/loader/plugins/parts.cpp: one part of each kind, valid in every respect. The attention and the scheduler
// have options of all types; the attention works on the device "toy_device" only.
#include <string_view>

#include "mortise/plugin.hpp"
#include "stub_tables.hpp"

namespace {

constexpr char kNoOptions[] = R"({"type": "object"})";

constexpr char kModelSchema[] = R"({
  "type": "object",
  "required": ["path"],
  "properties": {
    "path": {"title": "folder of the model", "type": "string", "format": "path"},
    "max_model_len": {"title": "positions", "type": ["integer", "null"], "minimum": 1, "default": null}
  }})";

constexpr char kAttentionSchema[] = R"({
  "type": "object",
  "properties": {
    "block_size": {"title": "tokens per KV block", "type": "integer", "minimum": 1, "maximum": 256, "default": 16}
  }})";

constexpr char kSchedulerSchema[] = R"({
  "type": "object",
  "properties": {
    "max_num_seqs": {"title": "sequences at a time", "type": "integer", "minimum": 1, "default": 64},
    "max_batched_tokens": {"title": "rows a step", "type": "integer", "minimum": 1, "default": 2048},
    "policy": {"title": "which goes first", "enum": ["arrival", "shortest"], "default": "arrival"},
    "weight": {"title": "of age", "type": "number", "exclusiveMinimum": 0, "default": 0.5},
    "strict": {"title": "no overtaking", "type": "boolean", "default": false},
    "classes": {"title": "names of classes", "type": "array", "items": {"type": "string"}, "default": []}
  },
  "dependencies": {"classes": ["weight"]}})";

constexpr mortise_device_table kDevice = stub::device_table();
constexpr mortise_model_table kModel = stub::model_table();
constexpr mortise_attention_table kAttention = stub::attention_table();
constexpr mortise_proposer_table kProposer = stub::proposer_table();
constexpr mortise_scheduler_table kScheduler = stub::scheduler_table();

mortise_status needs_toy_device(const mortise_query* query, mortise_error* reason) {
  if (query->device == nullptr || std::string_view(query->device) == "toy_device") return MORTISE_OK;
  return mortise::set_error(reason, MORTISE_INVALID_ARGUMENT, "device", "toy_attention runs on toy_device only");
}

constexpr mortise_component attention() {
  mortise_component c = stub::component(MORTISE_KIND_ATTENTION, "toy_attention", kAttentionSchema, &kAttention);
  c.capabilities = MORTISE_CAP_EXACT | MORTISE_CAP_MULTI_QUERY;
  c.numerics_id = "toy/1";
  c.supports = needs_toy_device;
  return c;
}

constexpr mortise_component kParts[] = {
    stub::component(MORTISE_KIND_DEVICE, "toy_device", kNoOptions, &kDevice),
    stub::component(MORTISE_KIND_MODEL, "toy_model", kModelSchema, &kModel),
    attention(),
    stub::component(MORTISE_KIND_PROPOSER, "toy_proposer", kNoOptions, &kProposer),
    stub::component(MORTISE_KIND_SCHEDULER, "toy_scheduler", kSchedulerSchema, &kScheduler),
};

}  // namespace

MORTISE_PLUGIN("test.parts", "Tests", "1.2.3", "Apache-2.0", &kParts[0], &kParts[1], &kParts[2], &kParts[3], &kParts[4])
