// What operations on rows refuse, through the CPU device.
#include "devices/checks/rows.hpp"

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

using RowMistakes = OneDevice;

TEST_F(RowMistakes, AreRefusedWithBothShapes) {
  std::vector<float> data(600);
  const std::vector<float> short_vector(9);
  const Weight vector(device_, MORTISE_WEIGHT_VECTOR, MORTISE_F32, {vector_part(short_vector)});
  const mortise_tensor a = matrix(data, 10, 20), b = matrix(data, 20, 10), c = matrix(data, 10, 10);
  expect_invalid(table().add(device_.get(), nullptr, &a, &b, &a, &device_.error),
                 "a is f32 [10, 20], b is f32 [20, 10]");
  expect_invalid(table().activation(device_.get(), nullptr, MORTISE_ACT_RELU, &a, &b, &device_.error), "out is f32");
  expect_invalid(table().activation(device_.get(), nullptr, 9, &a, &a, &device_.error), "activation 9");
  expect_invalid(table().gated_activation(device_.get(), nullptr, MORTISE_ACT_SILU, &c, &a, &device_.error),
                 "x is f32 [10, 10], out is f32 [10, 20]");
  auto args = sized<mortise_norm_args>();
  args.x = args.out = &a;
  expect_invalid(table().rms_norm(device_.get(), nullptr, &args, &device_.error), "weight is missing");
  args.weight = vector.get();
  expect_invalid(table().rms_norm(device_.get(), nullptr, &args, &device_.error),
                 "weight of 9 elements does not fit x f32 [10, 20]");
  args.residual = &b;
  expect_invalid(table().layer_norm(device_.get(), nullptr, &args, &device_.error), "residual is f32 [20, 10]");
}

TEST_F(RowMistakes, RowNumbersOutsideTheTableAreRefused) {
  std::vector<float> data(100);
  const mortise_tensor x = matrix(data, 10, 10), out = matrix(data, 2, 10);
  const std::int32_t high[] = {3, 10}, low[] = {-1, 0};
  expect_invalid(table().gather_rows(device_.get(), nullptr, &x, high, &out, &device_.error), "rows[1] is 10");
  expect_invalid(table().gather_rows(device_.get(), nullptr, &x, low, &out, &device_.error), "rows[0] is -1");
  expect_invalid(table().scatter_rows(device_.get(), nullptr, &out, high, &x, &device_.error), "rows[1] is 10");
  expect_invalid(table().scatter_rows(device_.get(), nullptr, &out, low, &x, &device_.error), "rows[0] is -1");
  const Weight embedding(device_, MORTISE_WEIGHT_EMBEDDING, MORTISE_F32, {x});
  expect_invalid(table().embed(device_.get(), nullptr, high, embedding.get(), &out, &device_.error), "ids[1] is 10");
  const Weight linear(device_, MORTISE_WEIGHT_LINEAR, MORTISE_F32, {x});
  expect_invalid(table().embed(device_.get(), nullptr, low, linear.get(), &out, &device_.error), "as an embedding");
}

}  // namespace
}  // namespace mortise::cpu
