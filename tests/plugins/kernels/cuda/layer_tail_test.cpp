// Compares a layer's tail in one kernel with the same operations one after another, bit by bit: products of the
// reference, norms and activations of their own kernels.
#include "kernels/cuda/layer_tail.hpp"

#include <deque>

#include "gpu_fixture.hpp"
#include "kernels/cuda/compare.hpp"
#include "kernels/cuda/linear_stream.hpp"
#include "kernels/cuda/reference/linear.hpp"
#include "kernels/cuda/rows.hpp"

namespace mortise::cuda::layer_tail_test {
namespace {

struct Shape {
  std::int64_t m, hidden, attention, intermediate, next;  // columns
};

std::size_t size(std::int64_t elements) {
  return static_cast<std::size_t>(elements);
}

// A matrix of random numbers, or of numbers that must be overwritten.
struct RandomRows {
  GpuArray<std::uint16_t> data;
  std::int64_t stride;
  RandomRows(std::int64_t rows, std::int64_t columns, float scale, std::mt19937& rng, std::int64_t pad = 0)
      : data(size(rows * (columns + pad))), stride(columns + pad) {
    EXPECT_EQ(launch_random(data.data(), rows * stride, scale, rng(), nullptr), cudaSuccess);
  }
  Rows view() const { return {data.data(), stride}; }
};

// The weights of a layer.
struct Layer {
  std::mt19937 rng;
  RandomRows o, gate_up, down, next, norms;
  GpuArray<float> bias;
  Layer(const Shape& s, unsigned seed)
      : rng(seed),
        o(s.hidden, s.attention, 0.5f, rng),
        gate_up(2 * s.intermediate, s.hidden, 0.5f, rng),
        down(s.hidden, s.intermediate, 0.5f, rng),
        next(std::max<std::int64_t>(s.next, 1), s.hidden, 0.5f, rng),
        norms(2, s.hidden, 1.0f, rng),
        bias(cpu::random_values<float>(rng, size(std::max({s.hidden, 2 * s.intermediate, s.next})))) {}
};

// What the operations read and write. `pad`: elements between rows.
struct Step {
  std::mt19937 rng;
  RandomRows x, residual, hidden, activated, next, both;
  Step(const Shape& s, unsigned seed, std::int64_t pad)
      : rng(seed),
        x(s.m, s.attention, 1.0f, rng, pad),
        residual(s.m, s.hidden, 1.0f, rng, pad),
        hidden(s.m, s.hidden, 1.0f, rng, pad),
        activated(s.m, s.intermediate, 1.0f, rng, pad),
        next(s.m, std::max<std::int64_t>(s.next, 1), 1.0f, rng, pad),
        both(s.m, 2 * s.intermediate, 1.0f, rng) {}

  LayerTail tail(const Shape& s, const Layer& w, bool with_bias, Activation activation) const {
    const float* bias = with_bias ? w.bias.data() : nullptr;
    const auto product = [&](const RandomRows& from, const RandomRows& weights, const RandomRows& to, std::int64_t n,
                             std::int64_t k) {
      return LinearArgs{from.data.data(),
                        from.stride,
                        weights.data.data(),
                        weights.stride,
                        bias,
                        to.data.data(),
                        to.stride,
                        ElementType::kBf16,
                        s.m,
                        n,
                        k};
    };
    const auto norm = [&](std::int64_t row, float eps) {
      NormArgs args = {};
      args.x = args.out = hidden.view();
      args.residual = residual.view();
      args.weight = w.norms.data.data() + row * s.hidden;
      args.rows = s.m, args.columns = s.hidden;
      args.type = ElementType::kBf16;
      args.eps = eps;
      return args;
    };
    return {product(x, w.o, hidden, s.hidden, s.attention),
            norm(0, 1e-5f),
            product(hidden, w.gate_up, activated, 2 * s.intermediate, s.hidden),
            activation,
            product(activated, w.down, hidden, s.hidden, s.intermediate),
            norm(1, 1e-6f),
            s.next == 0 ? LinearArgs{} : product(hidden, w.next, next, s.next, s.hidden)};
  }

  // The operations one after another.
  void run_singly(const LayerTail& tail) const {
    EXPECT_EQ(reference::launch_linear(tail.o, nullptr), cudaSuccess);
    EXPECT_EQ(launch_norm(tail.after_attention, nullptr), cudaSuccess);
    LinearArgs both_halves = tail.gate_up;
    both_halves.y = both.data.data(), both_halves.y_stride = both.stride;
    EXPECT_EQ(reference::launch_linear(both_halves, nullptr), cudaSuccess);
    EXPECT_EQ(launch_gated(tail.activation, ElementType::kBf16, both.view(), activated.view(), tail.o.m, tail.down.k,
                           nullptr),
              cudaSuccess);
    EXPECT_EQ(reference::launch_linear(tail.down, nullptr), cudaSuccess);
    EXPECT_EQ(launch_norm(tail.after_mlp, nullptr), cudaSuccess);
    if (tail.next.n == 0) return;
    EXPECT_EQ(reference::launch_linear(tail.next, nullptr), cudaSuccess);
  }

  void expect_equal(const Step& other) const {
    EXPECT_TRUE(cpu::same_bits(residual.data.get(), other.residual.data.get())) << "residual";
    EXPECT_TRUE(cpu::same_bits(hidden.data.get(), other.hidden.data.get())) << "hidden";
    EXPECT_TRUE(cpu::same_bits(activated.data.get(), other.activated.data.get())) << "activated";
    EXPECT_TRUE(cpu::same_bits(next.data.get(), other.next.data.get())) << "next";
  }
};

class KernelsCudaLayerTail : public OnHopper {
 protected:
  void SetUp() override {
    OnHopper::SetUp();
    if (IsSkipped()) return;
    bool available = false;
    ASSERT_EQ(prepare_layer_tail(available), cudaSuccess);
    ASSERT_TRUE(available);
    ASSERT_EQ(prepare_row_kernels(8192), cudaSuccess);
  }

