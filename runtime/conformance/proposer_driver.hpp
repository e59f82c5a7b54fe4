// runtime/conformance/proposer_driver.hpp: calls a proposer under test as a host does, with arrays in guarded memory,
// and checks every draft against the rules of mortise/proposer.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "conformance/part.hpp"

namespace mortise::conformance {

using Tokens = std::vector<std::int32_t>;

// Drafts for one sequence.
struct Drafts {
  Tokens tokens;
  Tokens parents;  // of a tree; empty: a chain

  bool operator==(const Drafts&) const = default;
};

// What observe reports about one sequence.
struct Seen {
  std::uint64_t id;
  std::int32_t first_position;
  Tokens tokens;
  std::int32_t num_accepted = 0;
};

// A sequence that wants drafts.
struct Wanted {
  std::uint64_t id;
  std::int32_t max_drafts;
  std::int64_t position;  // of the first draft
  float temperature = 0;
};

// What the host offers in a call of propose.
struct ProposalForm {
  std::int32_t extra_stride = 0;  // how much longer the rows are than the largest of max_drafts
  std::int32_t branches = 1;      // above 1: trees
  bool wants_distributions = false;
};

// Drives one active proposer. Throws CaseFailed when a call fails or a draft breaks a rule. Invariant: the ids of its
// steps grow. Used by one thread at a time.
class ProposerDriver {
 public:
  explicit ProposerDriver(Part& part);

  void observe(const std::vector<Seen>& seen, const std::vector<std::uint64_t>& ended = {});
  // Like observe(), but returns a failure instead of throwing.
  Answer try_observe(const std::vector<Seen>& seen, const std::vector<std::uint64_t>& ended = {});
  // Returns the drafts of each sequence, in order.
  std::vector<Drafts> propose(const std::vector<Wanted>& wanted, const ProposalForm& form = {});
  // Like propose(), but a proposal that fails is no fault; it gives no drafts.
  Answer try_propose(const std::vector<Wanted>& wanted, const ProposalForm& form = {});
  void end(std::vector<std::uint64_t> ids) { observe({}, ids); }

  // Returns the most drafts that the proposer says it returns.
  std::int32_t max_drafts() const { return max_drafts_; }
  // Returns the number of sequences with state; -1 if the proposer does not tell.
  std::int64_t num_sequences() const;

 private:
  Answer ask(const std::vector<Wanted>& wanted, const ProposalForm& form, std::vector<Drafts>& all);
  void check(const Wanted& wanted, const Drafts& drafts, std::int32_t stride, bool is_tree) const;

  Part& part_;
  std::int32_t max_drafts_ = 0;
  std::uint64_t step_ = 0;
};

// Runs texts with many repetitions through the proposer, several sequences at a time, accepts some drafts, and ends all
// sequences. Returns a line for each proposal.
std::string drafts_of_texts(Part& part, std::uint64_t seed);

// Returns a text that repeats earlier parts of itself, so that a proposer can find drafts.
Tokens repetitive_text(std::uint64_t seed, std::size_t size);

}  // namespace mortise::conformance
