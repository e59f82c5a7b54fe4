// Head reductions and sampling against the scalar references of the CPU, bit by bit.
// Covers: plugins/devices/checks/head
// Covers: plugins/kernels/cuda/{head_reduce,lanes,logits,noise,select,verify_drafts}
// Covers: plugins/kernels/cuda/{draw_row,sample,sample_row,sample_small}
#include <algorithm>
#include <cmath>
#include <limits>

#include "device_fixture.hpp"
#include "kernels/cpu/reference/head_reduce.hpp"
#include "kernels/cpu/reference/noise.hpp"
#include "kernels/cpu/reference/sample_token.hpp"
#include "kernels/cpu/reference/verify_draft.hpp"
#include "mortise/ext/rejection.h"

namespace mortise::cuda::head_test {
namespace {

namespace reference = cpu::reference;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class CudaHead : public OnGpu {};

// What one pass over all slices, `slices` at a time, brings.
struct Reduced {
  std::vector<float> lse, target_logits, top_logits;
  std::vector<int32_t> ranks, top_ids;
};

Reduced reduce(const std::vector<float>& logits, std::size_t rows, std::size_t vocab,
               const std::vector<int32_t>& targets, int32_t top_n, std::size_t width) {
  const Array<float> all(logits), max(rows), sum(rows), lse(rows), target_logits(rows);
  const Array<float> top_logits(rows * static_cast<std::size_t>(std::max(top_n, 1)));
  const Array<int32_t> device_targets(targets), ranks(rows), top_ids(top_logits.size());
  for (const bool second : {false, true}) {
    const std::size_t step = second ? width / 4 + 1 : width;  // sums need slices, ranks do not
    for (std::size_t begin = 0; begin < vocab; begin += step) {
      const std::size_t columns = std::min(step, vocab - begin);
      const mortise_tensor tensor = matrix(all, rows, columns, vocab, begin);
      auto args = sized<mortise_head_reduce_args>();
      args.logits = &tensor;
      args.vocab_begin = static_cast<int32_t>(begin);
      args.first = begin == 0;
      args.targets = device_targets.data();
      args.target_logits = target_logits.data();
      if (second) {
        args.ranks = ranks.data();
      } else {
        args.max = max.data();
        args.sum = sum.data();
        args.lse = lse.data();
        args.top_n = top_n;
        args.top_ids = top_ids.data();
        args.top_logits = top_logits.data();
      }
      EXPECT_EQ(device().table().head_reduce(device().get(), nullptr, &args, &device().error), MORTISE_OK)
          << device().error.message;
    }
  }
  return {lse.get(), target_logits.get(), top_logits.get(), ranks.get(), top_ids.get()};
}

TEST_F(CudaHead, ReductionsGiveTheBitsOfTheReferenceInAnySlices) {
  std::mt19937 rng(3);
  const std::size_t rows = 4;
  for (const std::size_t vocab : {1, 97, 2048, 5000, 32000, 128256}) {
    for (Values values : kAllValues) {
      auto logits = random_values<float>(rng, rows * vocab, values);
      if (vocab == 5000) {  // many equal logits, and a first row of -infinity
        for (float& x : logits) x = std::nearbyint(x);
        std::fill_n(logits.begin(), vocab, -kInfinity);
      }
      std::vector<int32_t> targets;
      for (std::size_t r = 0; r < rows; ++r) targets.push_back(static_cast<int32_t>(rng() % vocab));
      targets[1] = -1;
      const auto top_n = static_cast<int32_t>(std::min<std::size_t>(vocab + 3, 1 + rng() % 30));
      for (const std::size_t width : {vocab, std::size_t{2048}, std::size_t{6144}}) {
        SCOPED_TRACE(testing::Message() << "vocab " << vocab << " values " << static_cast<int>(values) << " width "
                                        << width << " top " << top_n);
        const Reduced got = reduce(logits, rows, vocab, targets, top_n, width);
        for (std::size_t r = 0; r < rows; ++r) {
          const std::vector<float> row(&logits[r * vocab], &logits[r * vocab] + vocab);
          const auto expected = reference::log_sum_exp(row);
          const auto order = reference::ordered(row);
          EXPECT_TRUE(same_bits(&expected.lse, &got.lse[r], 1)) << expected.lse << " " << got.lse[r];
          for (std::size_t i = 0; i < static_cast<std::size_t>(top_n); ++i) {
            const std::size_t at = r * static_cast<std::size_t>(top_n) + i;
            EXPECT_EQ(got.top_ids[at], i < vocab ? order[i].second : -1) << r << " " << i;
            const float logit = i < vocab ? order[i].first : -kInfinity;
            EXPECT_TRUE(same_bits(&logit, &got.top_logits[at], 1)) << r << " " << i;
          }
          if (targets[r] < 0) continue;
          const float target = reference::clean(row[static_cast<std::size_t>(targets[r])]);
          EXPECT_TRUE(same_bits(&target, &got.target_logits[r], 1)) << r;
          const auto place =
              std::find_if(order.begin(), order.end(), [&](const auto& t) { return t.second == targets[r]; });
          EXPECT_EQ(got.ranks[r], place - order.begin()) << r;
        }
        if (HasFailure()) return;
      }
    }
  }
}

// A batch of rows with their arrays.
struct Batch {
  std::size_t vocab = 0;
  std::vector<float> logits, temperatures, top_ps, min_ps;
  std::vector<mortise_logit_edit> edits;
  std::vector<int32_t> top_ks, edit_begins, edit_counts, allowed_index;
  std::vector<uint32_t> masks;
  std::vector<uint64_t> keys;
  std::vector<int64_t> positions;

