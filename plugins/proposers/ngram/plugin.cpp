// plugins/proposers/ngram/plugin.cpp: the component: a match index for each live sequence.
#include <memory>
#include <unordered_map>

#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"
#include "proposers/ngram/match_index.hpp"

namespace mortise::ngram {
namespace {

constexpr const char* kOptionsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "min_match": {"title": "last tokens of a text that must have stood in it before, at least", "type": "integer",
                  "minimum": 1, "maximum": 16, "default": 2},
    "max_match": {"title": "last tokens that are looked for, at most: longer matches go before shorter ones",
                  "type": "integer", "minimum": 1, "maximum": 16, "default": 4},
    "max_tokens": {"title": "drafts for a sequence and step, at most", "type": "integer", "minimum": 1, "maximum": 64,
                   "default": 8}
  }
})schema";

struct Ngram {
  MatchOptions options;
  int32_t max_tokens;
  // By sequence. The indices point to the options.
  std::unordered_map<uint64_t, std::unique_ptr<MatchIndex>> sequences;

  void observe(const mortise_observation& seen) {
    for (int32_t i = 0; i < seen.num_ended; ++i) sequences.erase(seen.ended_ids[i]);
    for (int32_t i = 0; i < seen.num_seqs; ++i) {
      std::unique_ptr<MatchIndex>& index = sequences[seen.seq_ids[i]];
      if (!index || seen.first_positions[i] == 0) index = std::make_unique<MatchIndex>(options);
      if (index->num_tokens() != seen.first_positions[i]) {
        sequences.erase(seen.seq_ids[i]);
        throw Failure(MORTISE_INTERNAL, "observe",
                      "sequence " + std::to_string(seen.seq_ids[i]) + " goes on at position " +
                          std::to_string(seen.first_positions[i]) + ", where this proposer is not");
      }
      for (int32_t t = seen.token_offsets[i]; t < seen.token_offsets[i + 1]; ++t) index->append(seen.tokens[t]);
    }
  }

  void propose(const mortise_proposal_args& args) const {
    for (int32_t i = 0; i < args.num_seqs; ++i) {
      args.num_drafts[i] = 0;
      const auto at = sequences.find(args.seq_ids[i]);
      if (at == sequences.end() || at->second->num_tokens() != args.positions[i]) continue;
      int32_t* const row = args.tokens + static_cast<int64_t>(i) * args.max_draft;
      const auto most = static_cast<std::size_t>(std::clamp(args.max_drafts[i], 0, max_tokens));
      args.num_drafts[i] = at->second->draft({row, most});
    }
  }
};

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return guard(error, "ngram", [&] {
    const Options given(known(args).options);
    const MatchOptions options{given.get<int32_t>("min_match"), given.get<int32_t>("max_match"), host->now_ns(host)};
    if (options.min_match > options.max_match) {
      throw Failure(MORTISE_INVALID_ARGUMENT, "min_match",
                    "min_match is " + std::to_string(options.min_match) + " and max_match is " +
                        std::to_string(options.max_match) + "; min_match must not be above max_match");
    }
    *instance = new Ngram{options, given.get<int32_t>("max_tokens"), {}};
  });
}

void destroy(void* instance) {
  delete static_cast<Ngram*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status bind(mortise_proposer*, const mortise_proposer_bind_args*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status observe(mortise_proposer* proposer, const mortise_observation* seen, mortise_error* error) {
  return guard(error, "observe", [&] { reinterpret_cast<Ngram*>(proposer)->observe(known(seen)); });
}

mortise_status propose(mortise_proposer* proposer, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  return guard(error, "propose", [&] { reinterpret_cast<const Ngram*>(proposer)->propose(known(args)); });
}

constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose, nullptr};

uint64_t num_sequences(void* instance) {
  return static_cast<Ngram*>(instance)->sequences.size();
}

const void* get_ext(void*, const char* id) {
  static constexpr mortise_sequences_table kSequences = {sizeof(mortise_sequences_table), 0, num_sequences};
  return std::string_view(id) == MORTISE_EXT_SEQUENCES ? &kSequences : nullptr;
}

constexpr mortise_component kNgram = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_PROPOSER,
    0,
    0,
    "ngram",
    "prompt lookup: drafts what followed the last tokens where they stood before",
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
}  // namespace mortise::ngram

MORTISE_PLUGIN("mortise.ngram", "Mortise", "0.1.0", "Apache-2.0", &mortise::ngram::kNgram)
