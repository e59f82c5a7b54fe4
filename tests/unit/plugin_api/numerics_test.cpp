// plugin_api/include/mortise/numerics.h against the scalar references of plugins/kernels/cpu, bit by bit: two texts of
// one specification, of which third parties see the first.
#include "mortise/numerics.h"

#include <algorithm>
#include <cmath>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/head_reduce.hpp"
#include "kernels/cpu/reference/linear.hpp"
#include "kernels/cpu/reference/math.hpp"
#include "kernels/cpu/reference/noise.hpp"
#include "kernels/cpu/reference/norm.hpp"
#include "kernels/cpu/reference/rope.hpp"
#include "kernels/cpu/reference/sample_token.hpp"
#include "kernels/cpu/reference/scalar.hpp"
#include "kernels/cpu/reference/span.hpp"
#include "kernels/cpu/reference/verify_draft.hpp"
#include "kernels/cpu/span/span.hpp"

namespace mortise {
namespace {

namespace reference = cpu::reference;
using cpu::Values;

class Numerics : public testing::Test {
 protected:
  Numerics() : saved_(mortise_denormals_off()) {}
  ~Numerics() override { mortise_denormals_restore(saved_); }

  // Numbers of the type, as floats.
  std::vector<float> values(std::size_t n, Values kind, bool bf16) {
    std::vector<float> v = cpu::random_values<float>(rng_, n, kind);
    for (float& x : v) x = mortise_round(x, bf16);
    return v;
  }
  std::size_t size(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(rng_);
  }

  std::mt19937 rng_{20261126};
  const uint64_t saved_;  // with denormals
};

// NaN counts as one value: which NaN an operation gives is not specified.
testing::AssertionResult same_bits(float a, float b) {
  if (mortise_bits_of(a) == mortise_bits_of(b) || (a != a && b != b)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << std::hexfloat << a << " is not " << b;
}
testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (const auto result = same_bits(a[i], b[i]); !result)
      return testing::AssertionFailure() << i << ": " << result.message();
  }
  return testing::AssertionSuccess();
}

TEST_F(Numerics, TurningDenormalsOffIsUndone) {
  const uint64_t now = mortise_denormals_off();
  volatile float tiny = mortise_float_of(0x00800000u);
  EXPECT_EQ(tiny * 0.5f, 0.0f);
  mortise_denormals_restore(saved_);
  EXPECT_NE(mortise_bits_of(tiny * 0.5f), 0u);  // compared as bits: EXPECT_NE on floats would be too late
  mortise_denormals_restore(now);
}

TEST_F(Numerics, Conversions) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<uint16_t>(h);
    EXPECT_EQ(mortise_bits_of(mortise_from_bf16(half)), mortise_bits_of(reference::from_bf16(half)));
    const int exponent = static_cast<int>(h >> 10 & 31), fraction = static_cast<int>(h & 1023);
    const float magnitude = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                            : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                            : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    EXPECT_TRUE(same_bits(mortise_from_f16(half), (h & 0x8000) != 0 ? -magnitude : magnitude)) << h;
  }
  for (int i = 0; i < 100000; ++i) {
    const float x = mortise_float_of(static_cast<uint32_t>(rng_()));
    EXPECT_EQ(mortise_to_bf16(x), reference::to_bf16(x));
  }
}

