// runtime/cli/generation.hpp: one prompt at a time for a person: streams the text, and stops when told to.
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
  double first_token_s = 0;  // after submission
  double total_s = 0;
};

// Runs the choices of a request to their ends, or aborts them when interrupted. `on_news` gets each piece of the first
// one as it comes. Throws an Error when a choice ends with one.
std::vector<Generation> generate_choices(Engine& engine, Request request,
                                         const std::function<void(const Delta&)>& on_news);

// The same for a request of one choice.
Generation generate(Engine& engine, Request request, const std::function<void(const Delta&)>& on_news);

// "42 tokens, 135.5 tokens/s; first after 12.0 ms; prompt 7 tokens; stop; seed 5" for standard error.
std::string describe(const Generation& generation);

}  // namespace mortise
