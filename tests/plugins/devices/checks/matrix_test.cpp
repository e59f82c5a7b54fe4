// Tensors that no operation can read, through the CPU device.
#include "devices/checks/matrix.hpp"

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

using MatrixMistakes = OneDevice;

TEST_F(MatrixMistakes, TensorsThatCannotBeReadAreRefused) {
  const std::vector<float> data(32);
  mortise_tensor out = matrix(data, 2, 10), odd = out, large = out, flat = out, close = out;
  odd.data = static_cast<std::byte*>(odd.data) + 2;
  large.shape[0] = int64_t{1} << 31;
  flat.ndim = 1;
  close.stride[0] = 9;
  const auto refused = [&](const mortise_tensor& x, const std::string& text) {
    expect_invalid(table().activation(device_.get(), nullptr, MORTISE_ACT_RELU, &x, &out, &device_.error), text);
  };
  refused(odd, "x f32 [2, 10] does not begin at an element's boundary");
  refused(large, "x has 2 dimensions, 2147483648 x 10; expected 2 below 2^31");
  refused(flat, "x has 1 dimensions");
  refused(close, "x f32 [2, 10] has strides 9, 1; expected contiguous elements in each row");
  refused(matrix(data, 4, 10), "x f32 [4, 10] does not fit its 128 bytes");
}

}  // namespace
}  // namespace mortise::cpu
