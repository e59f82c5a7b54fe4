// plugins/proposers/oracle/plugin.cpp: options, tables, entry.
#include "mortise/ext/sequences.h"
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
            "format": "path"},
    "rate": {"title": "share of the drafts that are right, each on its own", "type": "number", "minimum": 0,
             "maximum": 1, "default": 0.8},
    "seed": {"title": "of the errors: the same seed errs at the same places", "type": "integer", "minimum": 0,
             "default": 0},
    "max_tokens": {"title": "drafts for a sequence and step, at most", "type": "integer", "minimum": 1, "maximum": 64,
                   "default": 5},
    "path": {"title": "checkpoint folder of a draft model that is run for its cost, as draft_model runs it; null: drafts cost nothing",
             "type": ["string", "null"], "minLength": 1, "format": "path", "default": null}
  }
})schema";

Oracle& oracle_of(mortise_proposer* proposer) {
  return *reinterpret_cast<Oracle*>(proposer);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return guard(error, "oracle", [&] { *instance = new Oracle(host, Options(known(args).options)); });
}

void destroy(void* instance) {
  delete static_cast<Oracle*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status bind(mortise_proposer* proposer, const mortise_proposer_bind_args* args, mortise_error* error) {
  return guard(error, "bind", [&] { oracle_of(proposer).bind(known(known(args).target)); });
}

mortise_status observe(mortise_proposer* proposer, const mortise_observation* seen, mortise_error* error) {
  return guard(error, "observe", [&] { oracle_of(proposer).observe(known(seen)); });
}

mortise_status propose(mortise_proposer* proposer, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  return guard(error, "propose", [&] { oracle_of(proposer).propose(known(args)); });
}

uint64_t num_sequences(void* instance) {
  return static_cast<Oracle*>(instance)->num_sequences();
}

const void* get_ext(void*, const char* id) {
  static constexpr mortise_sequences_table kSequences = {sizeof(mortise_sequences_table), 0, num_sequences};
  return std::string_view(id) == MORTISE_EXT_SEQUENCES ? &kSequences : nullptr;
}

constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose, nullptr};

constexpr mortise_component kOracle = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_PROPOSER,
    0,
    0,
    "oracle",
    "for tests and benchmarks: drafts from a recorded run, right at a chosen rate",
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
}  // namespace mortise::oracle

MORTISE_PLUGIN("mortise.oracle", "Mortise", "0.1.0", "Apache-2.0", &mortise::oracle::kOracle)
