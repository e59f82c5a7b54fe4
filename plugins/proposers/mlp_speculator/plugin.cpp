#include "mortise/proposer.hpp"
#include "proposers/mlp_speculator/speculator.hpp"

namespace mortise::mlp_speculator {
namespace {

constexpr const char* kOptionsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"title": "folder of the speculator's checkpoint (config.json, safetensors)", "type": "string",
             "minLength": 1, "format": "path"},
    "max_tokens": {"title": "maximum number of drafts for a sequence in a step; null: the checkpoint's n_predict",
                   "type": ["integer", "null"], "minimum": 1, "maximum": 64, "default": null}
  }
})schema";

constexpr mortise_component kMlpSpeculator = ProposerComponent<Speculator>::component(
    "mlp_speculator", "multi-stage MLP on the target's hidden rows, from a checkpoint trained for the target",
    kOptionsSchema, MORTISE_CAP_NEEDS_HIDDEN);

}  // namespace
}  // namespace mortise::mlp_speculator

MORTISE_PLUGIN("mortise.mlp_speculator", "Mortise", "0.1.0", "Apache-2.0", &mortise::mlp_speculator::kMlpSpeculator)