  std::size_t rows() const { return keys.size(); }

  void add(std::mt19937& rng) {
    const auto pick = [&](auto... options) {
      const float list[] = {static_cast<float>(options)...};
      return list[rng() % std::size(list)];
    };
    auto row = random_values<float>(rng, vocab, rng() % 4 == 0 ? kAllValues[rng() % 5] : Values::kNormal);
    const float scale = pick(1, 3, 10), step = pick(0, 0, 0.25);  // 0.25: many equal logits
    for (float& x : row) x = step > 0 ? std::nearbyint(x * scale / step) * step : x * scale;
    if (rng() % 20 == 0) std::fill(row.begin(), row.end(), rng() % 2 == 0 ? -kInfinity : NAN);
    logits.insert(logits.end(), row.begin(), row.end());
    temperatures.push_back(pick(0, 0.3, 0.7, 1, 1, 1.5, 4, 1e-40, NAN));
    top_ks.push_back(static_cast<int32_t>(pick(-1, 0, 0, 1, 2, 40, 300, 1e6)));
    top_ps.push_back(pick(1, 1, 0.999, 0.9, 0.5, 0.01, 0, 1.5));
    min_ps.push_back(pick(0, 0, 0, 0.001, 0.1, 0.9, 1, 2));
    keys.push_back(static_cast<uint64_t>(rng()) << 32 | rng());
    positions.push_back(static_cast<int64_t>(rng() % 3000));
    edits.resize(edits.size() + rng() % 5);  // which no row has
    edit_begins.push_back(static_cast<int32_t>(edits.size()));
    if (rng() % 3 == 0) {
      for (std::size_t id = 0; id < vocab; id += 1 + rng() % 50) {
        edits.push_back(
            {static_cast<int32_t>(id), pick(0, 0, 1.5, -100, -INFINITY), pick(1, 1, 1.3, 0.8), pick(0, 0.6, -0.5)});
      }
    }
    edit_counts.push_back(static_cast<int32_t>(edits.size()) - edit_begins.back());
    std::shuffle(edits.begin() + edit_begins.back(), edits.end(), rng);
    allowed_index.push_back(-1);
    if (rng() % 4 == 0) {
      const std::size_t words = (vocab + 31) / 32;
      allowed_index.back() = static_cast<int32_t>(masks.size() / words);
      for (std::size_t i = 0; i < words; ++i) masks.push_back(rng() % 3 == 0 ? rng() & rng() : 0);
    }
  }

