// Sampling against the scalar reference, bit by bit; the reference against double arithmetic; the distribution.
// Covers: plugins/kernels/cpu/head/{clean_logit,sample_filter} plugins/kernels/cpu/reference/sample_token
#include "kernels/cpu/head/sample_token.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel_test.hpp"
#include "kernels/cpu/reference/noise.hpp"
#include "kernels/cpu/reference/sample_token.hpp"

namespace mortise::cpu {
namespace {

// A row with its arrays.
struct Case {
  std::vector<float> logits;
  std::vector<LogitEdit> edits;
  std::vector<std::uint32_t> allowed;
  float temperature = 1.0f, top_p = 1.0f, min_p = 0.0f;
  std::int32_t top_k = 0;
  std::uint64_t key = 1, position = 1;

  SampleRow row() const {
    SampleRow r = {};
    r.logits = logits.data();
    r.vocab_size = logits.size();
    r.temperature = temperature;
    r.top_k = top_k;
    r.top_p = top_p;
    r.min_p = min_p;
    r.key = key;
    r.position = position;
    r.num_edits = edits.size();
    r.edits = edits.data();
    r.allowed = allowed.empty() ? nullptr : allowed.data();
    return r;
  }
};

struct Drawn {
  std::int32_t token;
  float logprob;
};

class SampleToken : public OnEachIsa {
 protected:
  Drawn draw(const Case& c) const {
    std::vector<float> row(c.logits.size());
    std::vector<SampleCandidate> candidates(c.logits.size() + 16);
    Drawn drawn = {-2, 7.0f};
    kernels().sampling.sample(c.row(), {row.data(), candidates.data()}, &drawn.token, &drawn.logprob);
    return drawn;
  }
  void expect_reference(const Case& c) const {
    const reference::Sampled expected = reference::sample_token(c.row());
    const Drawn drawn = draw(c);
    EXPECT_EQ(drawn.token, expected.token);
    EXPECT_TRUE(same_bits(&expected.logprob, &drawn.logprob, 1)) << expected.logprob << " " << drawn.logprob;
    if (c.temperature > 0) expect_weights(c, expected);
  }
  void expect_weights(const Case& c, const reference::Sampled& sampled) const {
    std::vector<float> row(c.logits.size());
    std::vector<SampleCandidate> candidates(c.logits.size() + 16);
    std::vector<std::uint64_t> weights(c.logits.size(), 7), expected(c.logits.size(), 0);
    kernels().sampling.weigh(c.row(), {row.data(), candidates.data()}, weights.data());
    for (std::size_t i = 0; i < sampled.left.size(); ++i) {
      expected[static_cast<std::size_t>(sampled.left[i])] = sampled.weights[i];
    }
    EXPECT_EQ(weights, expected);
  }
};

Case random_case(std::mt19937& rng, std::size_t vocab) {
  const auto pick = [&](auto... options) {
    const float list[] = {static_cast<float>(options)...};
    return list[rng() % std::size(list)];
  };
  Case c;
  c.logits = random_values<float>(rng, vocab, rng() % 4 == 0 ? kAllValues[rng() % 5] : Values::kNormal);
  const float scale = pick(1, 3, 10), step = pick(0, 0, 0.25);  // 0.25: many equal logits
  for (float& x : c.logits) x = step > 0 ? std::nearbyint(x * scale / step) * step : x * scale;
  c.temperature = pick(0, 0.3, 0.7, 1, 1, 1.5, 4);
  c.top_k = static_cast<std::int32_t>(pick(-1, 0, 0, 1, 2, 40, 300, 1e6));
  c.top_p = pick(1, 1, 0.999, 0.9, 0.5, 0.01, 0, 1.5);
  c.min_p = pick(0, 0, 0, 0.001, 0.1, 0.9, 1, 2);
  c.key = rng();
  c.position = rng() % 3000;
  if (rng() % 3 == 0) {
    for (std::size_t id = 0; id < vocab; id += 1 + rng() % 50) {
      c.edits.push_back(
          {static_cast<std::int32_t>(id), pick(0, 0, 1.5, -100, -INFINITY), pick(1, 1, 1.3, 0.8), pick(0, 0.6, -0.5)});
    }
    std::ranges::shuffle(c.edits, rng);
  }
  if (rng() % 4 == 0) {
    c.allowed.resize((vocab + 31) / 32);
    for (std::uint32_t& word : c.allowed) word = rng() % 3 == 0 ? rng() & rng() : 0;
  }
  return c;
}

TEST_P(SampleToken, HasTheReferencesTokenAndLogProbabilityBits) {
  std::mt19937 rng(5);
  for (int trial = 0; trial < 1500; ++trial) {
    const std::size_t sizes[] = {1, 5, 16, 100, 1000, 1023, 4096};
    const Case c = random_case(rng, sizes[rng() % std::size(sizes)]);
    SCOPED_TRACE(trial);
    expect_reference(c);
    if (HasFailure()) return;
  }
}

TEST_P(SampleToken, LargeVocabulariesToo) {
  std::mt19937 rng(6);
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE(trial);
    expect_reference(random_case(rng, 128256 + trial));
  }
}

TEST_P(SampleToken, WithoutFiltersTheBoundsSpareNoTokenThatWins) {
  std::mt19937 rng(7);
  for (int trial = 0; trial < 300; ++trial) {
    Case c;
    c.logits = random_values<float>(rng, 2000);
    for (float& x : c.logits) x *= trial % 3 == 0 ? 0.0f : static_cast<float>(trial % 7);
    c.key = rng();
    SCOPED_TRACE(trial);
    expect_reference(c);
  }
}

TEST_P(SampleToken, FrequenciesAtTemperatureOneFollowSoftmax) {
  Case c;
  c.logits = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f, 3.0f, -30.0f};
  double total = 0;
  for (const float x : c.logits) total += std::exp(x);
  const int draws = 40000;
  std::vector<int> counts(c.logits.size());
  for (int i = 0; i < draws; ++i) {
    c.position = static_cast<std::uint64_t>(i);
    ++counts[static_cast<std::size_t>(draw(c).token)];
  }
  double chi_square = 0;
  for (std::size_t i = 0; i + 1 < counts.size(); ++i) {
    const double expected = draws * std::exp(c.logits[i]) / total;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 15.1);  // 5 degrees of freedom, exceeded by 1 in 100 seeds; this one is fixed
  EXPECT_EQ(counts.back(), 0);
}

