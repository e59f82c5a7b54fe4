// runtime/trial/requests.hpp: a few short requests that make the parts of a pipeline do everything that serving needs:
// prompts in chunks, decoding in batches, choices that share a prompt, prompts that are prefixes of others, drafts,
// seeds, prompt log probabilities, an abort. They are the same in every run, so that two sets of parts can be compared.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace mortise {

// The requests, made once. Constant after construction. Any thread may use it.
class TrialRequests {
 public:
  // `is_small`: the model computes a thousand rows quickly.
  TrialRequests(const EngineLimits& limits, std::int32_t vocab_size, bool is_small);

  // For each choice of each request that is not aborted: its scored prompt tokens, then its generated tokens.
  using Answers = std::vector<std::vector<TokenInfo>>;
  // Runs all requests. `meanwhile`, if set, is called once while they run. Throws an Error if a request ends with one,
  // and everything that `meanwhile` throws; some requests may then still run.
  Answers run(Engine& engine, const std::function<void()>& meanwhile = {}) const;

  // Describes where `found` differs from `expected`, bit by bit; nullopt: nowhere.
  static std::optional<std::string> difference(const Answers& expected, const Answers& found);

  // The number of KV blocks of this size that hold all requests, for any limits.
  static std::int32_t num_blocks(std::int32_t block_size);

 private:
  std::vector<Request> requests_;
  Request aborted_;
};

}  // namespace mortise
