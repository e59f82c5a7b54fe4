// linear through the device: the reference's bits for every instruction set, thread count and cut of the work.
// Covers: plugins/devices/cpu/matrix
#include "kernels/cpu/reference/linear.hpp"
#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

struct Shape {
  std::size_t m, n, k;
};
// Some large enough to be cut into tasks of columns, and of rows too.
constexpr Shape kShapes[] = {{1, 1, 1},     {1, 64, 32},    {3, 100, 33},  {2, 1000, 288}, {17, 528, 96},
                             {40, 64, 512}, {130, 96, 256}, {1, 4096, 96}, {65, 200, 160}};

std::vector<float> reference_product(const std::vector<Bf16>& x, const std::vector<Bf16>& w, const float* bias, Shape s,
                                     SumOrder order = SumOrder::kTiles) {
  std::vector<float> y(s.m * s.n);
  const auto linear = order == SumOrder::kTiles ? reference::linear_bf16 : reference::linear_bf16_pairs;
  linear(x.data(), w.data(), bias, y.data(), s.m, s.n, s.k);
  return y;
}
std::vector<float> reference_product(const std::vector<float>& x, const std::vector<float>& w, const float* bias,
                                     Shape s) {
  std::vector<float> y(s.m * s.n);
  reference::linear_f32(x.data(), w.data(), bias, y.data(), s.m, s.n, s.k);
  return y;
}

// The operands of products of one shape in both types.
struct Operands {
  Operands(Device& device, std::mt19937& rng, Shape s)
      : bias(random_values<float>(rng, s.n)),
        x(random_values<float>(rng, s.m * s.k)),
        w(random_values<float>(rng, s.n * s.k)),
        xb(random_values<Bf16>(rng, s.m * s.k)),
        wb(random_values<Bf16>(rng, s.n * s.k)),
        f32(device, MORTISE_WEIGHT_LINEAR, MORTISE_F32, {matrix(w, s.n, s.k)}),
        bf16(device, MORTISE_WEIGHT_LINEAR, MORTISE_BF16, {matrix(wb, s.n, s.k)}),
        bias_weight(device, MORTISE_WEIGHT_VECTOR, MORTISE_F32, {vector_part(bias)}) {}

  const std::vector<float> bias, x, w;
  const std::vector<Bf16> xb, wb;
  const Weight f32, bf16, bias_weight;
};

class Linear : public OnEachDevice {
 protected:
  explicit Linear(SumOrder order = SumOrder::kTiles) : OnEachDevice(order) {}

  template <typename Out, typename X>
  std::vector<Out> product(const std::vector<X>& x, const Weight& weight, const Weight* bias, Shape s,
                           std::size_t begin = 0, std::size_t end = 0) {
    auto args = sized<mortise_linear_args>();
    args.column_begin = static_cast<int32_t>(begin);
    args.column_end = static_cast<int32_t>(end);
    return run<Out>(x, weight, bias, s, end == 0 ? s.n : end - begin, args);
  }

  template <typename T>
  std::vector<T> gated_product(int32_t act, const std::vector<T>& x, const Weight& weight, const Weight* bias,
                               Shape s) {
    auto args = sized<mortise_linear_args>();
    args.gate_activation = act;
    return run<T>(x, weight, bias, s, s.n / 2, args);
  }

  // The product into memory, the activation from there: what a gated product is defined by.
  template <typename T>
  std::vector<T> in_two_steps(int32_t act, const std::vector<T>& x, const Weight& weight, const Weight* bias, Shape s) {
    const std::vector<T> y = product<T>(x, weight, bias, s);
    std::vector<T> out(s.m * s.n / 2);
    const mortise_tensor from = matrix(y, s.m, s.n), to = matrix(out, s.m, s.n / 2);
    expect_ok(table().gated_activation(device_.get(), nullptr, act, &from, &to, &device_.error));
    return out;
  }

 private:
  template <typename Out, typename X>
  std::vector<Out> run(const std::vector<X>& x, const Weight& weight, const Weight* bias, Shape s, std::size_t columns,
                       mortise_linear_args args) {
    const std::size_t stride = columns + 3;
    std::vector<Out> padded(s.m * stride, Out{1});
    const mortise_tensor in = matrix(x, s.m, s.k), out = matrix(padded, s.m, columns, stride);
    args.x = &in;
    args.weight = weight.get();
    args.bias = bias == nullptr ? nullptr : bias->get();
    args.out = &out;
    expect_ok(table().linear(device_.get(), nullptr, &args, &device_.error));
    std::vector<Out> dense;
    for (std::size_t i = 0; i < s.m; ++i) {
      dense.insert(dense.end(), &padded[i * stride], &padded[i * stride] + columns);
      for (std::size_t j = columns; j < stride; ++j) EXPECT_EQ(padded[i * stride + j], Out{1}) << "wrote behind a row";
    }
    return dense;
  }
};

