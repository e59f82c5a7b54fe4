// tests/plugins/models/common/naive_parts.hpp: a device and an attention written as plainly as the equations, in double
// with f32 storage: the oracle for what a model computes, whatever kernels do. They check every shape that they are
// given.
#pragma once

#include <string>
#include <vector>

#include "mortise/plugin.h"

namespace mortise::test {

extern const mortise_component kNaiveDevice;
extern const mortise_component kNaiveAttention;

// What the device has been asked to do and what it still holds.
struct NaiveLog {
  std::vector<std::string> operations;  // names, in order of their calls
  int num_weights = 0;                  // prepared and not freed
  int num_allocations = 0;              // allocated and not freed
  bool has_memory = true;               // false: allocate fails
};
NaiveLog& naive_log();

// The names of the operations that `step` calls.
template <typename Step>
std::vector<std::string> operations_of(const Step& step) {
  naive_log().operations.clear();
  step();
  return naive_log().operations;
}

}  // namespace mortise::test
