// runtime/replay/compare.hpp: compares a recorded request with a replay of it: every token and every log probability,
// bit by bit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "replay/request_log.hpp"

namespace mortise {

// The place of a difference.
struct DifferencePlace {
  std::size_t choice = 0;
  std::size_t position = 0;  // in the sequence, which begins with the prompt's tokens
};

// Names of the two results in texts.
struct ComparisonNames {
  const char* before = "recorded";
  const char* after = "replayed";
};

struct Comparison {
  std::uint64_t num_tokens = 0, num_logprobs = 0;  // compared
  std::uint64_t num_differences = 0;
  std::optional<std::string> first;      // choice, position, token ids, both values with their bits
  std::optional<DifferencePlace> place;  // place of the first difference
};

// Choices that were aborted or failed when they were recorded are compared as far as they got. A choice is compared up
// to its first token that differs, because the following tokens depend on it.
// REQUIRES: both have the same number of choices.
Comparison compare(const RecordedRequest& recorded, const RecordedRequest& replayed, const ComparisonNames& names = {});

// The request to submit: the recorded one with log probabilities. If it was aborted, it ends where the record ends.
// nullopt if nothing was recorded that could be compared.
std::optional<Request> request_to_replay(const RecordedRequest& recorded);

}  // namespace mortise