  // Makes the last row one without filters, which large vocabularies draw in one pass.
  void without_filters(float temperature) {
    temperatures.back() = temperature;
    top_ks.back() = 0;
    top_ps.back() = 1;
    min_ps.back() = 0;
  }
  void without_edits() {
    edit_counts.back() = 0;
    allowed_index.back() = -1;
  }
  float* last_row() { return &logits[logits.size() - vocab]; }

  cpu::SampleRow row_of(std::size_t r) const {
    cpu::SampleRow row = {};
    row.logits = &logits[r * vocab];
    row.vocab_size = vocab;
    row.temperature = temperatures[r];
    row.top_k = top_ks[r];
    row.top_p = top_ps[r];
    row.min_p = min_ps[r];
    row.key = keys[r];
    row.position = static_cast<uint64_t>(positions[r]);
    row.num_edits = static_cast<std::size_t>(edit_counts[r]);
    row.edits = reinterpret_cast<const cpu::LogitEdit*>(edits.data()) + edit_begins[r];
    const std::size_t words = (vocab + 31) / 32;
    row.allowed = allowed_index[r] < 0 ? nullptr : &masks[static_cast<std::size_t>(allowed_index[r]) * words];
    return row;
  }
  reference::Sampled expected(std::size_t r) const { return reference::sample_token(row_of(r)); }
};

// A batch in device memory.
struct DeviceBatch {
  explicit DeviceBatch(const Batch& batch)
      : logits(batch.logits),
        temperatures(batch.temperatures),
        top_ps(batch.top_ps),
        min_ps(batch.min_ps),
        logprobs(batch.rows()),
        edits(batch.edits),
        top_ks(batch.top_ks),
        begins(batch.edit_begins),
        counts(batch.edit_counts),
        allowed(batch.allowed_index),
        tokens(batch.rows()),
        masks(batch.masks),
        keys(batch.keys),
        positions(batch.positions),
        tensor(matrix(logits, batch.rows(), batch.vocab)) {
    args.logits = &tensor;
    args.temperatures = temperatures.data();
    args.top_ks = top_ks.data();
    args.top_ps = top_ps.data();
    args.min_ps = min_ps.data();
    args.keys = keys.data();
    args.positions = positions.data();
    args.edits = edits.data();
    args.edit_begins = begins.data();
    args.edit_counts = counts.data();
    args.allowed_index = allowed.data();
    args.allowed_masks = masks.data();
    args.tokens = tokens.data();
  }

