// linear_call.hpp: one call of the device's linear with a prepared weight, for the tests of weights that are not bf16.
#pragma once

#include <algorithm>

#include "device_fixture.hpp"

namespace mortise::cuda {

struct LinearCall {
  std::size_t m, n, k;
  std::size_t x_pad = 0;
  const mortise_weight* bias = nullptr;
  int32_t gate = 0;
  int32_t column_begin = 0, column_end = 0;
  std::size_t y_pad =
      3;  // with a multiple of 8, kernels may write 16 bytes at a time, and cuBLASLt takes large products
};

template <typename Out>
std::vector<Out> rounded(const std::vector<float>& y) {
  if constexpr (sizeof(Out) == sizeof(float)) {
    return y;
  } else {
    std::vector<Out> narrow;
    for (const float value : y) narrow.push_back(cpu::float_to_bf16(value));
    return narrow;
  }
}

class CallsLinear : public OnGpu {
 protected:
  // What the device gives for dense rows of x. Behind each row of y nothing is written.
  template <typename Out>
  std::vector<Out> product(const mortise_weight* weight, const std::vector<Bf16>& x, const LinearCall& call) {
    const std::size_t x_stride = call.k + call.x_pad;
    std::vector<Bf16> rows(call.m * x_stride, Bf16{0x4000});
    for (std::size_t i = 0; i < call.m; ++i) std::copy_n(&x[i * call.k], call.k, &rows[i * x_stride]);
    const std::size_t columns = call.gate != 0         ? call.n / 2
                                : call.column_end != 0 ? static_cast<std::size_t>(call.column_end - call.column_begin)
                                                       : call.n;
    const std::size_t y_stride = columns + call.y_pad;
    const Out untouched = sizeof(Out) == 2 ? static_cast<Out>(12345) : static_cast<Out>(-7);
    const Array<Bf16> xs(rows);
    const Array<Out> ys(std::vector<Out>(call.m * y_stride, untouched));
    const mortise_tensor x_tensor = matrix(xs, call.m, call.k, x_stride);
    const mortise_tensor y_tensor = matrix(ys, call.m, columns, y_stride);
    auto args = sized<mortise_linear_args>();
    args.x = &x_tensor;
    args.weight = weight;
    args.bias = call.bias;
    args.out = &y_tensor;
    args.gate_activation = call.gate;
    args.column_begin = call.column_begin;
    args.column_end = call.column_end;
    expect_ok(table().linear(gpu(), nullptr, &args, error()));
    const std::vector<Out> padded = ys.get();
    std::vector<Out> y;
    for (std::size_t i = 0; i < call.m; ++i) {
      y.insert(y.end(), &padded[i * y_stride], &padded[i * y_stride] + columns);
      for (std::size_t j = columns; j < y_stride; ++j) EXPECT_EQ(padded[i * y_stride + j], untouched) << "behind " << i;
    }
    return y;
  }
};

}  // namespace mortise::cuda
