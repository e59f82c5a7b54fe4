// runtime/cli/plugin/case_progress.hpp: shows on a terminal which case of the conformance suite runs.
#pragma once

#include "conformance/suite.hpp"

namespace mortise {

// One line on standard error, if that is a terminal: "case 12 of 63: proposer.batch". Otherwise it writes nothing.
// Invariant: the line is on the terminal only while this exists. Used by one thread.
class CaseProgress {
 public:
  CaseProgress();
  ~CaseProgress() { erase(); }
  CaseProgress(const CaseProgress&) = delete;
  CaseProgress& operator=(const CaseProgress&) = delete;

  // Returns events that show each case when it begins. They refer to this object.
  conformance::SuiteEvents events();
  // Call it before other text goes to the terminal.
  void erase();

 private:
  void show(const conformance::CaseStart& start);

  const bool on_terminal_;
  bool is_drawn_ = false;
};

}  // namespace mortise
