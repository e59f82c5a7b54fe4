// runtime/trial/trial_run.hpp: the process of a trial.
#pragma once

#include "trial/page.hpp"

namespace mortise {

// Runs the parts that serve, then swaps those that are wanted in while requests run, and runs them alone; the answers
// must be equal to the bit, and no rule of a plugin may be broken. What came of it is in the page. Whatever a plugin
// does to the process on the way is its parent's to find out. For a process that does nothing else.
void run_trial(SharedPage& page);

}  // namespace mortise
