#include "mortise/ext/sequences.h"
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
    "max_tokens": {"title": "drafts for a sequence and step, at most; null: the checkpoint's n_predict",
                   "type": ["integer", "null"], "minimum": 1, "maximum": 64, "default": null}
  }
})schema";

Speculator& speculator_of(void* instance) {
  return *static_cast<Speculator*>(instance);
}
Speculator& speculator_of(mortise_proposer* proposer) {
  return *reinterpret_cast<Speculator*>(proposer);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return guard(error, "create", [&] { *instance = new Speculator(*host, known(args)); });
}

void destroy(void* instance) {
  delete &speculator_of(instance);
}

mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  const mortise_status status = guard(error, "activate", [&] { speculator_of(instance).activate(known(args)); });
  if (status != MORTISE_OK) speculator_of(instance).deactivate();  // half of the buffers are of no use
  return status;
}

void deactivate(void* instance) {
  speculator_of(instance).deactivate();
}

mortise_status bind(mortise_proposer* proposer, const mortise_proposer_bind_args* args, mortise_error* error) {
  return guard(error, "bind", [&] { speculator_of(proposer).bind(known(args)); });
}

mortise_status observe(mortise_proposer* proposer, const mortise_observation* seen, mortise_error* error) {
  return guard(error, "observe", [&] { speculator_of(proposer).observe(known(seen)); });
}

mortise_status propose(mortise_proposer* proposer, const mortise_step* step, const mortise_proposal_args* args,
                       mortise_error* error) {
  return guard(error, "propose", [&] { speculator_of(proposer).propose(known(step), known(args)); });
}

int32_t max_drafts(mortise_proposer* proposer) {
  return speculator_of(proposer).max_drafts();
}

constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose, max_drafts};

uint64_t num_sequences(void* instance) {
  return speculator_of(instance).num_sequences();
}

const void* get_ext(void*, const char* id) {
  static constexpr mortise_sequences_table kSequences = {sizeof(mortise_sequences_table), 0, num_sequences};
  return std::string_view(id) == MORTISE_EXT_SEQUENCES ? &kSequences : nullptr;
}

constexpr mortise_component kMlpSpeculator = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_PROPOSER,
    0,
    MORTISE_CAP_NEEDS_HIDDEN,
    "mlp_speculator",
    "multi-stage MLP on the target's hidden rows, from a checkpoint trained for the target",
    kOptionsSchema,
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    activate,
    deactivate,
    get_ext,
};

}  // namespace
}  // namespace mortise::mlp_speculator

MORTISE_PLUGIN("mortise.mlp_speculator", "Mortise", "0.1.0", "Apache-2.0", &mortise::mlp_speculator::kMlpSpeculator)
