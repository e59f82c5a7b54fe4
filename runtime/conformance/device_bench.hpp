// runtime/conformance/device_bench.hpp: the device under test and what its operations should give, for the rules of
// device_linear_cases, device_row_cases and device_logit_cases. Where mortise/numerics.h specifies the bits of the
// device's numerics id, outputs are compared with it; elsewhere with a wider tolerance. Whatever the id, no bit of a
// row may depend on other rows.
#pragma once

#include <functional>

#include "conformance/device_matrix.hpp"
#include "conformance/subject.hpp"
#include "mortise/numerics.h"

namespace mortise::conformance {

inline constexpr float kDeviceEps = 1e-5f;  // of norms

// The device under test, computing in one type. Used by one thread; borrows the subject and the part.
struct DeviceBench {
  Subject& subject;
  const Part& part;
  DeviceAccess device;
  std::int32_t dtype;
  bool is_known;          // numerics.h specifies every operation except linear
  bool has_known_linear;  // numerics.h specifies linear, too
  mortise_sum_order order;

  bool bf16() const { return dtype == MORTISE_BF16; }
  std::mt19937_64& random() const { return subject.random(); }
  Matrix draw(std::int64_t rows, std::int64_t columns, float range = 1) const {
    return draw_matrix(random(), dtype, rows, columns, range);
  }
  // Calls an operation that must succeed.
  template <typename Call>
  void run(const char* function, const Call& call) const {
    device.perform(function, [&](mortise_error* error) { return call(*device.table, device.device, error); });
  }
};

// Calls `work` for each type that the device computes in.
void in_each_type(Subject& subject, const std::function<void(const DeviceBench&)>& work);

// Throws CaseFailed unless `compute` gives each row of x the bits that it has in `whole`: in any order of the rows, and
// also if the row is computed alone.
void expect_independent(const DeviceBench& bench, const Matrix& x, const Matrix& whole,
                        const std::function<Matrix(const Matrix& x)>& compute, const char* what);
// Throws CaseFailed unless the matrices have equal bits, or are near where the bits are not specified.
void expect_like(const DeviceBench& bench, const Matrix& expected, const Matrix& found, const char* what);

// Throws CaseFailed unless the call answers INVALID_ARGUMENT.
void expect_refused(const DeviceBench& bench, const char* function,
                    const std::function<mortise_status(mortise_error*)>& call);

}  // namespace mortise::conformance
