// runtime/cli/generation.hpp: generates an answer for a person: streams the text and can be interrupted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/interrupt.hpp"
#include "engine/engine.hpp"

namespace mortise {

struct Generation {
  std::string text;
  std::vector<TokenInfo> tokens;
  Delta last;                // finish, seed, usage
  double first_token_s = 0;  // from submission on
  double total_s = 0;
};

// Runs all choices of a request, or aborts them when interrupted. `on_news` gets each delta of the first choice. Throws
// an Error if a choice ends with one.
std::vector<Generation> generate_choices(Engine& engine, Request request,
                                         const std::function<void(const Delta&)>& on_news);

// The same for a request with one choice.
Generation generate(Engine& engine, Request request, const std::function<void(const Delta&)>& on_news);

// Returns a line for standard error: "42 tokens, 135.5 tokens/s; first after 12.0 ms; prompt 7 tokens; stop; seed 5".
std::string describe(const Generation& generation);

}  // namespace mortise
