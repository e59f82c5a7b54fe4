// tests/e2e/plugins/hostile.cpp: a proposer that breaks what proposer.h asks of it, in the way its option says.
#include <random>

#include "mortise/plugin.hpp"
#include "mortise/proposer.h"

namespace {

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "breach": {"title": "what it does wrong", "default": "garbage",
               "enum": ["garbage", "too_many", "negative", "out_of_range", "below_zero", "fails_half", "observe_fails"]},
    "max_tokens": {"title": "drafts of a step, at most", "type": "integer", "minimum": 1, "maximum": 16, "default": 4}
  }
})";

struct Hostile {
  std::string breach;
  std::mt19937 random{5};
  std::int32_t vocab_size = 0;

  void propose(const mortise_proposal_args& args) {
    for (std::int32_t i = 0; i < args.num_seqs; ++i) {
      std::int32_t* const row = args.tokens + i * args.max_draft;
      for (std::int32_t k = 0; k < args.max_draft; ++k) {
        row[k] = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab_size));
      }
      args.num_drafts[i] = args.max_drafts[i];
      if (breach == "too_many")
        args.num_drafts[i] = args.max_drafts[i] + 1 + static_cast<std::int32_t>(random() % 1000);
      if (breach == "negative") args.num_drafts[i] = -1;
      if (breach == "out_of_range") row[0] = vocab_size;
      if (breach == "below_zero") row[0] = -1;
    }
    if (breach == "fails_half" && random() % 2 == 0) {
      throw mortise::Failure(MORTISE_UNAVAILABLE, "propose", "one of the bad days");
    }
  }
};

mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  return mortise::guard(error, "hostile", [&] {
    *instance = new Hostile{mortise::Options(mortise::known(args).options).get<std::string>("breach")};
  });
}

void destroy(void* instance) {
  delete static_cast<Hostile*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status bind(mortise_proposer* proposer, const mortise_proposer_bind_args* args, mortise_error*) {
  reinterpret_cast<Hostile*>(proposer)->vocab_size = args->target->vocab_size;
  return MORTISE_OK;
}

mortise_status observe(mortise_proposer* proposer, const mortise_observation*, mortise_error* error) {
  if (reinterpret_cast<Hostile*>(proposer)->breach != "observe_fails") return MORTISE_OK;
  return mortise::set_error(error, MORTISE_INTERNAL, "observe", "it would rather not know");
}

mortise_status propose(mortise_proposer* proposer, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  return mortise::guard(error, "propose", [&] { reinterpret_cast<Hostile*>(proposer)->propose(*args); });
}

constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose, nullptr};

constexpr mortise_component kHostile = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_PROPOSER,
    0,
    0,
    "hostile",
    "breaks its contract",
    kSchema,
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

MORTISE_PLUGIN("test.hostile", "Tests", "1.0.0", "Apache-2.0", &kHostile)
