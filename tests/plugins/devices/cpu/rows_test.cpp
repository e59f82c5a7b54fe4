// Norms, activations, sums and gathered rows through the device: the reference's bits for every instruction set and
// thread count. Tensors are large enough to be shared out, and strided.
// Covers: plugins/devices/cpu/matrix
#include "device_fixture.hpp"
#include "kernels/cpu/reference/math.hpp"
#include "kernels/cpu/reference/norm.hpp"

namespace mortise::cpu {
namespace {

float wide(Bf16 h) {
  return bf16_to_float(h);
}
float wide(float x) {
  return x;
}
template <typename T>
T narrow(float x) {
  if constexpr (sizeof(T) == 2) {
    return float_to_bf16(x);
  } else {
    return x;
  }
}

class Rows : public OnEachDevice {
 protected:
  static constexpr std::size_t kRows = 150, kColumns = 301, kStride = 310;

  template <typename T>
  void norms_have_the_references_bits() {
    std::mt19937 rng(1);
    const std::vector<T> x = random_values<T>(rng, kRows * kStride), residual = random_values<T>(rng, kRows * kColumns);
    const std::vector<T> w = random_values<T>(rng, kColumns), b = random_values<T>(rng, kColumns);
    const Weight weight(device_, MORTISE_WEIGHT_VECTOR, dtype_of<T>(), {vector_part(w)});
    const Weight bias(device_, MORTISE_WEIGHT_VECTOR, dtype_of<T>(), {vector_part(b)});
    for (const bool layer : {false, true}) {
      for (const bool with_residual : {false, true}) {
        std::vector<T> out(kRows * kColumns), sum = residual, expected(out), expected_sum = residual;
        const mortise_tensor in_view = matrix(x, kRows, kColumns, kStride), out_view = matrix(out, kRows, kColumns);
        const mortise_tensor sum_view = matrix(sum, kRows, kColumns);
        auto args = sized<mortise_norm_args>();
        args.x = &in_view;
        args.residual = with_residual ? &sum_view : nullptr;
        args.weight = weight.get();
        args.bias = layer ? bias.get() : nullptr;
        args.out = &out_view;
        args.eps = 1e-5f;
        const auto op = layer ? table().layer_norm : table().rms_norm;
        expect_ok(op(device_.get(), nullptr, &args, &device_.error));
        const DenormalsOff denormals_off;
        for (std::size_t m = 0; m < kRows; ++m) {
          T* const sum_row = with_residual ? &expected_sum[m * kColumns] : nullptr;
          T* const out_row = &expected[m * kColumns];
          if (layer) {
            reference::layer_norm<T>(&x[m * kStride], sum_row, w.data(), b.data(), out_row, kColumns, 1e-5f);
          } else {
            reference::rms_norm<T>(&x[m * kStride], sum_row, w.data(), out_row, kColumns, 1e-5f);
          }
        }
        EXPECT_TRUE(same_bits(expected, out)) << layer << with_residual;
        EXPECT_TRUE(same_bits(expected_sum, sum)) << layer << with_residual;
      }
    }
  }

  template <typename T>
  void activations_have_the_references_bits() {
    std::mt19937 rng(2);
    const std::vector<T> x = random_values<T>(rng, kRows * 2 * kStride);
    using Function = float (*)(float);
    const std::pair<int32_t, Function> functions[] = {{MORTISE_ACT_SILU, reference::silu},
                                                      {MORTISE_ACT_GELU, reference::gelu},
                                                      {MORTISE_ACT_GELU_TANH, reference::gelu_tanh},
                                                      {MORTISE_ACT_RELU, reference::relu}};
    for (const auto& [code, function] : functions) {
      std::vector<T> gated(kRows * kColumns), plain(kRows * kStride), expected_gated(gated), expected_plain(plain);
      const mortise_tensor pair = matrix(x, kRows, 2 * kColumns, 2 * kStride);
      const mortise_tensor gated_out = matrix(gated, kRows, kColumns);
      const mortise_tensor single = matrix(x, kRows, kColumns, kStride), out = matrix(plain, kRows, kColumns, kStride);
      expect_ok(table().gated_activation(device_.get(), nullptr, code, &pair, &gated_out, &device_.error));
      expect_ok(table().activation(device_.get(), nullptr, code, &single, &out, &device_.error));
      const DenormalsOff denormals_off;
      for (std::size_t m = 0; m < kRows; ++m) {
        for (std::size_t i = 0; i < kColumns; ++i) {
          const T* row = &x[m * 2 * kStride];
          const float gate = wide(narrow<T>(function(wide(row[i]))));
          expected_gated[m * kColumns + i] = narrow<T>(gate * wide(row[kColumns + i]));
          expected_plain[m * kStride + i] = narrow<T>(function(wide(x[m * kStride + i])));
        }
      }
      EXPECT_TRUE(same_bits(expected_gated, gated)) << code;
      EXPECT_TRUE(same_bits(expected_plain, plain)) << code;
    }
  }

