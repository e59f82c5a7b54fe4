// runtime/abi_record/call_recorder.hpp: writes the calls of one scheduler or proposer to a file. The recorder is a
// component that forwards every call to the real one, so the engine does not know that it is there.
#pragma once

#include <string>

namespace mortise {

// From now on records the first instance of a part: `target` is "FILE" for the scheduler, or "PART=FILE" for the
// scheduler or proposer of that name. Each call is in the file before it is made, so a call that ends the process is
// recorded, too. Throws an Error if the file cannot be written. [control], once in a process, before parts are opened
void record_abi_calls(const std::string& target);

}  // namespace mortise
