// runtime/trial/requests.hpp: a few short requests that make the parts of a pipeline do what serving makes them do:
// prompts in chunks, decoding side by side, choices that share a prompt, prefixes of each other, drafts, seeds, prompt
// log probabilities, an abort. The same at every run, so that two sets of parts can be compared.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace mortise {

class TrialRequests {
 public:
  // `is_small`: the model computes a thousand rows in no time.
  TrialRequests(const EngineLimits& limits, std::int32_t vocab_size, bool is_small);

  // Of each choice of each request that is not aborted: the scored tokens of its prompt, then those that it generated.
  using Answers = std::vector<std::vector<TokenInfo>>;
  // Runs them all. `meanwhile`, if set, is called once while they run. Throws an Error when one of them ends with one,
  // and what `meanwhile` throws; then some may run on.
  Answers run(Engine& engine, const std::function<void()>& meanwhile = {}) const;

  // Where `found` is another answer than `expected`, bit by bit; nullopt: nowhere.
  static std::optional<std::string> difference(const Answers& expected, const Answers& found);

  // KV blocks of that size that hold all of them, whatever the limits.
  static std::int32_t num_blocks(std::int32_t block_size);

 private:
  std::vector<Request> requests_;
  Request aborted_;
};

}  // namespace mortise
