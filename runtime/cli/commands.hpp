// runtime/cli/commands.hpp: the sub-commands. Each function adds one to the program, with its options and a callback
// that does the work. A callback writes its result to standard output and everything else to standard error. It throws
// an Error for exit code 1 with "mortise: text", or CLI::RuntimeError(1) if it has already reported the problem.
#pragma once

#include <CLI/App.hpp>

namespace mortise {

void add_plugin_command(CLI::App& app);     // plugin, with the sub-commands of plugin/
void add_check_command(CLI::App& app);      // check
void add_run_command(CLI::App& app);        // run, with the REPL
void add_batch_command(CLI::App& app);      // batch
void add_bisect_command(CLI::App& app);     // bisect
void add_bench_command(CLI::App& app);      // bench
void add_ctl_command(CLI::App& app);        // ctl
void add_replay_command(CLI::App& app);     // replay
void add_score_command(CLI::App& app);      // score
void add_serve_command(CLI::App& app);      // serve
void add_tokenize_commands(CLI::App& app);  // tokenize, detokenize
void add_trial_command(CLI::App& app);      // trial-of-parts, which a swap starts
void add_verify_command(CLI::App& app);     // verify

}  // namespace mortise
