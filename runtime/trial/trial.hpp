// runtime/trial/trial.hpp: tries parts before they serve, in a process of its own: what they do there to the process,
// they do not do to the one that serves.
#pragma once

#include <functional>
#include <string>

#include "error.hpp"
#include "trial/order.hpp"

namespace mortise {

// How a trial is given up.
struct TrialLimits {
  double step_s = 30;      // a call into an active part
  double control_s = 120;  // any other call
  double all_s = 300;
};
// With $MORTISE_CALL_LIMIT the first is that number of seconds, the second four times as many, and the third at least
// ten times.
TrialLimits trial_limits();

// The script of an order cannot be used, or what it names cannot be opened: that is no matter of one pipeline.
class UnreadableScript : public Error {
 public:
  using Error::Error;
};

struct TrialOutcome {
  bool was_made = true;
  std::string why_not = {};  // the parts that serve could not be opened a second time
};

// Starts this program again, which runs the parts that serve and the candidate on the configuration of
// `order.serving`, and waits for its verdict. Throws the Error that the candidate was refused with: the one that it
// would have got here, or what it did to the process and in which call. `is_given_up` is asked again and again: true
// ends the trial, with an Error of code kUnavailable. [any thread that may wait]
TrialOutcome try_parts(const TrialOrder& order, const std::function<bool()>& is_given_up);

}  // namespace mortise
