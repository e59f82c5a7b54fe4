#include "conformance/device_bench.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace mortise::conformance {

void in_each_type(Subject& subject, const std::function<void(const DeviceBench&)>& work) {
  const auto part = subject.make_active();
  const DeviceAccess device(*part);
  for (const std::int32_t dtype : {MORTISE_BF16, MORTISE_F32}) {
    const char* const id = device.table->numerics_id(device.device, dtype);
    if (id == nullptr) continue;
    const std::string_view name = id;
    const bool is_cpu = name == "cpu-bf16/1" || name == "cpu-bf16-pairs/1" || name == "cpu-f32/1";
    work({subject, *part, device, dtype, is_cpu || name == "cuda-bf16/1", is_cpu, mortise_sum_order_of(id)});
  }
}

void expect_independent(const DeviceBench& bench, const Matrix& x, const Matrix& whole,
                        const std::function<Matrix(const Matrix& x)>& compute, const char* what) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rows));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, bench.random());
  expect_equal(whole.rows_at(order), compute(x.rows_at(order)), what);
  for (const std::size_t count : {std::size_t{1}, order.size() / 2}) {
    const std::vector<std::int64_t> some(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    expect_equal(whole.rows_at(some), compute(x.rows_at(some)), what);
  }
}

void expect_like(const DeviceBench& bench, const Matrix& expected, const Matrix& found, const char* what) {
  if (bench.is_known) {
    expect_equal(expected, found, what);
  } else {
    expect_close(expected, found, bench.bf16() ? 0.05 : 1e-4, what);
  }
}

void expect_refused(const DeviceBench& bench, const char* function,
                    const std::function<mortise_status(mortise_error*)>& call) {
  const Answer answer = bench.part.call(function, call);
  expect(answer.status == MORTISE_INVALID_ARGUMENT,
         "{} with shapes that do not fit together answers {}, expected INVALID_ARGUMENT", function, answer.text());
}

}  // namespace mortise::conformance
