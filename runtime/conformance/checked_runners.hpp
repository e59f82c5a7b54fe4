// runtime/conformance/checked_runners.hpp: the runners (mortise/ext/runner.h) that a proposer under test opens. They
// run the suite's draft model, note what the proposer does against the rules of the header, and can be told to fail.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "conformance/draft_function.hpp"
#include "conformance/guarded_memory.hpp"
#include "mortise/ext/runner.h"

namespace mortise::conformance {

// What fails from now on, and with which status a host would answer.
struct RunnerFaults {
  bool open = false;    // FAILED_PRECONDITION: the checkpoint does not fit
  bool update = false;  // RESOURCE_EXHAUSTED
  bool step = false;    // UNAVAILABLE: a part of the runner fails
  bool fork = false;    // RESOURCE_EXHAUSTED
  // The KV pool has no room for the first of this many sequences of a step; they get -1.
  std::int32_t num_without_draw = 0;
};

// The runners of one instance of a proposer. Its functions for plugins may be called on any thread: a call outside of
// the proposer's own calls is a breach, not a race. The others are for the suite's thread. Invariant: a runner that
// was opened keeps its address while this lives, so that a call on a closed one is noted.
class CheckedRunners {
 public:
  CheckedRunners();
  CheckedRunners(const CheckedRunners&) = delete;
  CheckedRunners& operator=(const CheckedRunners&) = delete;

  // Returns the table that get_ext gives for MORTISE_EXT_RUNNER.
  const mortise_runner_table* abi() const { return table_.data(); }
  // Says which function of the instance runs now, because that decides which calls are allowed; nullptr: none runs.
  void begin_call(const char* function);
  void end_call() { begin_call(nullptr); }
  void set_faults(const RunnerFaults& faults);

  // Returns the first rule that the proposer broke; empty: none.
  std::string breach() const;
  std::size_t num_opened() const;  // at any time
  std::size_t num_open() const;    // now
  // Return the number of sequences of all open runners, and the number of forks among them.
  std::size_t num_sequences() const;
  std::size_t num_forks() const;
  // Returns whether `open` was called with this path, also if it failed.
  bool was_asked_for(const std::string& path) const;

 private:
  struct Table : mortise_runner_table {
    CheckedRunners* self;
  };
  struct Runner {  // the implementation of mortise_runner
    CheckedRunners* owner;
    bool is_open = true;
    std::map<std::uint64_t, DraftText> sequences = {};
  };
  enum class When : std::uint32_t { kOutside, kInCreate, kInControl, kInStep };

  static Runner& runner_of(mortise_runner* runner) { return *reinterpret_cast<Runner*>(runner); }
  template <typename Body>
  static mortise_status in_step(mortise_runner* runner, const char* function, mortise_error* error, Body&& body);
  mortise_status open(const mortise_runner_open_args* args, mortise_runner** runner, mortise_error* error);
  static void close(mortise_runner* runner);
  static const mortise_model_dims* dims(mortise_runner* runner);
  static void end(mortise_runner* runner, const std::uint64_t* seq_ids, std::int32_t num_seqs);
  void update(Runner& runner, const mortise_runner_tokens& tokens);
  void step(Runner& runner, const mortise_runner_step& step);
  void fork(Runner& runner, const mortise_runner_forks& forks);
  // REQUIRES: mutex_ is held.
  void note(std::string breach);
  bool may_use(const Runner& runner, const char* function);

  mutable std::mutex mutex_;  // guards all below
  When when_ = When::kOutside;
  RunnerFaults faults_;
  std::string breach_;
  std::set<std::string> paths_;
  std::deque<Runner> runners_;
  GuardedArray<Table> table_;  // read-only, like the dimensions: a plugin must not change them
  GuardedArray<mortise_model_dims> dims_;
};

}  // namespace mortise::conformance