  template <typename T>
  void sums_and_gathers_have_the_references_bits() {
    std::mt19937 rng(3);
    const std::vector<T> a = random_values<T>(rng, kRows * kColumns), b = random_values<T>(rng, kRows * kStride);
    std::vector<T> sum(a), dense(a), expected(a), gathered(40 * kColumns), expected_gathered(gathered);
    const mortise_tensor sum_view = matrix(sum, kRows, kColumns), b_view = matrix(b, kRows, kColumns, kStride);
    expect_ok(table().add(device_.get(), nullptr, &sum_view, &b_view, &sum_view, &device_.error));
    const mortise_tensor dense_view = matrix(dense, kRows, kColumns), a_view = matrix(a, kRows, kColumns);
    expect_ok(table().add(device_.get(), nullptr, &dense_view, &a_view, &dense_view, &device_.error));

    std::vector<std::int32_t> ids(40);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(rng() % kRows);
    const mortise_tensor gathered_view = matrix(gathered, 40, kColumns);
    expect_ok(table().gather_rows(device_.get(), nullptr, &b_view, ids.data(), &gathered_view, &device_.error));
    for (std::size_t i = 0; i < 40; ++i) {
      std::copy_n(&b[static_cast<std::size_t>(ids[i]) * kStride], kColumns, &expected_gathered[i * kColumns]);
    }
    EXPECT_TRUE(same_bits(expected_gathered, gathered));

    // Rows go to every third row of a larger matrix, backwards; the others stay.
    std::vector<T> scattered = random_values<T>(rng, 3 * kRows * kStride), expected_scattered = scattered;
    std::vector<std::int32_t> places(kRows);
    for (std::size_t i = 0; i < kRows; ++i) places[i] = static_cast<std::int32_t>(3 * (kRows - i) - 2);
    const mortise_tensor scattered_view = matrix(scattered, 3 * kRows, kColumns, kStride);
    expect_ok(table().scatter_rows(device_.get(), nullptr, &b_view, places.data(), &scattered_view, &device_.error));
    for (std::size_t i = 0; i < kRows; ++i) {
      std::copy_n(&b[i * kStride], kColumns, &expected_scattered[static_cast<std::size_t>(places[i]) * kStride]);
    }
    EXPECT_TRUE(same_bits(expected_scattered, scattered));
    const DenormalsOff denormals_off;
    for (std::size_t i = 0; i < a.size(); ++i) {
      expected[i] = narrow<T>(wide(a[i]) + wide(b[i / kColumns * kStride + i % kColumns]));
    }
    EXPECT_TRUE(same_bits(expected, sum));
    for (std::size_t i = 0; i < a.size(); ++i) expected[i] = narrow<T>(wide(a[i]) + wide(a[i]));
    EXPECT_TRUE(same_bits(expected, dense));
  }
};

TEST_P(Rows, NormsHaveTheReferencesBits) {
  norms_have_the_references_bits<Bf16>();
  norms_have_the_references_bits<float>();
}
TEST_P(Rows, ActivationsHaveTheReferencesBits) {
  activations_have_the_references_bits<Bf16>();
  activations_have_the_references_bits<float>();
}
TEST_P(Rows, SumsAndMovedRowsHaveTheReferencesBits) {
  sums_and_gathers_have_the_references_bits<Bf16>();
  sums_and_gathers_have_the_references_bits<float>();
}

MORTISE_ON_EACH_DEVICE(Rows);

}  // namespace
}  // namespace mortise::cpu
