// runtime/cli/verify_options.hpp: what `verify` and `bisect` have in common: their arguments, and how they print what
// was compared.
#pragma once

#include <CLI/App.hpp>

#include "cli/verification.hpp"
#include "replay/numerics_change.hpp"

namespace mortise {

void add_verify_options(CLI::App& command, VerifyOptions& options);

// On standard output: the ids of the pipeline that was opened last, and the summary with the first difference.
void print_numerics(const Verification& result);
void print_verification(const Verification& result);

}  // namespace mortise
