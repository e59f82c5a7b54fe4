// tests/e2e/plugins/lookback.cpp: a small proposer: drafts what followed the last token where the sequence had it
// before. It has an option of each sort, for the tests of what can be typed.
#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "mortise/proposer.hpp"

namespace {

constexpr const char* kSchema = R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "max_tokens": {"title": "drafts of a step, at most", "type": "integer", "minimum": 1, "maximum": 16, "default": 4},
    "occurrence": {"title": "which earlier one is followed", "enum": ["first", "latest"], "default": "latest"},
    "eager": {"title": "drafts from the first token on", "type": "boolean", "default": true},
    "notes": {"title": "a file that must exist, if one is named", "type": "string", "format": "path", "default": ""}
  }
})";

class Lookback {
 public:
  Lookback(const mortise_host*, const mortise_create_args&, const mortise::Options& options)
      : latest_(options.get<std::string>("occurrence") == "latest"), eager_(options.get<bool>("eager")) {
    const auto notes = options.get<std::string>("notes");
    std::error_code error;  // a name may be too long for any file
    if (!notes.empty() && !std::filesystem::exists(notes, error)) {
      throw mortise::Failure(MORTISE_NOT_FOUND, "notes", notes + ": no such file");
    }
  }
  void bind(const mortise_proposer_bind_args&) {}
  void observe(const mortise_observation& seen) {
    for (std::int32_t i = 0; i < seen.num_seqs; ++i) {
      auto& tokens = history_[seen.seq_ids[i]];
      if (seen.first_positions[i] == 0) tokens.clear();  // the report has the whole history
      tokens.insert(tokens.end(), seen.tokens + seen.token_offsets[i], seen.tokens + seen.token_offsets[i + 1]);
    }
    for (std::int32_t i = 0; i < seen.num_ended; ++i) history_.erase(seen.ended_ids[i]);
  }
  void propose(const mortise_proposal_args& args) const {
    for (std::int32_t i = 0; i < args.num_seqs; ++i) {
      args.num_drafts[i] = 0;
      const auto known = history_.find(args.seq_ids[i]);
      if (known == history_.end() || !eager_) continue;
      const auto& tokens = known->second;
      for (std::size_t at = find(tokens); at < tokens.size() && args.num_drafts[i] < args.max_drafts[i]; ++at) {
        args.tokens[i * args.draft_stride + args.num_drafts[i]++] = tokens[at];
      }
    }
  }
  std::uint64_t num_sequences() const { return history_.size(); }

 private:
  // Where the draft begins: after an earlier occurrence of the last token; the end when there is none.
  std::size_t find(const std::vector<std::int32_t>& tokens) const {
    std::size_t found = tokens.size();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] != tokens.back()) continue;
      found = i + 1;
      if (!latest_) break;
    }
    return found;
  }

  const bool latest_, eager_;
  std::map<std::uint64_t, std::vector<std::int32_t>> history_;
};

constexpr mortise_component kLookback =
    mortise::ProposerComponent<Lookback>::component("lookback", "drafts what followed the last token before", kSchema);

}  // namespace

MORTISE_PLUGIN("test.lookback", "Tests", "1.0.0", "Apache-2.0", &kLookback)
