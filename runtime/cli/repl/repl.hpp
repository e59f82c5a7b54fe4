// runtime/cli/repl/repl.hpp: the dialogue of `mortise run` without a prompt.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/session.hpp"
#include "sampling/params.hpp"

namespace mortise {

enum class ReplEnd {
  kDone,         // end of the input, or /quit
  kSomeFailed,   // end of the input, but an entry from a pipe failed
  kInterrupted,  // Ctrl-C without a terminal
};

// Reads prompts and commands (/help lists them) until the end of the input or /quit. A terminal has line editing,
// history and TAB; Ctrl-C ends the running generation or clears the line. `fields` are sampling fields of a request
// body.
ReplEnd run_repl(Session& session, nlohmann::json fields, const SamplingParams& defaults);

}  // namespace mortise
