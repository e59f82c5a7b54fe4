// What linear refuses, through the CPU device: shapes, columns and uses, each named in the message.
// Covers: plugins/devices/checks/weight
#include "devices/checks/linear.hpp"

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

class LinearMistakes : public OneDevice {
 protected:
  LinearMistakes()
      : data_(64 * 128),
        weight_(device_, MORTISE_WEIGHT_LINEAR, MORTISE_F32, {matrix(data_, 128, 64)}),
        vector_(device_, MORTISE_WEIGHT_VECTOR, MORTISE_F32, {vector_part(std::vector<float>(100))}) {
    args_ = sized<mortise_linear_args>();
    args_.weight = weight_.get();
  }
  void expect(const mortise_tensor& x, const mortise_tensor& out, const char* text) {
    args_.x = &x;
    args_.out = &out;
    expect_invalid(table().linear(device_.get(), nullptr, &args_, &device_.error), text);
  }

  std::vector<float> data_;
  Weight weight_, vector_;
  mortise_linear_args args_;
};

TEST_F(LinearMistakes, ShapesThatDoNotFitAreNamedBoth) {
  expect(matrix(data_, 3, 60), matrix(data_, 3, 128), "x f32 [3, 60] does not fit weight f32 [128, 64]");
  expect(with_dtype(matrix(data_, 3, 64), MORTISE_BF16), matrix(data_, 3, 128),
         "x bf16 [3, 64] does not fit weight f32");
  expect(matrix(data_, 3, 64), matrix(data_, 2, 128), "out f32 [2, 128] does not fit x f32 [3, 64]");
  expect(matrix(data_, 3, 64), matrix(data_, 3, 127), "out f32 [3, 127]");
  expect(matrix(data_, 3, 64), with_dtype(matrix(data_, 3, 128), MORTISE_BF16), "out bf16 [3, 128]");
  expect(matrix(data_, 300, 64), matrix(data_, 300, 128), "x f32 [300, 64] does not fit its 32768 bytes");
  expect(with_dtype(matrix(data_, 3, 64), MORTISE_I32), matrix(data_, 3, 128), "expected bf16 or f32");
}

TEST_F(LinearMistakes, BiasColumnsAndUseAreChecked) {
  const mortise_tensor x = matrix(data_, 3, 64), out = matrix(data_, 3, 128);
  args_.bias = vector_.get();
  expect(x, out, "bias f32 [100, 1] does not fit weight f32 [128, 64]");
  args_.bias = nullptr;
  args_.column_end = 100;
  expect(x, out, "columns 0 to 100");
  args_.column_begin = -64;
  args_.column_end = 64;
  expect(x, out, "columns -64 to 64");
  args_.column_begin = 0, args_.column_end = 192;
  expect(x, out, "columns 0 to 192");
  args_.column_end = 0;
  args_.weight = vector_.get();
  expect(x, out, "was not prepared for linear");
  args_.weight = nullptr;
  expect(x, out, "weight is missing");
}

TEST_F(LinearMistakes, AGatedProductIsCheckedAsAWhole) {
  const mortise_tensor x = matrix(data_, 3, 64), out = matrix(data_, 3, 64);
  args_.gate_activation = 5;
  expect(x, out, "activation 5; expected silu");
  args_.gate_activation = MORTISE_ACT_SILU;
  expect(x, matrix(data_, 3, 128),
         "out f32 [3, 128] does not fit x f32 [3, 64] times weight f32 [128, 64], half of it");
  args_.column_end = 64;
  expect(x, out, "a gated product needs all columns of weight f32 [128, 64]");
  args_.column_end = 0;
  const Weight odd(device_, MORTISE_WEIGHT_LINEAR, MORTISE_F32, {matrix(data_, 3, 64)});
  args_.weight = odd.get();
  expect(x, out, "a gated product needs all columns of weight f32 [3, 64]");
}

}  // namespace
}  // namespace mortise::cpu