TEST_F(Numerics, Functions) {
  for (int i = 0; i < 200000; ++i) {
    const float x =
        i % 2 == 0 ? mortise_float_of(static_cast<uint32_t>(rng_())) : 8 * cpu::draw(rng_, Values::kSpecial);
    const float y = mortise_float_of(static_cast<uint32_t>(rng_())), z = cpu::draw(rng_, Values::kWide);
    ASSERT_TRUE(same_bits(mortise_fma(x, y, z), cpu::soft_fma(x, y, z)));
    ASSERT_TRUE(same_bits(mortise_exp2(x), reference::exp2(x)));
    ASSERT_TRUE(same_bits(mortise_exp(x), reference::exp(x)));
    ASSERT_TRUE(same_bits(mortise_log(x), reference::log(x)));
    ASSERT_TRUE(same_bits(mortise_log1p(x), reference::log1p(x)));
    ASSERT_TRUE(same_bits(mortise_tanh(x), reference::tanh(x)));
    ASSERT_TRUE(same_bits(mortise_erf(x), reference::erf(x)));
    ASSERT_TRUE(same_bits(mortise_activation(MORTISE_ACT_SILU, x), reference::silu(x)));
    ASSERT_TRUE(same_bits(mortise_activation(MORTISE_ACT_GELU, x), reference::gelu(x)));
    ASSERT_TRUE(same_bits(mortise_activation(MORTISE_ACT_GELU_TANH, x), reference::gelu_tanh(x)));
    ASSERT_TRUE(same_bits(mortise_activation(MORTISE_ACT_RELU, x), reference::relu(x)));
    ASSERT_TRUE(same_bits(mortise_clean(x), reference::clean(x)));
    const uint64_t key = rng_(), position = rng_();
    ASSERT_TRUE(same_bits(mortise_noise(key, position, i), reference::noise(key, position, i)));
  }
}

TEST_F(Numerics, Linear) {
  for (const Values kind : cpu::kAllValues) {
    for (const std::size_t k : {1u, 2u, 31u, 32u, 33u, 100u, 256u}) {
      const std::vector<float> x = values(k, kind, false), w = values(k, kind, false);
      float y = 0;
      reference::linear_f32(x.data(), w.data(), nullptr, &y, 1, 1, k);
      EXPECT_TRUE(same_bits(mortise_dot(x.data(), w.data(), static_cast<int64_t>(k)), y)) << k;
      std::vector<cpu::Bf16> x_bits(k), w_bits(k);
      std::ranges::transform(x, x_bits.begin(), mortise_to_bf16);
      std::ranges::transform(w, w_bits.begin(), mortise_to_bf16);
      std::vector<float> x_bf16(k), w_bf16(k);
      std::ranges::transform(x_bits, x_bf16.begin(), mortise_from_bf16);
      std::ranges::transform(w_bits, w_bf16.begin(), mortise_from_bf16);
      reference::linear_bf16_pairs(x_bits.data(), w_bits.data(), nullptr, &y, 1, 1, k);
      const float pairs = mortise_dot_in(MORTISE_SUM_PAIRS, x_bf16.data(), w_bf16.data(), static_cast<int64_t>(k));
      EXPECT_TRUE(same_bits(pairs, y)) << k;
    }
  }
}

template <class T>
std::vector<T> narrowed(const std::vector<float>& v) {
  std::vector<T> out(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) reference::put(out[i], v[i]);
  return out;
}
template <class T>
std::vector<float> widened(const std::vector<T>& v) {
  std::vector<float> out;
  for (const T x : v) out.push_back(reference::get(x));
  return out;
}

template <class T>
void expect_norms(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& b) {
  const bool bf16 = sizeof(T) == 2;
  const std::size_t n = x.size();
  const auto count = static_cast<int64_t>(n);
  std::vector<T> out(n);
  std::vector<float> mine(n);
  reference::rms_norm<T>(narrowed<T>(x).data(), nullptr, narrowed<T>(w).data(), out.data(), n, 1e-5f);
  mortise_rms_norm(bf16, x.data(), w.data(), 1e-5f, count, mine.data());
  EXPECT_TRUE(same_bits(mine, widened(out)));
  reference::layer_norm<T>(narrowed<T>(x).data(), nullptr, narrowed<T>(w).data(), narrowed<T>(b).data(), out.data(), n,
                           1e-5f);
  mortise_layer_norm(bf16, x.data(), w.data(), b.data(), 1e-5f, count, mine.data());
  EXPECT_TRUE(same_bits(mine, widened(out)));
  reference::layer_norm<T>(narrowed<T>(x).data(), nullptr, narrowed<T>(w).data(), nullptr, out.data(), n, 1e-5f);
  mortise_layer_norm(bf16, x.data(), w.data(), nullptr, 1e-5f, count, mine.data());
  EXPECT_TRUE(same_bits(mine, widened(out)));
}

