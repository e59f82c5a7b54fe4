// plugins/proposers/draft_model/plugin.cpp: options, tables, entry.
#include <memory>

#include "mortise/ext/sequences.h"
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
             "format": "path"},
    "max_tokens": {"title": "draft tokens of a sequence and step, at most", "type": "integer", "minimum": 1,
                   "maximum": 64, "default": 5},
    "branches": {"title": "tokens that the first draft is tried with, each of them a branch of max_tokens tokens",
                 "type": "integer", "minimum": 1, "maximum": 8, "default": 1},
    "kv_memory": {"title": "memory for the draft model's KV blocks: bytes, a text such as \"512MiB\", or auto: as many tokens as the target's KV cache holds",
                  "type": ["integer", "string"], "default": "auto"},
    "attention": {"title": "options of the pipeline's attention that are to be others for the draft model",
                  "type": "object", "default": {}}
  }
})schema";

DraftModel& self(mortise_proposer* proposer) {
  return *reinterpret_cast<DraftModel*>(proposer);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return guard(error, "draft_model",
               [&] { *instance = std::make_unique<DraftModel>(host, Options(known(args).options)).release(); });
}

void destroy(void* instance) {
  delete static_cast<DraftModel*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status bind(mortise_proposer* proposer, const mortise_proposer_bind_args* args, mortise_error* error) {
  return guard(error, "bind", [&] { self(proposer).bind(known(known(args).target)); });
}

mortise_status observe(mortise_proposer* proposer, const mortise_observation* seen, mortise_error* error) {
  return guard(error, "observe", [&] { self(proposer).observe(known(seen)); });
}

mortise_status propose(mortise_proposer* proposer, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  return guard(error, "propose", [&] { self(proposer).propose(known(args)); });
}

uint64_t num_sequences(void* instance) {
  return static_cast<DraftModel*>(instance)->num_sequences();
}

const void* get_ext(void*, const char* id) {
  static constexpr mortise_sequences_table kSequences = {sizeof(mortise_sequences_table), 0, num_sequences};
  return std::string_view(id) == MORTISE_EXT_SEQUENCES ? &kSequences : nullptr;
}

constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose, nullptr};

constexpr mortise_component kDraftModel = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_PROPOSER,
    0,
    MORTISE_CAP_TREE | MORTISE_CAP_DISTRIBUTION,
    "draft_model",
    "drafts with a smaller model of the same tokenizer",
    kOptionsSchema,
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    nullptr,
    nullptr,
    get_ext,
};

}  // namespace
}  // namespace mortise::draft_model

MORTISE_PLUGIN("mortise.draft_model", "Mortise", "0.1.0", "Apache-2.0", &mortise::draft_model::kDraftModel)
