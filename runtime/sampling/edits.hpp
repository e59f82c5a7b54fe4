// runtime/sampling/edits.hpp: turns penalties, biases and bans of a row into the per-token edits of a device's
// `sample`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mortise/device.h"
#include "sampling/params.hpp"

namespace mortise {

using LogitEdit = mortise_logit_edit;

// The edits of a sequence's next row. They are updated with each generated token, so a step costs only the changes, and
// changes() lets a device update its copy. The index of an edit never changes. Penalties follow vLLM: repetition counts
// prompt and output, frequency and presence only the output. Used by one thread at a time. Invariant: each token has at
// most one edit.
class SequenceEdits {
 public:
  // `params` outlives this object.
  SequenceEdits(const SamplingParams& params, std::span<const std::int32_t> prompt);

  void add_generated(std::int32_t token);

  // Whether a generated token may change or add an edit, that is, whether there is a penalty.
  bool grows() const { return counts_; }
  // The edits, of distinct tokens, in any order. Valid until the next call of add_generated().
  std::span<const LogitEdit> current() const { return edits_; }
  // Indices into current(): the edits that calls of add_generated() changed or added, in order.
  std::span<const std::int32_t> changes() const { return changes_; }
  // The edits of a row after `drafts`, which count as generated. `banned`, in ascending order, are tokens that may not
  // be drawn in it (end tokens before min_tokens).
  std::vector<LogitEdit> with(std::span<const std::int32_t> drafts, std::span<const std::int32_t> banned) const;

 private:
  std::size_t place_of(std::int32_t token);
  std::size_t slot_of(std::int32_t token) const;
  void grow_table();

  const SamplingParams* params_;
  bool counts_;  // there is a penalty
  std::vector<LogitEdit> edits_;
  std::vector<std::int32_t> generated_;  // parallel to edits_: how often the token was generated
  // Finds a token's index in both: a hash table with open addressing, at most half full, -1 for an empty slot. Compact,
  // because it is read for each token of each sequence and is not in the cache then.
  std::vector<std::int32_t> table_;
  std::vector<std::int32_t> changes_;
};

}  // namespace mortise
