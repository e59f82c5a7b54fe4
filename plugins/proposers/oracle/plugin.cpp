// plugins/proposers/oracle/plugin.cpp: the component: drafts from recorded texts, right at a chosen rate.
#include <unordered_map>

#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"
#include "proposers/oracle/recorded_texts.hpp"

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
                   "default": 5}
  }
})schema";

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct Oracle {
  RecordedTexts texts;
  double rate;
  uint64_t seed;
  int32_t max_tokens;
  int32_t vocab_size = 0;
  struct Sequence {
    std::vector<int32_t> tokens;
    std::optional<std::size_t> text;  // that begins with them
  };
  std::unordered_map<uint64_t, Sequence> sequences;

  void observe(const mortise_observation& seen) {
    for (int32_t i = 0; i < seen.num_ended; ++i) sequences.erase(seen.ended_ids[i]);
    for (int32_t i = 0; i < seen.num_seqs; ++i) {
      Sequence& sequence = sequences[seen.seq_ids[i]];
      if (seen.first_positions[i] == 0) sequence = {};
      const int32_t *begin = seen.tokens + seen.token_offsets[i], *end = seen.tokens + seen.token_offsets[i + 1];
      const std::size_t known = sequence.tokens.size();
      sequence.tokens.insert(sequence.tokens.end(), begin, end);
      if (!goes_on(sequence, known)) sequence.text = texts.find(sequence.tokens);
    }
  }

  // Whether the text of the sequence goes on with its tokens from `known` on, and beyond.
  bool goes_on(const Sequence& sequence, std::size_t known) const {
    if (!sequence.text) return false;
    const std::span<const int32_t> text = texts.text(*sequence.text), &tokens = sequence.tokens;
    return text.size() > tokens.size() && std::equal(tokens.begin() + static_cast<std::ptrdiff_t>(known), tokens.end(),
                                                     text.begin() + static_cast<std::ptrdiff_t>(known));
  }

  // What is drafted at a position of a text. Errors depend on nothing else, so that they repeat.
  int32_t draft(std::size_t text, std::size_t position) const {
    const int32_t right = texts.text(text)[position];
    const uint64_t bits = mix(mix(mix(seed) ^ text) ^ position);
    if (static_cast<double>(bits >> 11) * 0x1p-53 < rate || vocab_size < 2) return right;
    const auto step = static_cast<int64_t>(mix(bits) % static_cast<uint64_t>(vocab_size - 1)) + 1;
    return static_cast<int32_t>((right + step) % vocab_size);
  }

  void propose(const mortise_proposal_args& args) const {
    for (int32_t i = 0; i < args.num_seqs; ++i) {
      int32_t& count = args.num_drafts[i] = 0;
      const auto at = sequences.find(args.seq_ids[i]);
      if (at == sequences.end() || !at->second.text) continue;
      const std::size_t position = at->second.tokens.size(), text = *at->second.text;
      if (static_cast<int64_t>(position) != args.positions[i]) continue;
      const auto left = static_cast<int64_t>(texts.text(text).size() - position);
      const int64_t most = std::min<int64_t>(std::min(args.max_drafts[i], max_tokens), left);
      int32_t* const row = args.tokens + static_cast<int64_t>(i) * args.max_draft;
      for (; count < most; ++count) row[count] = draft(text, position + static_cast<std::size_t>(count));
    }
  }
};

mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  return guard(error, "oracle", [&] {
    const Options options(known(args).options);
    *instance = new Oracle{RecordedTexts(options.get<std::string>("log")),
                           options.get<double>("rate"),
                           options.get<uint64_t>("seed"),
                           options.get<int32_t>("max_tokens"),
                           0,
                           {}};
  });
}

void destroy(void* instance) {
  delete static_cast<Oracle*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status bind(mortise_proposer* proposer, const mortise_proposer_bind_args* args, mortise_error* error) {
  return guard(error, "bind", [&] {
    auto& self = *reinterpret_cast<Oracle*>(proposer);
    self.vocab_size = args->target->vocab_size;
    if (self.texts.largest_token() < self.vocab_size) return;
    throw Failure(MORTISE_INVALID_ARGUMENT, "log",
                  "the log has token id " + std::to_string(self.texts.largest_token()) + " and the model has " +
                      std::to_string(self.vocab_size) + " tokens; record it with this model");
  });
}

mortise_status observe(mortise_proposer* proposer, const mortise_observation* seen, mortise_error* error) {
  return guard(error, "observe", [&] { reinterpret_cast<Oracle*>(proposer)->observe(known(seen)); });
}

mortise_status propose(mortise_proposer* proposer, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  return guard(error, "propose", [&] { reinterpret_cast<const Oracle*>(proposer)->propose(known(args)); });
}

uint64_t num_sequences(void* instance) {
  return static_cast<Oracle*>(instance)->sequences.size();
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
