// runtime/trial/trial_run.hpp: the process of a trial.
#pragma once

#include "trial/page.hpp"

namespace mortise {

// Runs the serving parts, swaps the wanted parts in while requests run, then runs the wanted parts alone. The answers
// must be bitwise equal, and no plugin may break a rule. The result is written to the page. If a plugin ends the
// process, the parent notices. For a process that does nothing else.
void run_trial(SharedPage& page);

}  // namespace mortise
