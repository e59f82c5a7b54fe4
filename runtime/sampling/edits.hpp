// runtime/sampling/edits.hpp: penalties, biases and bans of one row, as the per-token edits that a device's `sample`
// takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mortise/device.h"
#include "sampling/params.hpp"

namespace mortise {

using LogitEdit = mortise_logit_edit;

// The edits of a sequence's next row. They are changed when a token comes, so that a step costs what differs and not
// the whole history; a device keeps a copy, for which changes() tells the difference. An edit stays where it is.
// Penalties follow vLLM: repetition counts prompt and output, frequency and presence the output alone.
class SequenceEdits {
 public:
  // `params` outlives this.
  SequenceEdits(const SamplingParams& params, std::span<const std::int32_t> prompt);

  void add_generated(std::int32_t token);

  // Whether a generated token may change or add an edit: some penalty is wanted.
  bool grows() const { return counts_; }
  // Of different tokens, in any order. Valid until the next call of add_generated().
  std::span<const LogitEdit> current() const { return edits_; }
  // Indices into current(): of each call of add_generated() that changed something, the edit that it changed or added.
  std::span<const std::int32_t> changes() const { return changes_; }
  // Those of a row behind `drafts`, which count as generated. `banned`, ascending, may not be drawn in it (end tokens
  // before min_tokens).
  std::vector<LogitEdit> with(std::span<const std::int32_t> drafts, std::span<const std::int32_t> banned) const;

 private:
  std::size_t place_of(std::int32_t token);
  std::size_t slot_of(std::int32_t token) const;
  void grow_table();

  const SamplingParams* params_;
  bool counts_;  // some penalty is wanted
  std::vector<LogitEdit> edits_;
  std::vector<std::int32_t> generated_;  // parallel: how often the token was generated
  // Where a token is in both: a hash table with open addressing, at most half full, -1 where nothing is. Each token of
  // each sequence is looked up in it, out of cold memory.
  std::vector<std::int32_t> table_;
  std::vector<std::int32_t> changes_;
};

}  // namespace mortise
