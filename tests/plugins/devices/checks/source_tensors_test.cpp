// Matrices and vectors that cannot become a weight, through the CPU device.
#include "devices/checks/source_tensors.hpp"

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

using SourceTensorMistakes = OneDevice;

TEST_F(SourceTensorMistakes, AreRefusedWithWhatIsWrong) {
  std::vector<float> data(100);
  const auto expect = [&](int32_t use, int32_t dtype, const std::vector<mortise_tensor>& parts, const char* text) {
    const Weight weight(device_, use, dtype, parts);
    expect_invalid(weight.status, text);
    EXPECT_EQ(weight.get(), nullptr);
  };
  expect(MORTISE_WEIGHT_LINEAR, MORTISE_F32, {}, "no parts");
  expect(MORTISE_WEIGHT_LINEAR, MORTISE_F32, {matrix(data, 5, 10), matrix(data, 5, 11)}, "part 1 has 11 columns");
  expect(MORTISE_WEIGHT_LINEAR, MORTISE_F32, {matrix(data, 11, 10)}, "does not fit its 400 bytes");
  expect(MORTISE_WEIGHT_LINEAR, MORTISE_F32, {vector_part(data)}, "1 dimensions; expected 2");
  expect(MORTISE_WEIGHT_VECTOR, MORTISE_F32, {matrix(data, 10, 10)}, "2 dimensions; expected 1");
  expect(MORTISE_WEIGHT_LINEAR, MORTISE_F32, {with_dtype(matrix(data, 10, 10), MORTISE_I32)}, "expected bf16, f16");
  expect(MORTISE_WEIGHT_LINEAR, MORTISE_F16, {matrix(data, 10, 10)}, "expected bf16 or f32");
  expect(MORTISE_WEIGHT_LINEAR | MORTISE_WEIGHT_VECTOR, MORTISE_F32, {matrix(data, 10, 10)}, "use is 5");
  expect(0, MORTISE_F32, {matrix(data, 10, 10)}, "use is 0");
}

}  // namespace
}  // namespace mortise::cpu
