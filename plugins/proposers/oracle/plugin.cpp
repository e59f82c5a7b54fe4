// plugins/proposers/oracle/plugin.cpp: options, entry.
#include "mortise/proposer.hpp"
#include "proposers/oracle/oracle.hpp"

namespace mortise::oracle {
namespace {

constexpr const char* kOptionsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "required": ["log"],
  "properties": {
    "log": {"title": "request log of a run of the same requests, as --record writes it", "type": "string",
            "minLength": 1, "format": "path"},
    "rate": {"title": "probability that a draft is right, independently for each draft", "type": "number", "minimum": 0,
             "maximum": 1, "default": 0.8},
    "seed": {"title": "seed of the errors: the same seed makes errors at the same positions", "type": "integer", "minimum": 0,
             "default": 0},
    "max_tokens": {"title": "maximum number of drafts for a sequence in a step", "type": "integer", "minimum": 1, "maximum": 64,
                   "default": 5},
    "path": {"title": "checkpoint folder of a draft model that is run for its cost, as draft_model runs it; null: drafts cost nothing",
             "type": ["string", "null"], "minLength": 1, "format": "path", "default": null}
  }
})schema";

constexpr mortise_component kOracle = ProposerComponent<Oracle>::component(
    "oracle", "for tests and benchmarks: drafts from a recorded run, at a chosen acceptance rate", kOptionsSchema);

}  // namespace
}  // namespace mortise::oracle

MORTISE_PLUGIN("mortise.oracle", "Mortise", "0.1.0", "Apache-2.0", &mortise::oracle::kOracle)
