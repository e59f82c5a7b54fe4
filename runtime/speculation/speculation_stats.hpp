// runtime/speculation/speculation_stats.hpp: counts drafted and accepted tokens for each proposer.
// Acceptance rate = accepted / draft tokens. Mean acceptance length = 1 + accepted tokens per sequence and step: the 1
// is the target's own token.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mortise {

// Counts of one proposer's drafts. A value. Invariant: num_accepted <= num_drafts.
struct ProposerStats {
  std::string name;
  std::uint64_t num_verified = 0;  // number of verifications: one per sequence and step with drafts
  std::uint64_t num_drafts = 0, num_accepted = 0;
  std::vector<std::uint64_t> drafted_at, accepted_at;  // by position in the draft
  double draft_s = 0;                                  // seconds in its calls

  // Adds one verification: a sequence got `new_drafts` drafts (at least 1), of which `new_accepted` were accepted.
  void add(std::int32_t new_drafts, std::int32_t new_accepted);
  void add(const ProposerStats& other);
  void subtract(const ProposerStats& earlier);
  double mean_acceptance_length() const;
};

// Counts of all proposers of an engine. A value.
struct SpeculationStats {
  std::vector<ProposerStats> proposers;  // in the pipeline's order
  std::uint64_t num_steps = 0;           // that verified drafts
  double verify_s = 0;                   // seconds of those steps, without drafting

  // Adds the counts of `other`. Proposers are matched by name; missing ones are added.
  void add(const SpeculationStats& other);
  // Returns the counts since `earlier`. REQUIRES: both are of the same engine.
  SpeculationStats since(const SpeculationStats& earlier) const;
};

// "ngram: 512 of 640 drafts accepted (80.0 %; by position 85 80 75 70 %), mean acceptance length 3.41; drafting 12.1
// ms"
std::string describe(const ProposerStats& stats);
// Returns one line for each proposer that drafted, and one with the times of the steps; empty if none drafted.
std::vector<std::string> describe(const SpeculationStats& stats);
nlohmann::ordered_json to_json(const SpeculationStats& stats);

}  // namespace mortise