  Array<float> logits, temperatures, top_ps, min_ps, logprobs;
  Array<mortise_logit_edit> edits;
  Array<int32_t> top_ks, begins, counts, allowed, tokens;
  Array<uint32_t> masks;
  Array<uint64_t> keys;
  Array<int64_t> positions;
  mortise_tensor tensor;
  mortise_sample_args args = sized<mortise_sample_args>();
};

class CudaSample : public OnGpu {
 protected:
  void expect_reference(const Batch& batch) {
    DeviceBatch on(batch);
    for (const bool with_logprobs : {true, false}) {
      on.args.processed_logprobs = with_logprobs ? on.logprobs.data() : nullptr;
      expect_ok(table().sample(gpu(), nullptr, &on.args, error()));
      const auto drawn = on.tokens.get();
      const auto p = on.logprobs.get();
      for (std::size_t r = 0; r < batch.rows(); ++r) {
        const reference::Sampled expected = batch.expected(r);
        EXPECT_EQ(drawn[r], expected.token) << "row " << r;
        EXPECT_TRUE(same_bits(&expected.logprob, &p[r], 1)) << "row " << r << " " << expected.logprob << " " << p[r];
      }
    }
  }
};

TEST_F(CudaSample, HasTheReferencesTokenAndLogProbabilityBits) {
  std::mt19937 rng(5);
  for (const std::size_t vocab : {1, 5, 16, 100, 1000, 1023, 2049, 4096, 6144, 6145, 9000}) {
    for (int trial = 0; trial < 3; ++trial) {
      SCOPED_TRACE(testing::Message() << "vocab " << vocab << " trial " << trial);
      Batch batch;
      batch.vocab = vocab;
      for (int r = 0; r < 64; ++r) batch.add(rng);
      expect_reference(batch);
      if (HasFailure()) return;
    }
  }
}

TEST_F(CudaSample, LargeVocabulariesToo) {
  std::mt19937 rng(6);
  Batch batch;
  batch.vocab = 128256;
  for (int r = 0; r < 12; ++r) batch.add(rng);
  expect_reference(batch);
}

TEST_F(CudaSample, WithoutFiltersTheBoundSparesNoTokenThatWins) {
  std::mt19937 rng(7);
  Batch batch;
  batch.vocab = 2000;
  for (int r = 0; r < 300; ++r) {
    batch.add(rng);
    for (std::size_t i = 0; i < batch.vocab; ++i) {
      float& x = batch.last_row()[i];
      x = r % 3 == 0 ? 0.0f : cpu::draw(rng, Values::kNormal) * static_cast<float>(r % 40);
    }
    batch.without_filters(1);
  }
  expect_reference(batch);
}

// Rows that are drawn in one pass, with logits and temperatures of all magnitudes, edits and sets of allowed tokens.
TEST_F(CudaSample, RowsWithoutFiltersOfAnyMagnitude) {
  std::mt19937 rng(8);
  constexpr float kTemperatures[] = {1, 0.7f, 1.3f, 1e-3f, 1e3f, 1e-17f, 1e17f, 1e-30f, 1e30f, 3e38f, 0.999999f};
  for (const std::size_t vocab : {6145, 8192, 8193, 20001}) {
    SCOPED_TRACE(testing::Message() << "vocab " << vocab);
    Batch batch;
    batch.vocab = vocab;
    for (std::size_t r = 0; r < 5 * std::size(kTemperatures); ++r) {
      batch.add(rng);
      batch.without_filters(kTemperatures[r % std::size(kTemperatures)]);
      if (r % 2 == 0) batch.without_edits();
      float* const row = batch.last_row();
      const Values values = kAllValues[r / std::size(kTemperatures)];
      for (std::size_t i = 0; i < vocab; ++i) row[i] = cpu::draw(rng, values);
    }
    expect_reference(batch);
    if (HasFailure()) return;
  }
}

// Scores that are equal, because logits are equal and so large that noise is lost, or that differ by a few bits.
TEST_F(CudaSample, TiesAndWhatIsNoLogit) {
  std::mt19937 rng(9);
  for (const std::size_t vocab : {1000, 6144, 6145, 17000}) {
    SCOPED_TRACE(testing::Message() << "vocab " << vocab);
    Batch batch;
    batch.vocab = vocab;
    for (const float level : {0.0f, 1.0f, -3e5f, 1e7f, -1e8f, 3e8f, 1e9f, -1e20f, 1e38f, -3e38f}) {
      for (int kind = 0; kind < 6; ++kind) {
        batch.add(rng);
        if (kind != 5) batch.without_filters(kind == 4 ? 0.7f : 1.0f);
        batch.without_edits();
        float* const row = batch.last_row();
        for (std::size_t i = 0; i < vocab; ++i) {
          row[i] = level;
          if (kind == 1) row[i] *= 1 + static_cast<float>(rng() % 8) * 0x1p-23f;
          if (kind == 2 && rng() % 100 != 0) row[i] = -kInfinity;
          if (kind == 3) row[i] = rng() % 3 == 0 ? NAN : rng() % 1000 == 0 ? kInfinity : level;
        }
        if (kind == 2) row[vocab - 1] = level + 5;
      }
    }
    for (const float only : {-kInfinity, NAN, kInfinity, -std::numeric_limits<float>::max(), 1e-40f}) {
      batch.add(rng);
      batch.without_filters(1.0f);
      batch.without_edits();
      std::fill_n(batch.last_row(), vocab, only);
    }
    expect_reference(batch);
    if (HasFailure()) return;
  }
}

// The token with the largest noise of its row has a logit with which it just wins, just loses or has an equal score.
TEST_F(CudaSample, ATokenWinsByItsNoiseAlone) {
  std::mt19937 rng(10);
  for (const std::size_t vocab : {3000, 9000}) {
    SCOPED_TRACE(testing::Message() << "vocab " << vocab);
    Batch batch;
    batch.vocab = vocab;
    for (int trial = 0; trial < 8; ++trial) {
      const uint64_t key = static_cast<uint64_t>(rng()) << 32 | rng();
      std::vector<std::pair<float, int32_t>> noise;
      for (std::size_t i = 0; i < vocab; ++i) {
        const auto id = static_cast<int32_t>(i);
        noise.emplace_back(reference::noise(key, 17, id), id);
      }
      std::sort(noise.rbegin(), noise.rend());
      // The others have logit 0, or but for the second they have none; or the token is to beat the least noise.
      const bool alone = trial % 2 == 1;
      const auto [rival_noise, rival] = alone ? noise.back() : noise[1];
      float logit = rival_noise - noise[0].first;
      for (int i = 0; i < 4; ++i) logit = std::nextafter(logit, -kInfinity);
      for (int i = 0; i < 9; ++i, logit = std::nextafter(logit, kInfinity)) {
        batch.add(rng);
        batch.without_filters(1);
        batch.without_edits();
        batch.keys.back() = key;
        batch.positions.back() = 17;
        float* const row = batch.last_row();
        std::fill_n(row, vocab, alone ? -kInfinity : 0.0f);
        row[rival] = 0;
        row[noise[0].second] = logit;
      }
    }
    expect_reference(batch);
    if (HasFailure()) return;
  }
}

// The largest noise of many positions, against a token that needs nearly as much to lose: close to kMostNoise, below
// which tokens are dropped without a random word.
TEST_F(CudaSample, VeryLargeNoiseIsNotLost) {
  constexpr uint64_t kKey = 0x123456789abcdef;
  constexpr std::size_t kVocab = 8200;
  uint32_t least = ~0u;
  int32_t token = 0;
  int64_t position = 0;
  for (int64_t p = 0; p < 2500; ++p) {
    for (int32_t id = 0; id < static_cast<int32_t>(kVocab); ++id) {
      const uint32_t counter[4] = {static_cast<uint32_t>(p), 0, static_cast<uint32_t>(id), 0};
      uint32_t r[4];
      reference::philox(counter, kKey, r);
      if (r[0] < least) least = r[0], token = id, position = p;
    }
  }
  ASSERT_LT(least, 4000u);  // noise above 13.8
  int32_t rival = 0;        // with the least noise
  const auto noise = [&](int32_t id) { return reference::noise(kKey, static_cast<uint64_t>(position), id); };
  for (int32_t id = 0; id < static_cast<int32_t>(kVocab); ++id) rival = noise(id) < noise(rival) ? id : rival;
  std::mt19937 rng(11);
  Batch batch;
  batch.vocab = kVocab;
  for (const float more : {-0.01f, -1e-5f, 0.0f, 1e-5f, 0.01f, 1.0f}) {
    batch.add(rng);
    batch.without_filters(1);
    batch.without_edits();
    batch.keys.back() = kKey;
    batch.positions.back() = position;
    float* const row = batch.last_row();
    std::fill_n(row, kVocab, -kInfinity);
    row[rival] = 3;
    row[token] = 3 + noise(rival) - noise(token) + more;
  }
  expect_reference(batch);
}

// So many rows that a block works on several slices of one.
TEST_F(CudaSample, ManyRowsToo) {
  std::mt19937 rng(12);
  Batch batch;
  batch.vocab = 17000;
  for (int r = 0; r < 500; ++r) {
    batch.add(rng);
    if (r % 5 != 0) batch.without_filters(r % 2 == 0 ? 1.0f : 0.8f);
  }
  expect_reference(batch);
}

TEST_F(CudaSample, MissingArraysAreNamed) {
  const Array<float> logits(8);
  const mortise_tensor tensor = matrix(logits, 1, 8);
  auto args = sized<mortise_sample_args>();
  args.logits = &tensor;
  expect_invalid(table().sample(gpu(), nullptr, &args, error()), "temperatures is missing");
}

// Drafts of a batch: some likely, some not; none, certain, or with a distribution.
struct Drafts {
  std::vector<int32_t> drafts, distribution_rows;
  std::vector<float> distributions;
  std::size_t vocab;