TEST_F(Numerics, NormsAndRope) {
  for (const Values kind : cpu::kAllValues) {
    for (const std::size_t n : {2u, 16u, 30u, 128u}) {
      for (const bool bf16 : {false, true}) {
        const auto x = values(n, kind, bf16), w = values(n, kind, bf16), b = values(n, kind, bf16);
        bf16 ? expect_norms<cpu::Bf16>(x, w, b) : expect_norms<float>(x, w, b);
        const auto cos = values(n / 2, Values::kNormal, false), sin = values(n / 2, Values::kNormal, false);
        for (const bool interleaved : {false, true}) {
          std::vector<float> mine = x, theirs = x;
          mortise_rotate(bf16, interleaved, cos.data(), sin.data(), static_cast<int64_t>(n), mine.data());
          const auto pairs = interleaved ? reference::RopePairs::kInterleaved : reference::RopePairs::kHalves;
          if (bf16) {
            reference::rope<cpu::Bf16>(pairs, theirs.data(), cos.data(), sin.data(), n);
          } else {
            reference::rope<float>(pairs, theirs.data(), cos.data(), sin.data(), n);
          }
          EXPECT_TRUE(same_bits(mine, theirs));
        }
      }
    }
  }
}

TEST_F(Numerics, Attention) {
  for (const int position : {0, 1, 15, 254, 255, 256, 300, 511, 700}) {
    for (const int window : {0, 1, 16, 257, 600}) {
      for (const auto& [bf16, order] : {std::pair(false, MORTISE_SUM_TILES), std::pair(true, MORTISE_SUM_TILES),
                                        std::pair(true, MORTISE_SUM_PAIRS)}) {
        const int head_dim = position % 2 == 0 ? 64 : 40;
        const auto d = static_cast<std::size_t>(head_dim), keys = static_cast<std::size_t>(position) + 1;
        const auto q = values(d, Values::kNormal, bf16);
        auto k = values(keys * d, Values::kNormal, bf16), v = values(keys * d, Values::kSpecial, bf16);
        for (std::size_t t = 0; t < keys; ++t) {
          std::vector<float> their_k(&k[t * d], &k[t * d] + d), their_v(&v[t * d], &v[t * d] + d);
          reference::span_written(their_k.data(), their_v.data(), head_dim);
          mortise_span_written(&k[t * d], &v[t * d], head_dim);
          EXPECT_TRUE(same_bits(std::vector<float>(&k[t * d], &k[t * d] + d), their_k));
          EXPECT_TRUE(same_bits(std::vector<float>(&v[t * d], &v[t * d] + d), their_v));
        }
        const int first = window > 0 ? std::max(0, position - window + 1) : 0;
        const float scale = mortise_span_scale(0.125f);
        EXPECT_EQ(scale, cpu::span_scale(0.125f));
        const bool pairs = order == MORTISE_SUM_PAIRS;
        const reference::SpanRow row = {bf16,     pairs,  q.data(), k.data(), v.data(), head_dim,
                                        position, window, scale,    nullptr,  nullptr};
        std::vector<float> theirs(d), mine(d), scratch(2 * d);
        reference::span_row(row, theirs.data());
        mortise_attention_row_in(order, bf16, q.data(), &k[static_cast<std::size_t>(first) * d],
                                 &v[static_cast<std::size_t>(first) * d], position, position + 1 - first, head_dim,
                                 scale, scratch.data(), mine.data());
        EXPECT_TRUE(same_bits(mine, theirs)) << position << " " << window << " " << bf16 << pairs;
      }
    }
  }
}

