// runtime/cli/verify_options.hpp: the common part of `verify` and `bisect`: their arguments, and how they print the
// comparison.
#pragma once

#include <CLI/App.hpp>

#include "cli/verification.hpp"
#include "replay/numerics_change.hpp"

namespace mortise {

void add_verify_options(CLI::App& command, VerifyOptions& options);

// These print to standard output: the numerics ids of the pipeline that was opened last, and the summary with the first
// difference.
void print_numerics(const Verification& result);
void print_verification(const Verification& result);

}  // namespace mortise
