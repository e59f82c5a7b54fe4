// The operations on rows against the scalar references of the CPU, bit by bit: the specification is one.
// Covers: plugins/devices/checks/{matrix,rows} plugins/devices/cuda/matrix
// Covers: plugins/kernels/cuda/{elementwise,lanes,launch,norm,packed,rows,vectors}
#include <cmath>

#include "device_fixture.hpp"
#include "kernels/cpu/reference/math.hpp"
#include "kernels/cpu/reference/norm.hpp"

namespace mortise::cuda::rows_test {
namespace {

namespace reference = cpu::reference;

// Odd ones take the kernels without vectors, 57,000 all the shared memory there is.
constexpr std::size_t kWidths[] = {1, 15, 16, 17, 64, 100, 288, 768, 1000, 4096, 57000};
constexpr std::size_t kRows = 3;
constexpr float kEps = 1e-5f;

float widen(Bf16 h) {
  return cpu::bf16_to_float(h);
}
float widen(float x) {
  return x;
}
template <typename T>
T narrow(float x) {
  if constexpr (sizeof(T) == 2) {
    return cpu::float_to_bf16(x);
  } else {
    return x == x ? x : cpu::float_of(0x7fc00000u);
  }
}

class CudaNorm : public OnGpu {
 protected:
  struct Options {
    bool layer, residual, bias;
    std::size_t pad, rows = kRows;
  };

