// Captured steps: operations that the recorder holds back give the bits of the same operations without a graph, also
// where something comes between them.
#include "devices/cuda/recorder.hpp"

#include <functional>

#include "device_fixture.hpp"

namespace mortise::cuda::recorder_test {
namespace {

constexpr std::size_t kHidden = 256, kIntermediate = 896, kQkv = 512;
constexpr int kLayers = 3;

std::size_t rows_of(const Array<Bf16>& array, std::size_t columns) {
  return array.size() / columns;
}

class CudaRecorder : public OnGpu {
 protected:
  // A model of the tests: in place of attention the first columns of q, k and v are copied.
  struct Layer {
    Weight o, post_norm, gate_up, down, next_norm, qkv;
    explicit Layer(std::mt19937& rng)
        : o(MORTISE_WEIGHT_LINEAR, {host_part(random_values<Bf16>(rng, kHidden * kHidden), kHidden, kHidden)}),
          post_norm(MORTISE_WEIGHT_VECTOR, {vector_part(random_values<Bf16>(rng, kHidden))}),
          gate_up(MORTISE_WEIGHT_LINEAR,
                  {host_part(random_values<Bf16>(rng, 2 * kIntermediate * kHidden), 2 * kIntermediate, kHidden)}),
          down(MORTISE_WEIGHT_LINEAR,
               {host_part(random_values<Bf16>(rng, kHidden * kIntermediate), kHidden, kIntermediate)}),
          next_norm(MORTISE_WEIGHT_VECTOR, {vector_part(random_values<Bf16>(rng, kHidden))}),
          qkv(MORTISE_WEIGHT_LINEAR, {host_part(random_values<Bf16>(rng, kQkv * kHidden), kQkv, kHidden)}) {}
  };
  struct Buffers {
    Array<Bf16> hidden, residual, mixed, activated, qkv;
    explicit Buffers(std::size_t m)
        : hidden(m * kHidden), residual(m * kHidden), mixed(m * kHidden), activated(m * kIntermediate), qkv(m * kQkv) {}
    void put(std::mt19937& rng) {
      for (Array<Bf16>* array : {&hidden, &residual, &mixed, &activated, &qkv}) {
        array->put(random_values<Bf16>(rng, array->size()));
      }
    }
    std::vector<std::vector<Bf16>> get() const {
      return {hidden.get(), residual.get(), mixed.get(), activated.get(), qkv.get()};
    }
  };

  void linear(const Array<Bf16>& x, std::size_t k, const Weight& weight, const Array<Bf16>& y, std::size_t n,
              int32_t gate = 0) const {
    const mortise_tensor from = matrix(x, rows_of(x, k), k), to = matrix(y, rows_of(y, n), n);
    auto args = sized<mortise_linear_args>();
    args.x = &from;
    args.weight = weight.get();
    args.out = &to;
    args.gate_activation = gate;
    expect_ok(table().linear(gpu(), nullptr, &args, error()));
  }
  void norm(const Buffers& b, const Weight& weight) const {
    const std::size_t m = rows_of(b.hidden, kHidden);
    const mortise_tensor x = matrix(b.hidden, m, kHidden), residual = matrix(b.residual, m, kHidden);
    auto args = sized<mortise_norm_args>();
    args.x = args.out = &x;
    args.residual = &residual;
    args.weight = weight.get();
    args.eps = 1e-5f;
    expect_ok(table().rms_norm(gpu(), nullptr, &args, error()));
  }

  // `between(i)` runs before operation i of each layer.
  void run(const std::vector<std::unique_ptr<Layer>>& layers, const Buffers& b,
           const std::function<void(int)>& between) const {
    const std::size_t m = rows_of(b.hidden, kHidden);
    for (const auto& layer : layers) {
      between(0);
      linear(b.mixed, kHidden, layer->o, b.hidden, kHidden);
      between(1);
      norm(b, layer->post_norm);
      between(2);
      linear(b.hidden, kHidden, layer->gate_up, b.activated, kIntermediate, MORTISE_ACT_SILU);
      between(3);
      linear(b.activated, kIntermediate, layer->down, b.hidden, kHidden);
      between(4);
      norm(b, layer->next_norm);
      between(5);
      linear(b.hidden, kHidden, layer->qkv, b.qkv, kQkv);
      const mortise_tensor q = matrix(b.qkv, m, kHidden, kQkv), mixed = matrix(b.mixed, m, kHidden);
      expect_ok(table().add(gpu(), nullptr, &q, &q, &mixed, error()));
    }
  }

  void expect_bits_of_single_operations(std::size_t m, const std::function<void(int, const Buffers&)>& between) {
    SCOPED_TRACE(testing::Message() << m << " rows");
    std::mt19937 rng(static_cast<unsigned>(m));
    std::vector<std::unique_ptr<Layer>> layers;
    for (int i = 0; i < kLayers; ++i) layers.push_back(std::make_unique<Layer>(rng));
    Buffers buffers(m);
    const auto run_all = [&] { run(layers, buffers, [&](int i) { between(i, buffers); }); };
    buffers.put(rng);
    run_all();
    mortise_graph* graph = nullptr;
    expect_ok(device().graphs().begin(gpu(), nullptr, error()));
    run_all();
    expect_ok(device().graphs().end(gpu(), nullptr, &graph, error()));
    ASSERT_NE(graph, nullptr);
    for (unsigned trial = 0; trial < 3; ++trial) {
      std::mt19937 inputs(trial);
      buffers.put(inputs);
      run_all();
      const auto expected = buffers.get();
      inputs.seed(trial);
      buffers.put(inputs);
      expect_ok(device().graphs().replay(gpu(), nullptr, graph, error()));
      const auto replayed = buffers.get();
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(expected[i], replayed[i])) << i;
    }
    device().graphs().destroy(gpu(), graph);
  }
};

TEST_F(CudaRecorder, ACapturedStepGivesTheBitsOfItsOperations) {
  for (const std::size_t m : {1u, 2u, 4u, 8u, 16u}) expect_bits_of_single_operations(m, [](int, const Buffers&) {});
}

// What reads or writes their matrices between two of the operations finds what the ABI says, whichever two they are.
TEST_F(CudaRecorder, AnOperationBetweenThemSeesWhatWasQueuedBefore) {
  for (int at = 0; at <= 5; ++at) {
    SCOPED_TRACE(at);
    expect_bits_of_single_operations(2, [&](int i, const Buffers& b) {
      if (i != at) return;
      const mortise_tensor hidden = matrix(b.hidden, 2, kHidden), residual = matrix(b.residual, 2, kHidden);
      expect_ok(table().add(gpu(), nullptr, &hidden, &residual, &residual, error()));
      expect_ok(table().add(gpu(), nullptr, &residual, &hidden, &hidden, error()));
    });
  }
}

// Another component launches on the stream itself, after it has asked for it.
TEST_F(CudaRecorder, WhoAsksForTheStreamFindsTheOperationsQueued) {
  expect_bits_of_single_operations(1, [&](int i, const Buffers& b) {
    if (i != 3) return;
    auto* const stream = static_cast<cudaStream_t>(table().stream_native(gpu(), nullptr));
    EXPECT_EQ(
        cudaMemcpyAsync(b.mixed.data(), b.activated.data(), kHidden * sizeof(Bf16), cudaMemcpyDeviceToDevice, stream),
        cudaSuccess);
  });
}

}  // namespace
}  // namespace mortise::cuda::recorder_test