TEST_P(SampleToken, TemperatureZeroTakesTheLowestOfTheLargest) {
  Case c;
  c.logits = std::vector<float>(40, 1.0f);
  c.logits[9] = c.logits[33] = 2.0f;
  c.temperature = 0;
  EXPECT_EQ(draw(c).token, 9);
  EXPECT_EQ(draw(c).logprob, 0.0f);
  c.edits = {{9, -INFINITY, 1, 0}};
  EXPECT_EQ(draw(c).token, 33);  // 9: the ban came after the arg max
}

TEST_P(SampleToken, NothingLeftGivesNoToken) {
  Case c;
  c.logits = std::vector<float>(100, -INFINITY);
  for (const float temperature : {0.0f, 1.0f}) {
    c.temperature = temperature;
    EXPECT_EQ(draw(c).token, -1);
    EXPECT_EQ(draw(c).logprob, -INFINITY);
  }
  c.logits = std::vector<float>(100, NAN);
  EXPECT_EQ(draw(c).token, -1);
  c.logits = std::vector<float>(100, 1.0f);
  c.allowed.assign(4, 0);
  EXPECT_EQ(draw(c).token, -1);
  c.allowed[3] = 1u << 3;  // token 99
  EXPECT_EQ(draw(c).token, 99);
}

