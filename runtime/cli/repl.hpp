// runtime/cli/repl.hpp: the dialogue of `mortise run` without a prompt.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/session.hpp"
#include "sampling/params.hpp"

namespace mortise {

// Reads lines until the end of the input or /quit. A line is a prompt, or a command (/help lists them). Ctrl-C ends the
// generation that runs, or clears the line. `fields` are sampling fields of a request body, changed by /set.
void run_repl(Session& session, nlohmann::json fields, const SamplingParams& defaults);

}  // namespace mortise
