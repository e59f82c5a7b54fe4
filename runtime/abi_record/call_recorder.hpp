// runtime/abi_record/call_recorder.hpp: writes the calls of one scheduler, proposer or attention to a file. The
// recorder is a component that forwards every call to the real one, so the engine does not know that it is there.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "loader/component.hpp"

namespace mortise {

// Records the first instance of one part. Each call is in the file before it is made, so a call that ends the process
// is recorded, too. Outlives the instances of its components. Thread-safe. Invariant: one instance at most is recorded.
class CallRecorder {
 public:
  // `target` is "FILE" for the scheduler, or "PART=FILE" for the part of that name. Throws an Error if
  // the file cannot be written.
  explicit CallRecorder(const std::string& target);
  ~CallRecorder();

  // Returns the component to open in the place of `component`: one that records, if it is the wanted part, otherwise
  // `component` itself. It lives as long as this. Throws an Error if the wanted part cannot be recorded.
  const Component& component(const Component& component);

 private:
  struct Parts;

  const std::string wanted_;  // the part's name; empty: the scheduler
  std::mutex mutex_;          // guards the list of parts_
  const std::unique_ptr<Parts> parts_;
};

}  // namespace mortise
