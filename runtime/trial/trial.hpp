// runtime/trial/trial.hpp: tries parts in a separate process before they serve, so that they cannot harm the serving
// process.
#pragma once

#include <functional>
#include <string>

#include "error.hpp"
#include "trial/order.hpp"

namespace mortise {

// Time limits, after which a trial is given up.
struct TrialLimits {
  double step_s = 30;      // a call into an active part
  double control_s = 120;  // any other call
  double all_s = 300;
};
// $MORTISE_CALL_LIMIT replaces the first limit; the second is then four times as long, and the third at least ten
// times.
TrialLimits trial_limits();

// The script of an order cannot be used, or something that it names cannot be opened. Concerns the script as a whole,
// not a single pipeline. A value: each thread has its own.
class UnreadableScript : public Error {
 public:
  using Error::Error;
};

struct TrialOutcome {
  bool was_made = true;
  std::string why_not = {};  // why the serving parts could not be opened a second time
};

// Starts this program again. The new process runs the serving parts and the candidate on the configuration of
// `order.serving`; this call waits for its verdict. If the candidate is refused, throws the Error that it would have
// caused here, or an Error that says what it did to the process and in which call. `is_given_up` is called repeatedly;
// if it returns true, the trial ends with an Error of code kUnavailable. [any thread that may wait]
TrialOutcome try_parts(const TrialOrder& order, const std::function<bool()>& is_given_up);

}  // namespace mortise
