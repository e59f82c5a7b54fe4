// The hidden sub-command that a swap starts; see runtime/trial/trial.hpp.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "trial/trial_process.hpp"
#include "trial/trial_run.hpp"

namespace mortise {

void add_trial_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(kTrialCommand, "try parts before a swap; mortise starts it by itself");
  command->group("");  // hidden from the help
  command->callback([] {
    SharedPage page{FileDescriptor(kTrialDescriptor)};
    run_trial(page);
    ::_exit(0);  // the page has the result, and no further code of a plugin may run
  });
}

}  // namespace mortise
