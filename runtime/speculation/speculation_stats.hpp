// runtime/speculation/speculation_stats.hpp: what came of drafts, for each proposer.
// Acceptance rate = accepted / draft tokens. Mean acceptance length = 1 + accepted tokens per sequence and step: the 1
// is the target's own token.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mortise {

struct ProposerStats {
  std::string name;
  std::uint64_t num_verified = 0;  // drafts of a sequence and step
  std::uint64_t num_draft_tokens = 0, num_accepted_tokens = 0;
  std::vector<std::uint64_t> drafted_at, accepted_at;  // by position in the draft
  double draft_s = 0;                                  // in its calls

  // A sequence's drafts of one step, `num_drafts` above 0.
  void add(std::int32_t num_drafts, std::int32_t num_accepted);
  void add(const ProposerStats& other);
  void subtract(const ProposerStats& earlier);
  double mean_acceptance_length() const;
};

struct SpeculationStats {
  std::vector<ProposerStats> proposers;  // in the pipeline's order
  std::uint64_t num_steps = 0;           // that verified drafts
  double verify_s = 0;                   // those steps, without the drafting

  // Of an engine with the same proposers, or of none: what this one counted goes on.
  void add(const SpeculationStats& other);
  // What came after `earlier`, which are statistics of the same engine.
  SpeculationStats since(const SpeculationStats& earlier) const;
};

// "ngram: 512 of 640 drafts accepted (80.0 %; by position 85 80 75 70 %), mean acceptance length 3.41; drafting 12.1
// ms"
std::string describe(const ProposerStats& stats);
// A line for each proposer that drafted, and one with the times of the steps; none if none did.
std::vector<std::string> describe(const SpeculationStats& stats);
nlohmann::ordered_json to_json(const SpeculationStats& stats);

}  // namespace mortise