TEST_P(Linear, HasTheReferencesBits) {
  std::mt19937 rng(1);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.m << " " << s.n << " " << s.k);
    const Operands operands(device_, rng, s);
    const auto& [bias, x, w, xb, wb, f32, bf16, bias_weight] = operands;

    const std::vector<float> expected = reference_product(xb, wb, nullptr, s);
    std::vector<Bf16> narrow(expected.size());
    std::transform(expected.begin(), expected.end(), narrow.begin(), float_to_bf16);
    EXPECT_TRUE(same_bits(expected, product<float>(xb, bf16, nullptr, s)));
    EXPECT_TRUE(same_bits(narrow, product<Bf16>(xb, bf16, nullptr, s)));
    EXPECT_TRUE(same_bits(reference_product(xb, wb, bias.data(), s), product<float>(xb, bf16, &bias_weight, s)));
    EXPECT_TRUE(same_bits(reference_product(x, w, nullptr, s), product<float>(x, f32, nullptr, s)));
  }
}

class LinearInPairs : public Linear {
 protected:
  LinearInPairs() : Linear(SumOrder::kPairs) {}
};

TEST_P(LinearInPairs, HasTheReferencesBits) {
  std::mt19937 rng(1);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.m << " " << s.n << " " << s.k);
    const Operands operands(device_, rng, s);
    const auto& [bias, x, w, xb, wb, f32, bf16, bias_weight] = operands;
    EXPECT_TRUE(same_bits(reference_product(xb, wb, bias.data(), s, SumOrder::kPairs),
                          product<float>(xb, bf16, &bias_weight, s)));
    EXPECT_TRUE(same_bits(reference_product(x, w, nullptr, s), product<float>(x, f32, nullptr, s)));  // one class
  }
}

TEST_P(Linear, ARangeOfColumnsIsThatPartOfTheWhole) {
  std::mt19937 rng(2);
  const Shape s = {20, 300, 64};
  const std::vector<Bf16> x = random_values<Bf16>(rng, s.m * s.k), w = random_values<Bf16>(rng, s.n * s.k);
  const std::vector<float> b = random_values<float>(rng, s.n);
  const Weight weight(device_, MORTISE_WEIGHT_LINEAR, MORTISE_BF16, {matrix(w, s.n, s.k)});
  const Weight bias(device_, MORTISE_WEIGHT_VECTOR, MORTISE_F32, {vector_part(b)});
  const std::vector<float> whole = product<float>(x, weight, &bias, s);
  for (const auto& [begin, end] : {std::pair(0, 64), {64, 128}, {128, 300}, {64, 64}, {256, 300}}) {
    if (begin == end) continue;
    std::vector<float> expected;
    for (std::size_t i = 0; i < s.m; ++i) {
      expected.insert(expected.end(), &whole[i * s.n + begin], &whole[i * s.n] + end);
    }
    EXPECT_TRUE(same_bits(expected, product<float>(x, weight, &bias, s, begin, end))) << begin << " " << end;
  }
}

TEST_P(Linear, ARowsBitsDoNotDependOnTheOtherRows) {
  std::mt19937 rng(3);
  const Shape s = {50, 192, 288};
  const std::vector<Bf16> x = random_values<Bf16>(rng, s.m * s.k), w = random_values<Bf16>(rng, s.n * s.k);
  const Weight weight(device_, MORTISE_WEIGHT_LINEAR, MORTISE_BF16, {matrix(w, s.n, s.k)});
  const std::vector<Bf16> together = product<Bf16>(x, weight, nullptr, s);
  for (const std::size_t row : {0, 15, 16, 31, 32, 49}) {
    const std::vector<Bf16> alone(&x[row * s.k], &x[row * s.k] + s.k);
    const std::vector<Bf16> expected(&together[row * s.n], &together[row * s.n] + s.n);
    EXPECT_TRUE(same_bits(expected, product<Bf16>(alone, weight, nullptr, {1, s.n, s.k}))) << row;
  }
}

TEST_P(Linear, AGatedProductHasTheBitsOfBothSteps) {
  std::mt19937 rng(4);
  // Halves of whole panels, of a rest, one too long for a tile, more rows than a tile has.
  for (const Shape& s : {Shape{1, 64, 32}, {3, 100, 33}, {17, 2, 96}, {65, 96, 64}, {200, 160, 40}, {70, 1400, 1000}}) {
    SCOPED_TRACE(testing::Message() << s.m << " " << s.n << " " << s.k);
    const Operands operands(device_, rng, s);
    const auto& [bias, x, w, xb, wb, f32, bf16, bias_weight] = operands;
    for (const Weight* b : {static_cast<const Weight*>(nullptr), &bias_weight}) {
      for (int32_t act : {MORTISE_ACT_SILU, MORTISE_ACT_GELU}) {
        EXPECT_TRUE(same_bits(in_two_steps(act, xb, bf16, b, s), gated_product(act, xb, bf16, b, s))) << act;
        EXPECT_TRUE(same_bits(in_two_steps(act, x, f32, b, s), gated_product(act, x, f32, b, s))) << act;
      }
    }
  }
}

MORTISE_ON_EACH_DEVICE(Linear);
MORTISE_ON_EACH_DEVICE(LinearInPairs);

}  // namespace
}  // namespace mortise::cpu
