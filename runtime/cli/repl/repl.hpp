// runtime/cli/repl/repl.hpp: the dialogue of `mortise run` without a prompt.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/session.hpp"
#include "sampling/params.hpp"

namespace mortise {

enum class ReplEnd {
  kDone,         // end of the input, or /quit
  kSomeFailed,   // the same, and an entry of a pipe was answered with an error
  kInterrupted,  // Ctrl-C, without a terminal
};

// Reads entries until the end of the input or /quit: prompts and commands (/help lists them). On a terminal with line
// editing, history and TAB, and Ctrl-C ends the generation that runs, or clears the line. `fields` are sampling fields
// of a request body.
ReplEnd run_repl(Session& session, nlohmann::json fields, const SamplingParams& defaults);

}  // namespace mortise
