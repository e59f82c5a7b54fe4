// Rejection sampling is a claim about distributions: 100,000 draws for each kind of draft against the target's, whose
// total variation distance must shrink as 1 / sqrt(n). Keys are fixed, so these tests do not flicker.
// Covers: runtime/sampling/denormals_off
#include "sampling/rejection.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "sampling/distribution.hpp"
#include "sampling/key.hpp"
#include "sampling/philox.hpp"

namespace mortise {
namespace {

using Row = std::vector<double>;
using Weights = std::vector<std::uint64_t>;

Weights weights_of(const Row& p) {
  Weights weights;
  for (const double x : p) weights.push_back(static_cast<std::uint64_t>(std::nearbyint(x * 0x1p32)));
  return weights;
}

Row shares_of(const Weights& weights) {
  Row p;
  const auto total = static_cast<double>(std::accumulate(weights.begin(), weights.end(), 0ull));
  for (const std::uint64_t weight : weights) p.push_back(static_cast<double>(weight) / total);
  return p;
}

// As a device draws: arg max of log q + Gumbel noise, with the noise of (key, position, token).
std::int32_t gumbel_draw(const std::vector<float>& q, std::uint64_t key, std::int64_t position) {
  std::int32_t best = -1;
  double best_score = -INFINITY;
  for (std::size_t id = 0; id < q.size(); ++id) {
    if (q[id] <= 0) continue;
    const auto words = philox(key, {static_cast<std::uint32_t>(position), 0, static_cast<std::uint32_t>(id), 0});
    const double v = (words[0] + 0.5) * 0x1p-32;
    const double score = std::log(static_cast<double>(q[id])) - std::log(-std::log1p(-v));
    if (score > best_score) {
      best_score = score;
      best = static_cast<std::int32_t>(id);
    }
  }
  return best;
}

struct RejectionCase {
  const char* name;
  Row p;
  std::vector<float> q;  // that drafts come from
  bool gives_q;          // false: the sampler is not told, and takes each draft for certain
};

// Distributions over 40 tokens: a long tail, its neighbours, its opposite.
std::vector<RejectionCase> cases() {
  constexpr std::size_t kTokens = 40;
  std::vector<float> logits(kTokens), near(kTokens), far(kTokens), part(kTokens, 0.0f), uniform(kTokens, 0.025f);
  for (std::size_t i = 0; i < kTokens; ++i) logits[i] = -0.15f * static_cast<float>(i);
  const Row p = shares_of(target_weights(logits, {}));
  for (std::size_t i = 0; i < kTokens; ++i) {
    near[i] = static_cast<float>(p[i] * (i % 2 == 0 ? 1.1 : 0.9));
    far[i] = static_cast<float>(p[kTokens - 1 - i]);
    if (i >= 30) part[i] = 0.1f;  // where p has little
  }
  RowSampling filtered;
  filtered.temperature = 0.7f;
  filtered.top_p = 0.9f;
  filtered.top_k = 12;
  const std::vector<float> same(p.begin(), p.end());
  return {{"the target itself", p, same, true},
          {"near", p, near, true},
          {"far", p, far, true},
          {"a part of the tokens", p, part, true},
          {"filters of the target alone", shares_of(target_weights(logits, filtered)), uniform, true},
          {"near, taken for certain", p, near, false},
          {"far, taken for certain", p, far, false}};
}

struct Drawn {
  double distance = 0;
  double acceptance = 0;
};

Drawn draw_many(const RejectionCase& test, std::size_t n) {
  Row counts(test.p.size(), 0.0);
  std::size_t accepted = 0;
  const Weights weights = weights_of(test.p);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t key = noise_key(i / 8, 0);
    const auto position = static_cast<std::int64_t>(i % 8);
    const std::int32_t draft = gumbel_draw(test.q, key, position);
    const std::int32_t token =
        rejection_sample(weights, test.gives_q ? test.q : std::vector<float>{}, draft, key, position);
    counts.at(static_cast<std::size_t>(token)) += 1;
    accepted += token == draft ? 1 : 0;
  }
  Drawn drawn;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    drawn.distance += std::abs(counts[id] / static_cast<double>(n) - test.p[id]) / 2;
  }
  drawn.acceptance = static_cast<double>(accepted) / static_cast<double>(n);
  return drawn;
}

// What n honest draws have: E|X/n - p| = sqrt(2 p (1 - p) / (pi n)) for each token.
double expected_distance(const Row& p, std::size_t n) {
  double sum = 0;
  for (double v : p) sum += std::sqrt(2 * v * (1 - v) / (M_PI * static_cast<double>(n))) / 2;
  return sum;
}

TEST(RejectionSample, HasTheTargetsDistributionWhateverTheDraftsAre) {
  for (const RejectionCase& test : cases()) {
    for (std::size_t n : {1000u, 10000u, 100000u}) {
      const Drawn drawn = draw_many(test, n);
      const double expected = expected_distance(test.p, n);
      EXPECT_LT(drawn.distance, 1.5 * expected) << test.name << ", " << n << " draws";
      EXPECT_GT(drawn.distance, 0.5 * expected) << test.name << ", " << n << " draws: too good to be drawn";
    }
  }
}

TEST(RejectionSample, AcceptsAsOftenAsTheDistributionsOverlap) {
  for (const RejectionCase& test : cases()) {
    double overlap = 0;
    const double sum = std::accumulate(test.q.begin(), test.q.end(), 0.0);
    for (std::size_t id = 0; id < test.p.size(); ++id) {
      const double q = test.q[id] / sum;
      overlap += test.gives_q ? std::min(test.p[id], q) : test.p[id] * q;
    }
    EXPECT_NEAR(draw_many(test, 100000).acceptance, overlap, 0.006) << test.name;
  }
}

TEST(RejectionSample, IsAFunctionOfKeyAndPosition) {
  const Weights p(4, 1u << 30);
  const std::vector<float> q = {0.7f, 0.1f, 0.1f, 0.1f};
  std::set<std::int32_t> by_position, by_key;
  for (std::int64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(rejection_sample(p, q, 0, 5, position), rejection_sample(p, q, 0, 5, position));
    by_position.insert(rejection_sample(p, q, 0, 5, position));
    by_key.insert(rejection_sample(p, q, 0, static_cast<std::uint64_t>(position), 5));
  }
  EXPECT_EQ(by_position.size(), 4u);  // 1: the position is not part of it
  EXPECT_EQ(by_key.size(), 4u);
}

TEST(RejectionSample, NeverAcceptsWhatTheTargetCannotDrawAndNeverRecoversTheDraft) {
  const Weights p = {0, 1u << 31, 1u << 31};
  for (std::uint64_t key = 0; key < 1000; ++key) {
    EXPECT_NE(rejection_sample(p, {}, 0, key, 1), 0);
    EXPECT_NE(rejection_sample(p, std::vector<float>{0.9f, 0.05f, 0.05f}, 0, key, 1), 0);
  }
}

TEST(RejectionSample, EqualDistributionsAcceptAlwaysAndAnEmptyTargetGivesNothing) {
  const Weights p = {300, 700};
  const std::vector<float> q = {3, 7};  // not normalised
  for (std::uint64_t key = 0; key < 1000; ++key) EXPECT_EQ(rejection_sample(p, q, 1, key, 9), 1);
  EXPECT_EQ(rejection_sample(Weights{0, 0}, q, 1, 1, 1), -1);
  EXPECT_EQ(rejection_sample(p, std::vector<float>{0, 0}, 1, 1, 1), rejection_sample(p, {}, 1, 1, 1));
}

}  // namespace
}  // namespace mortise