  void expect_single_operations(const Shape& s, bool with_bias, Activation activation = Activation::kSilu,
                                std::int64_t pad = 0) {
    SCOPED_TRACE(testing::Message() << s.m << " rows, " << s.hidden << ", " << s.attention << ", " << s.intermediate
                                    << ", " << s.next << " bias " << with_bias << " pad " << pad);
    const Layer layer(s, static_cast<unsigned>(s.hidden + s.intermediate + s.m));
    const Step expected(s, 3, pad), step(s, 3, pad);
    expected.run_singly(expected.tail(s, layer, with_bias, activation));
    const LayerTail tail = step.tail(s, layer, with_bias, activation);
    ASSERT_TRUE(serves_layer_tail(tail));
    ASSERT_EQ(launch_layer_tail(tail, nullptr), cudaSuccess);
    step.expect_equal(expected);
  }
};

constexpr Shape kDemo = {1, 256, 256, 896, 512};

TEST_F(KernelsCudaLayerTail, GivesTheBitsOfTheSingleOperations) {
  for (std::int64_t m = 1; m <= 8; ++m) {
    Shape s = kDemo;
    s.m = m;
    expect_single_operations(s, m % 2 == 0, Activation::kSilu, m == 3 ? 8 : 0);
    s.next = 0;
    expect_single_operations(s, false);
  }
}

// Fewer strips than blocks, numbers of strips that sixteen does not divide, several strips a warp, one group along K.
TEST_F(KernelsCudaLayerTail, ServesOtherShapes) {
  for (const std::int64_t m : {1, 5, 8}) {
    for (const Shape& s : {Shape{m, 64, 64, 64, 16}, Shape{m, 64, 128, 2048, 96}, Shape{m, 128, 64, 320, 6144},
                           Shape{m, 320, 192, 640, 528}, Shape{m, 192, 1024, 64, 0}, Shape{m, 768, 64, 64, 16}}) {
      expect_single_operations(s, true);
      if (HasFailure()) return;
    }
  }
}

TEST_F(KernelsCudaLayerTail, TakesEveryActivation) {
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    expect_single_operations({2, 256, 256, 512, 512}, true, activation);
  }
}

// Each layer reads what the one before has written: the residual, and the next product as x.
TEST_F(KernelsCudaLayerTail, WaitsForTheKernelBefore) {
  const int num_layers = 12;
  Shape s = kDemo;
  s.m = 4;
  s.next = s.attention;
  std::deque<Layer> layers;
  for (int i = 0; i < num_layers; ++i) layers.emplace_back(s, static_cast<unsigned>(i));
  const auto run = [&](Step& step, auto launch) {
    for (const Layer& layer : layers) {
      LayerTail tail = step.tail(s, layer, false, Activation::kSilu);
      tail.next.y = step.x.data.data(), tail.next.y_stride = step.x.stride;
      launch(tail);
    }
  };
  Step expected(s, 9, 0);
  run(expected, [&](const LayerTail& tail) { expected.run_singly(tail); });
  for (int repeat = 0; repeat < 5; ++repeat) {
    Step step(s, 9, 0);
    run(step, [](const LayerTail& tail) { EXPECT_EQ(launch_layer_tail(tail, nullptr), cudaSuccess); });
    step.expect_equal(expected);
    EXPECT_TRUE(cpu::same_bits(step.x.data.get(), expected.x.data.get()));
  }
}

TEST_F(KernelsCudaLayerTail, LeavesOtherShapesAndOtherSequencesToSingleKernels) {
  const Layer layer(kDemo, 1);
  const Step step(kDemo, 1, 0);
  const auto serves = [&](auto change) {
    LayerTail tail = step.tail(kDemo, layer, false, Activation::kSilu);
    change(tail);
    return serves_layer_tail(tail);
  };
  EXPECT_TRUE(serves([](LayerTail&) {}));
  EXPECT_FALSE(serves([](LayerTail& tail) {
    for (LinearArgs* product : {&tail.o, &tail.gate_up, &tail.down, &tail.next}) product->m = 9;
    tail.after_attention.rows = tail.after_mlp.rows = 9;
  }));
  EXPECT_FALSE(serves([](LayerTail& tail) { tail.next.m = 2; }));
  EXPECT_FALSE(serves([](LayerTail& tail) { tail.next.n = 24; }));
  EXPECT_FALSE(serves([](LayerTail& tail) { tail.next.y_type = ElementType::kF32; }));
  EXPECT_FALSE(serves([](LayerTail& tail) { tail.next.n = 16384; }));  // true: its weights do not fit
  EXPECT_FALSE(serves([&](LayerTail& tail) { tail.next.x = step.activated.data.data(); }));
  EXPECT_FALSE(serves([&](LayerTail& tail) { tail.down.x = step.x.data.data(); }));
  EXPECT_FALSE(serves([&](LayerTail& tail) { tail.after_mlp.residual = step.both.view(); }));
  EXPECT_FALSE(serves([](LayerTail& tail) { tail.after_attention.residual = {}; }));
  EXPECT_FALSE(serves([&](LayerTail& tail) { tail.after_mlp.out = step.both.view(); }));
  EXPECT_FALSE(serves([](LayerTail& tail) { tail.after_attention.layer_norm = true; }));
  EXPECT_FALSE(serves([&](LayerTail& tail) { tail.after_attention.bias = layer.norms.data.data(); }));
}

}  // namespace
}  // namespace mortise::cuda::layer_tail_test
