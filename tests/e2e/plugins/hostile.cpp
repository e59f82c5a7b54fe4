// tests/e2e/plugins/hostile.cpp: a proposer that breaks what proposer.h asks of it, in the way its option says.
#include <random>

#include "mortise/proposer.hpp"

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
  Hostile(const mortise_host*, const mortise_create_args&, const mortise::Options& options)
      : breach(options.get<std::string>("breach")) {}

  void bind(const mortise_proposer_bind_args& args) { vocab_size = args.target->vocab_size; }
  void observe(const mortise_observation&) const {
    if (breach == "observe_fails") throw mortise::Failure(MORTISE_UNAVAILABLE, "observe", "it would rather not know");
  }
  void propose(const mortise_proposal_args& args) {
    for (std::int32_t i = 0; i < args.num_seqs; ++i) {
      std::int32_t* const row = args.tokens + i * args.draft_stride;
      for (std::int32_t k = 0; k < args.draft_stride; ++k) {
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
  std::uint64_t num_sequences() const { return 0; }

  const std::string breach;
  std::mt19937 random{5};
  std::int32_t vocab_size = 0;
};

constexpr mortise_component kHostile =
    mortise::ProposerComponent<Hostile>::component("hostile", "breaks its contract", kSchema);

}  // namespace

MORTISE_PLUGIN("test.hostile", "Tests", "1.0.0", "Apache-2.0", &kHostile)