// The set that top_k and top_p leave, by a plain sort and double sums: what a user expects of the options.
TEST_P(SampleToken, FiltersLeaveTheSetOfAPlainSortInDouble) {
  std::mt19937 rng(8);
  for (int trial = 0; trial < 100; ++trial) {
    Case c;
    c.logits = random_values<float>(rng, 500);
    for (float& x : c.logits) x *= 3;
    c.top_k = trial % 2 == 0 ? 0 : static_cast<std::int32_t>(1 + rng() % 100);
    c.top_p = trial % 3 == 0 ? 1.0f : 0.05f + 0.9f * static_cast<float>(rng() % 1000) / 1000;
    c.min_p = trial % 5 == 0 ? 0.01f : 0.0f;
    std::vector<std::int32_t> ids(c.logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return c.logits[a] > c.logits[b]; });
    const auto p = [&](std::size_t i) { return std::exp(static_cast<double>(c.logits[ids[i]]) - c.logits[ids[0]]); };
    std::size_t left = ids.size();
    if (c.min_p > 0) {
      while (p(left - 1) < c.min_p) --left;
    }
    if (c.top_k > 0) left = std::min(left, static_cast<std::size_t>(c.top_k));
    double total = 0, sum = 0;
    for (std::size_t i = 0; i < left; ++i) total += p(i);
    std::size_t kept = 0;
    while (kept < left && (kept == 0 || sum < c.top_p * total * (1 - 1e-12))) sum += p(kept++);
    ids.resize(kept);
    EXPECT_EQ(reference::sample_token(c.row()).left, ids) << trial;
    const Drawn drawn = draw(c);
    ASSERT_TRUE(std::find(ids.begin(), ids.end(), drawn.token) != ids.end()) << trial;
    const double expected = c.logits[drawn.token] - c.logits[ids[0]] - std::log(sum);
    EXPECT_NEAR(drawn.logprob, expected, 1e-5) << trial;
  }
}

TEST_P(SampleToken, TopKOfEqualLogitsLeavesTheLowestIds) {
  Case c;
  c.logits = std::vector<float>(3000, 1.0f);
  c.top_k = 3;
  for (int i = 0; i < 50; ++i) {
    c.position = static_cast<std::uint64_t>(i);
    EXPECT_LT(draw(c).token, 3);
  }
}

TEST_P(SampleToken, TheLowestIdWinsAmongEqualScores) {
  std::mt19937 rng(10);
  Case c;
  c.logits.resize(300);
  for (float& x : c.logits) x = 0x1p24f + 2.0f * static_cast<float>(rng() % 3);  // scores are multiples of 2
  std::fill(c.logits.begin() + 270, c.logits.end(), 0x1p24f + 6.0f);  // looked at first, but with the highest ids
  for (int i = 0; i < 100; ++i) {
    c.position = static_cast<std::uint64_t>(i);
    c.top_k = i % 2 == 0 ? 0 : 250;
    expect_reference(c);
  }
}

TEST_P(SampleToken, TopPRoundsTheNeededWeightUp) {
  Case c;
  c.logits = {0.0f, -16.631634f};  // weights 2^32 and 257
  c.top_p = 0x1.fffffep-1f;        // needs 2^32 + 1 - 2^-24 * 257
  EXPECT_EQ(reference::sample_token(c.row()).left.size(), 2u);
  const Drawn drawn = draw(c);
  EXPECT_EQ(drawn.token, 0);
  EXPECT_LT(drawn.logprob, 0.0f);  // 0: the second token was cut off
}

TEST_P(SampleToken, AFilterDoesNotChangeTheNoiseOfWhatItLeaves) {
  std::mt19937 rng(9);
  Case c;
  c.logits = random_values<float>(rng, 1000);
  for (int i = 0; i < 50; ++i) {
    c.position = static_cast<std::uint64_t>(i);
    c.top_p = 1.0f;
    const std::int32_t free = draw(c).token;
    c.top_p = 0.95f;
    const reference::Sampled filtered = reference::sample_token(c.row());
    const bool left = std::find(filtered.left.begin(), filtered.left.end(), free) != filtered.left.end();
    if (left) {
      EXPECT_EQ(draw(c).token, free);
    }
  }
}

MORTISE_ON_EACH_ISA(SampleToken);

}  // namespace
}  // namespace mortise::cpu
