// runtime/cli/generation.hpp: one prompt at a time for a person: streams the text, and stops when told to.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace mortise {

// True from Ctrl-C on until cleared. While an InterruptGuard lives SIGINT sets it instead of ending the program.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
  static void clear();

 private:
  void (*previous_)(int);
};

struct Generation {
  std::string text;
  std::vector<TokenInfo> tokens;
  Delta last;                // finish, seed, usage
  double first_token_s = 0;  // after submission
  double total_s = 0;
};

// Runs one choice to its end, or aborts it when interrupted. `on_text` gets each piece as it comes.
Generation generate(Engine& engine, Request request, const std::function<void(const std::string&)>& on_text);

// "42 tokens in 0.31 s (135.5 tokens/s), first after 12 ms; prompt 7 tokens; stop" for standard error.
std::string describe(const Generation& generation);

}  // namespace mortise