TEST_F(Numerics, LogSumExpInAnyNumberOfCalls) {
  for (const Values kind : cpu::kAllValues) {
    for (const std::size_t columns : {1u, 2047u, 2048u, 5000u}) {
      const auto logits = values(columns, kind, false);
      const reference::LogSumExp expected = reference::log_sum_exp(logits);
      float max = mortise_negative(MORTISE_INFINITY), sum = 0;
      for (std::size_t begin = 0; begin < columns; begin += MORTISE_VOCAB_SLICE) {
        const auto end = std::min<std::size_t>(columns, begin + MORTISE_VOCAB_SLICE);
        mortise_log_sum_exp(&logits[begin], static_cast<int64_t>(end - begin), &max, &sum);
      }
      EXPECT_TRUE(same_bits(max, expected.max));
      EXPECT_TRUE(same_bits(sum, expected.sum));
      EXPECT_TRUE(same_bits(max + mortise_log(sum), expected.lse));
      max = mortise_negative(MORTISE_INFINITY), sum = 0;
      mortise_log_sum_exp(logits.data(), static_cast<int64_t>(columns), &max, &sum);
      EXPECT_TRUE(same_bits(sum, expected.sum));
    }
  }
}

TEST_F(Numerics, Sampling) {
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t vocab = size(1, 300);
    const auto logits = values(vocab, trial % 3 == 0 ? Values::kSpecial : Values::kNormal, false);
    std::vector<uint32_t> allowed((vocab + 31) / 32);
    for (uint32_t& word : allowed) word = trial % 40 == 0 ? 0 : static_cast<uint32_t>(rng_());
    std::vector<cpu::LogitEdit> edits;
    std::vector<mortise_logit_edit> same_edits;
    for (std::size_t token = 0; token < vocab; token += size(1, 40)) {
      const cpu::LogitEdit edit = {static_cast<int32_t>(token), cpu::draw(rng_, Values::kSpecial), 1.2f, 0.3f};
      edits.push_back(edit);
      same_edits.push_back({edit.token, edit.bias, edit.repetition, edit.subtract});
    }
    constexpr float temperatures[] = {0, 0.7f, 1, 2.5f}, top_ps[] = {1, 0.9f, 0.3f, 0}, min_ps[] = {0, 0.05f, 0.5f, 2};
    cpu::SampleRow row = {};
    row.logits = logits.data();
    row.vocab_size = vocab;
    row.temperature = temperatures[rng_() % 4];
    row.top_p = top_ps[rng_() % 4];
    row.min_p = min_ps[rng_() % 4];
    row.top_k = static_cast<int32_t>(size(0, 20));
    row.key = rng_();
    row.position = rng_();
    row.num_edits = edits.size();
    row.edits = edits.data();
    row.allowed = trial % 2 == 0 ? allowed.data() : nullptr;
    const mortise_sample_row mine = {row.logits,        static_cast<int64_t>(vocab),
                                     row.temperature,   row.top_p,
                                     row.min_p,         row.top_k,
                                     row.key,           row.position,
                                     same_edits.data(), static_cast<int64_t>(same_edits.size()),
                                     row.allowed};
    std::vector<mortise_candidate> scratch(vocab);
    float logprob = 0;
    const int32_t token = mortise_sample_token(&mine, scratch.data(), &logprob);
    const reference::Sampled expected = reference::sample_token(row);
    ASSERT_EQ(token, expected.token) << trial;
    ASSERT_TRUE(same_bits(logprob, expected.logprob)) << trial;
    if (row.temperature == 0) continue;

    std::vector<uint64_t> weights(vocab, 0);
    const int64_t left = mortise_filter_tokens(&mine, scratch.data());
    for (int64_t i = 0; i < left; ++i) {
      weights[static_cast<std::size_t>(scratch[i].token)] = mortise_weight_of(mortise_exp(scratch[i].x - scratch[0].x));
    }
    std::vector<float> numbers = values(vocab, Values::kNormal, false);
    for (float& x : numbers) x = trial % 7 == 0 ? 0.0f : std::exp(4 * x);
    const float* const distribution = trial % 3 == 0 ? nullptr : numbers.data();
    const auto draft = static_cast<int32_t>(rng_() % vocab);
    ASSERT_EQ(mortise_verify_draft(weights.data(), distribution, mine.vocab_size, draft, row.key, row.position),
              reference::verify_draft(row, token, draft, distribution))
        << trial;
  }
}

}  // namespace
}  // namespace mortise
