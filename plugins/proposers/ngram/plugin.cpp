// plugins/proposers/ngram/plugin.cpp: the component: a match index for each live sequence.
#include <memory>
#include <unordered_map>

#include "mortise/proposer.hpp"
#include "proposers/ngram/match_index.hpp"

namespace mortise::ngram {
namespace {

constexpr const char* kOptionsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "min_match": {"title": "minimum number of last tokens that must occur earlier in the text", "type": "integer",
                  "minimum": 1, "maximum": 16, "default": 2},
    "max_match": {"title": "maximum number of last tokens to look for; longer matches are preferred",
                  "type": "integer", "minimum": 1, "maximum": 16, "default": 4},
    "max_tokens": {"title": "maximum number of drafts for a sequence in a step", "type": "integer", "minimum": 1, "maximum": 64,
                   "default": 8}
  }
})schema";

// Invariant: sequences_ has an index for each sequence that was observed and has not ended. Not thread-safe: the host
// makes one call at a time.
class Ngram {
 public:
  Ngram(const mortise_host* host, const mortise_create_args&, const Options& given)
      : options_{given.get<int32_t>("min_match"), given.get<int32_t>("max_match"), host->now_ns(host)},
        max_tokens_(given.get<int32_t>("max_tokens")) {
    if (options_.min_match > options_.max_match) {
      throw Failure(MORTISE_INVALID_ARGUMENT, "min_match",
                    "min_match is " + std::to_string(options_.min_match) + " and max_match is " +
                        std::to_string(options_.max_match) + "; min_match must not be above max_match");
    }
  }

  void bind(const mortise_proposer_bind_args&) {}

  void observe(const mortise_observation& seen) {
    for (int32_t i = 0; i < seen.num_ended; ++i) sequences_.erase(seen.ended_ids[i]);
    for (int32_t i = 0; i < seen.num_seqs; ++i) {
      std::unique_ptr<MatchIndex>& index = sequences_[seen.seq_ids[i]];
      if (!index || seen.first_positions[i] == 0) index = std::make_unique<MatchIndex>(options_);
      if (index->num_tokens() != seen.first_positions[i]) {
        sequences_.erase(seen.seq_ids[i]);
        throw Failure(MORTISE_INTERNAL, "observe",
                      "sequence " + std::to_string(seen.seq_ids[i]) + " continues at position " +
                          std::to_string(seen.first_positions[i]) +
                          ", which does not follow the tokens that the proposer knows");
      }
      for (int32_t t = seen.token_offsets[i]; t < seen.token_offsets[i + 1]; ++t) index->append(seen.tokens[t]);
    }
  }

  void propose(const mortise_proposal_args& args) const {
    for (int32_t i = 0; i < args.num_seqs; ++i) {
      args.num_drafts[i] = 0;
      const auto at = sequences_.find(args.seq_ids[i]);
      if (at == sequences_.end() || at->second->num_tokens() != args.positions[i]) continue;
      int32_t* const row = args.tokens + static_cast<int64_t>(i) * args.draft_stride;
      const auto most = static_cast<std::size_t>(std::clamp(args.max_drafts[i], 0, max_tokens_));
      args.num_drafts[i] = at->second->draft({row, most});
    }
  }

  uint64_t num_sequences() const { return sequences_.size(); }

 private:
  const MatchOptions options_;
  const int32_t max_tokens_;
  // By sequence. The match indices point to the options.
  std::unordered_map<uint64_t, std::unique_ptr<MatchIndex>> sequences_;
};

constexpr mortise_component kNgram = ProposerComponent<Ngram>::component(
    "ngram", "prompt lookup: drafts the tokens that followed an earlier occurrence of the last tokens", kOptionsSchema);

}  // namespace
}  // namespace mortise::ngram

MORTISE_PLUGIN("mortise.ngram", "Mortise", "0.1.0", "Apache-2.0", &mortise::ngram::kNgram)