  Drafts(const Batch& batch, std::mt19937& rng) : vocab(batch.vocab) {
    for (std::size_t r = 0; r < batch.rows(); ++r) {
      const int32_t likely = batch.expected(r).token;
      const auto any = static_cast<int32_t>(rng() % vocab);
      drafts.push_back(rng() % 5 == 0 ? -1 : rng() % 2 == 0 && likely >= 0 ? likely : any);
      distribution_rows.push_back(-1);
      if (rng() % 3 == 0) continue;
      distribution_rows.back() = static_cast<int32_t>(distributions.size() / vocab);
      const auto kind = rng() % 4;  // of the target itself, any, with zeros, nothing but zeros
      for (std::size_t i = 0; i < vocab; ++i) {
        const float x = kind == 0 ? batch.logits[r * vocab + i] : cpu::draw(rng, Values::kNormal) * 3;
        const bool none = kind == 3 || (kind == 2 && rng() % 2 == 0);
        distributions.push_back(none || !(x > -80) ? 0.0f : std::exp(std::min(x, 80.0f)));
      }
    }
    distributions.resize(distributions.size() + vocab);  // so that there is at least one
  }
  const float* distribution(std::size_t r) const {
    return distribution_rows[r] < 0 ? nullptr : &distributions[static_cast<std::size_t>(distribution_rows[r]) * vocab];
  }
};

class CudaVerifyDrafts : public OnGpu {
 protected:
  const mortise_rejection_table& rejection() const {
    return *static_cast<const mortise_rejection_table*>(table().get_ext(gpu(), MORTISE_EXT_REJECTION));
  }
  void expect_reference(const Batch& batch, std::mt19937& rng) {
    const Drafts work(batch, rng);
    DeviceBatch on(batch);
    const Array<int32_t> drafts(work.drafts), distribution_rows(work.distribution_rows);
    const Array<float> distributions(work.distributions);
    const mortise_tensor tensor = matrix(distributions, work.distributions.size() / batch.vocab, batch.vocab);
    auto args = sized<mortise_verify_drafts_args>();
    args.rows = &on.args;
    args.drafts = drafts.data();
    args.distributions = &tensor;
    for (const bool told : {true, false}) {
      args.distribution_rows = told ? distribution_rows.data() : nullptr;
      on.tokens.put(std::vector<int32_t>(batch.rows(), -9));
      expect_ok(rejection().verify_drafts(gpu(), nullptr, &args, error()));
      const auto tokens = on.tokens.get();
      for (std::size_t r = 0; r < batch.rows(); ++r) {
        const float* const distribution = told ? work.distribution(r) : nullptr;
        const int32_t draft = work.drafts[r];
        const int32_t expected = draft < 0 ? -9 : reference::verify_draft(batch.row_of(r), -9, draft, distribution);
        EXPECT_EQ(tokens[r], expected) << "row " << r << ", draft " << draft;
        ++(expected == draft ? num_accepted_ : num_others_);
      }
    }
  }
  int num_accepted_ = 0, num_others_ = 0;
};

TEST_F(CudaVerifyDrafts, HaveTheReferencesTokens) {
  std::mt19937 rng(11);
  for (const std::size_t vocab : {1, 5, 33, 100, 1000, 1024, 2049, 6144, 9000}) {
    for (int trial = 0; trial < 3; ++trial) {
      SCOPED_TRACE(testing::Message() << "vocab " << vocab << " trial " << trial);
      Batch batch;
      batch.vocab = vocab;
      for (int r = 0; r < 64; ++r) batch.add(rng);
      expect_reference(batch, rng);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(num_accepted_, 300);
  EXPECT_GT(num_others_, 300);
}

TEST_F(CudaVerifyDrafts, OfLargeVocabulariesToo) {
  std::mt19937 rng(12);
  Batch batch;
  batch.vocab = 128256;
  for (int r = 0; r < 12; ++r) batch.add(rng);
  expect_reference(batch, rng);
}

TEST_F(CudaVerifyDrafts, MissingArraysAreNamed) {
  auto args = sized<mortise_verify_drafts_args>();
  expect_invalid(rejection().verify_drafts(gpu(), nullptr, &args, error()), "rows is missing");
}

}  // namespace
}  // namespace mortise::cuda::head_test