  void expect_reference(std::size_t n, Values values, const Options& options) {
    SCOPED_TRACE(testing::Message() << "width " << n << " values " << static_cast<int>(values) << " layer "
                                    << options.layer << " residual " << options.residual << " pad " << options.pad
                                    << " rows " << options.rows);
    std::mt19937 rng(static_cast<unsigned>(n));
    const std::size_t stride = n + options.pad;
    const auto x = random_values<Bf16>(rng, options.rows * stride, values),
               r = random_values<Bf16>(rng, options.rows * stride, values);
    const auto w = random_values<Bf16>(rng, n), b = random_values<Bf16>(rng, n);
    std::vector<Bf16> expected = x, expected_residual = r;
    for (std::size_t m = 0; m < options.rows; ++m) {
      Bf16* residual = options.residual ? &expected_residual[m * stride] : nullptr;
      Bf16* row = &expected[m * stride];
      if (options.layer) {
        reference::layer_norm<Bf16>(row, residual, w.data(), options.bias ? b.data() : nullptr, row, n, kEps);
      } else {
        reference::rms_norm<Bf16>(row, residual, w.data(), row, n, kEps);
      }
    }
    const Array<Bf16> xs(x), rs(r);
    const Weight weight(MORTISE_WEIGHT_VECTOR, {vector_part(w)}), bias(MORTISE_WEIGHT_VECTOR, {vector_part(b)});
    const mortise_tensor x_tensor = matrix(xs, options.rows, n, stride), r_tensor = matrix(rs, options.rows, n, stride);
    auto args = sized<mortise_norm_args>();
    args.x = args.out = &x_tensor;
    if (options.residual) args.residual = &r_tensor;
    args.weight = weight.get();
    if (options.bias) args.bias = bias.get();
    args.eps = kEps;
    expect_ok((options.layer ? table().layer_norm : table().rms_norm)(gpu(), nullptr, &args, error()));
    EXPECT_TRUE(same_bits(expected, xs.get()));  // the padding included: nothing is written past the end of a row
    EXPECT_TRUE(same_bits(expected_residual, rs.get()));
  }
};

TEST_F(CudaNorm, RmsNormGivesTheBitsOfTheReference) {
  for (std::size_t n : kWidths) {
    for (Values values : kAllValues) {
      for (std::size_t pad : {std::size_t{0}, std::size_t{3}, std::size_t{8}}) {
        expect_reference(n, values, {false, true, false, pad});
        expect_reference(n, values, {false, false, false, pad});
      }
    }
  }
}

// From 64 rows on another kernel serves rows of up to 8192 elements.
TEST_F(CudaNorm, RmsNormOfManyRowsGivesTheBitsOfTheReference) {
  for (std::size_t n : {8, 17, 288, 1000, 4096, 4104, 8192, 8200}) {
    for (Values values : kAllValues) {
      for (std::size_t rows : {64, 150}) {
        expect_reference(n, values, {false, true, false, 0, rows});
        expect_reference(n, values, {false, false, false, 8, rows});
      }
    }
    expect_reference(n, Values::kNormal, {true, true, true, 0, 64});
  }
}

TEST_F(CudaNorm, LayerNormGivesTheBitsOfTheReference) {
  for (std::size_t n : kWidths) {
    for (Values values : kAllValues) {
      expect_reference(n, values, {true, true, true, 0});
      expect_reference(n, values, {true, false, false, 3});
    }
  }
}

TEST_F(CudaNorm, RowsThatDoNotFitSharedMemoryAreRefused) {
  const std::size_t n = 57345;
  const Array<Bf16> x(n);
  const Weight weight(MORTISE_WEIGHT_VECTOR, {vector_part(std::vector<Bf16>(n))});
  const mortise_tensor tensor = matrix(x, 1, n);
  auto args = sized<mortise_norm_args>();
  args.x = args.out = &tensor;
  args.weight = weight.get();
  expect_invalid(table().rms_norm(gpu(), nullptr, &args, error()), "this device norms rows of up to 57344");
}

class CudaElementwise : public OnGpu {
 protected:
  template <typename T>
  void expect_activations(std::size_t n, std::size_t pad, Values values) {
    SCOPED_TRACE(testing::Message() << "width " << n << " pad " << pad << " values " << static_cast<int>(values));
    using Function = float (*)(float);
    constexpr Function kFunctions[] = {reference::silu, reference::gelu, reference::gelu_tanh, reference::relu};
    std::mt19937 rng(static_cast<unsigned>(n));
    const std::size_t stride = 2 * n + pad;
    const auto x = random_values<T>(rng, kRows * stride, values);
    const Array<T> xs(x), outs(kRows * n);
    for (int32_t activation = MORTISE_ACT_SILU; activation <= MORTISE_ACT_RELU; ++activation) {
      const Function f = kFunctions[activation - 1];
      std::vector<T> gated(kRows * n), plain(kRows * n);
      for (std::size_t i = 0; i < kRows * n; ++i) {
        const std::size_t at = i / n * stride + i % n;
        plain[i] = narrow<T>(f(widen(x[at])));
        gated[i] = narrow<T>(widen(plain[i]) * widen(x[at + n]));
      }
      const mortise_tensor x_tensor = matrix(xs, kRows, 2 * n, stride), half = matrix(xs, kRows, n, stride);
      const mortise_tensor out = matrix(outs, kRows, n);
      expect_ok(table().gated_activation(gpu(), nullptr, activation, &x_tensor, &out, error()));
      EXPECT_TRUE(same_bits(gated, outs.get())) << "gated " << activation;
      expect_ok(table().activation(gpu(), nullptr, activation, &half, &out, error()));
      EXPECT_TRUE(same_bits(plain, outs.get())) << activation;
    }
  }
};

TEST_F(CudaElementwise, ActivationsGiveTheBitsOfTheReference) {
  for (std::size_t n : {1, 8, 17, 64, 3072}) {
    for (Values values : kAllValues) {
      for (std::size_t pad : {0, 3}) {
        expect_activations<Bf16>(n, pad, values);
        expect_activations<float>(n, pad, values);
      }
    }
  }
}

TEST_F(CudaElementwise, EveryBf16NumberHasTheSiluOfTheReference) {
  constexpr std::size_t kAll = 1 << 16, kColumns = 4096;
  std::vector<Bf16> x(kAll), expected(kAll);
  for (std::size_t i = 0; i < kAll; ++i)
    x[i] = static_cast<Bf16>(i), expected[i] = narrow<Bf16>(reference::silu(widen(x[i])));
  const Array<Bf16> xs(x), outs(kAll);
  const mortise_tensor in = matrix(xs, kAll / kColumns, kColumns), out = matrix(outs, kAll / kColumns, kColumns);
  expect_ok(table().activation(gpu(), nullptr, MORTISE_ACT_SILU, &in, &out, error()));
  EXPECT_TRUE(same_bits(expected, outs.get()));
}

TEST_F(CudaElementwise, SumsAreRoundedOnce) {
  for (Values values : kAllValues) {
    std::mt19937 rng(7);
    const std::size_t n = 1003;
    const auto a = random_values<Bf16>(rng, kRows * n, values), b = random_values<Bf16>(rng, kRows * n, values);
    std::vector<Bf16> expected(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) expected[i] = narrow<Bf16>(widen(a[i]) + widen(b[i]));
    const Array<Bf16> as(a), bs(b);
    const mortise_tensor ta = matrix(as, kRows, n), tb = matrix(bs, kRows, n);
    expect_ok(table().add(gpu(), nullptr, &ta, &tb, &ta, error()));
    EXPECT_TRUE(same_bits(expected, as.get())) << static_cast<int>(values);
  }
}

TEST_F(CudaElementwise, EmbedGatherAndScatterCopyRows) {
  std::mt19937 rng(5);
  for (std::size_t k : {1, 6, 8, 288, 4096}) {
    const std::size_t n = 37;
    const auto w = random_values<Bf16>(rng, n * k, Values::kSpecial);
    const Weight weight(MORTISE_WEIGHT_EMBEDDING | MORTISE_WEIGHT_LINEAR, {host_part(w, n, k)});
    const std::vector<int32_t> ids = {0, 36, 5, 5, 1};
    const Array<int32_t> device_ids(ids);
    const Array<Bf16> out(ids.size() * k), again(ids.size() * k);
    const mortise_tensor out_tensor = matrix(out, ids.size(), k), again_tensor = matrix(again, ids.size(), k);
    expect_ok(table().embed(gpu(), nullptr, device_ids.data(), weight.get(), &out_tensor, error()));
    std::vector<Bf16> expected;
    for (int32_t id : ids)
      expected.insert(expected.end(), &w[static_cast<std::size_t>(id) * k], &w[static_cast<std::size_t>(id) * k] + k);
    EXPECT_TRUE(same_bits(expected, out.get())) << k;
    const Array<int32_t> reversed(std::vector<int32_t>{4, 3, 2, 1, 0});
    expect_ok(table().gather_rows(gpu(), nullptr, &out_tensor, reversed.data(), &again_tensor, error()));
    std::vector<Bf16> backwards;
    for (std::size_t i = ids.size(); i-- > 0;)
      backwards.insert(backwards.end(), &expected[i * k], &expected[i * k] + k);
    EXPECT_TRUE(same_bits(backwards, again.get())) << k;

    // Rows outside of the matrix are dropped, rows that nobody names stay.
    auto expected_scattered = random_values<Bf16>(rng, 9 * k);
    const Array<Bf16> scattered(expected_scattered);
    const std::vector<int32_t> places = {7, -1, 0, 9, 3};
    const Array<int32_t> device_places(places);
    const mortise_tensor scattered_tensor = matrix(scattered, 9, k);
    expect_ok(table().scatter_rows(gpu(), nullptr, &out_tensor, device_places.data(), &scattered_tensor, error()));
    for (const std::size_t i : {0u, 2u, 4u}) {
      std::copy_n(&expected[i * k], k, &expected_scattered[static_cast<std::size_t>(places[i]) * k]);
    }
    EXPECT_TRUE(same_bits(expected_scattered, scattered.get())) << k;
  }
}

}  // namespace
}  // namespace mortise::cuda::rows_test
