// runtime/replay/compare.hpp: a request beside the same request run again: every token and every log probability, bit
// by bit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "replay/request_log.hpp"

namespace mortise {

// Where two results part.
struct DifferencePlace {
  std::size_t choice = 0;
  std::size_t position = 0;  // in the sequence: the prompt's tokens are before those that were generated
};

// What texts call the two results.
struct ComparisonNames {
  const char* before = "recorded";
  const char* after = "replayed";
};

struct Comparison {
  std::uint64_t num_tokens = 0, num_logprobs = 0;  // compared
  std::uint64_t num_differences = 0;
  std::optional<std::string> first;      // choice, position, token ids, both values with their bits
  std::optional<DifferencePlace> place;  // of the first one
};

// Choices that were aborted or failed when they were recorded are compared as far as they got. After the first token
// that differs a choice is not compared further: what follows has another history. REQUIRES: both have as many choices.
Comparison compare(const RecordedRequest& recorded, const RecordedRequest& replayed, const ComparisonNames& names = {});

// The request to submit: as recorded, with log probabilities, and no longer than what was recorded of an aborted one.
// nullopt when nothing was recorded that could be compared.
std::optional<Request> request_to_replay(const RecordedRequest& recorded);

}  // namespace mortise
