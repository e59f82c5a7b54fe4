// Rejection sampling through the engine and the demo model: whatever drafts come from, what comes out has the target's
// distribution, which the model's own log probabilities give exactly. And what is promised of its randomness: a request
// repeats with its seed, alone and in company, as long as its drafts are the same.
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <mutex>

#include "mix.hpp"
#include "sampling/key.hpp"

namespace mortise::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kTopK = 4, kTokens = 3;
const Ids kPrompt = {200, 17, 431};

// The likeliest tokens after some tokens, and their probabilities among themselves: what top_k = 4 at temperature 1
// draws from.
struct Next {
  Ids ids;
  std::vector<double> p;
};
using Tree = std::map<Ids, Next>;

// Drafts from a distribution of its own over the four likeliest tokens: mostly the one at `favourite`.
struct SkewedProposer {
  const Tree& tree;
  std::size_t favourite = 0;
  bool tells = true;  // its distribution
  std::int32_t vocab_size = 0;
  std::map<std::uint64_t, Ids> known = {};  // by sequence, the generated tokens
  int num_drafts = 0;

  mortise_status observe(const mortise_observation& observation) {
    for (std::int32_t i = 0; i < observation.num_seqs; ++i) {
      Ids& ids = known[observation.seq_ids[i]];
      if (observation.first_positions[i] == 0) ids.clear();
      ids.insert(ids.end(), observation.tokens + observation.token_offsets[i],
                 observation.tokens + observation.token_offsets[i + 1]);
    }
    return MORTISE_OK;
  }

  mortise_status propose(const mortise_proposal_args& args) {
    EXPECT_EQ(args.distributions != nullptr, tells);
    for (std::int32_t i = 0; i < args.num_seqs; ++i) {
      Ids ids = known.at(args.seq_ids[i]);
      ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kPrompt.size()));
      std::int32_t& count = args.num_drafts[i];
      for (; count < args.max_drafts[i]; ++count) {
        const auto at = tree.find(ids);
        if (at == tree.end()) break;
        const std::uint64_t random =
            mix64(mix64(args.keys[i]) ^ static_cast<std::uint64_t>(args.positions[i] + count)) % 100;
        const std::size_t other = (favourite + 1 + random % 3) % kTopK;
        const std::int32_t token = at->second.ids[random < 70 ? favourite : other];
        const std::int64_t row = std::int64_t{i} * args.draft_stride + count;
        args.tokens[row] = token;
        // Below 70: the favourite. 70 to 99, ten of each remainder: one of the others.
        for (std::size_t k = 0; tells && k < kTopK; ++k) {
          args.distributions[row * vocab_size + at->second.ids[k]] = k == favourite ? 0.7f : 0.1f;
        }
        ids.push_back(token);
        ++num_drafts;
      }
    }
    return MORTISE_OK;
  }

  static const mortise_proposer_table* table() {
    static const auto value = [] {
      mortise_proposer_table t{};
      t.struct_size = sizeof t;
      t.observe = [](mortise_proposer* self, const mortise_observation* observation, mortise_error*) -> mortise_status {
        return reinterpret_cast<SkewedProposer*>(self)->observe(*observation);
      };
      t.propose = [](mortise_proposer* self, const mortise_step*, const mortise_proposal_args* args,
                     mortise_error*) -> mortise_status {
        return reinterpret_cast<SkewedProposer*>(self)->propose(*args);
      };
      return t;
    }();
    return &value;
  }
};

class RejectionTest : public ::testing::Test {
 protected:
  static std::filesystem::path model() { return MORTISE_SOURCE_DIR "/models/demo"; }

  void open(SkewedProposer* proposer, int max_num_seqs = 64) {
    engine_.reset();
    RunConfig config;
    config.threads = 2;
    config.max_num_seqs = max_num_seqs;
    if (proposer != nullptr) config.verify = "rejection";
    assembly_ = open_assembly(model(), config);
    Parts parts = assembly_->parts();
    EngineLimits limits = assembly_->limits();
    EXPECT_EQ(limits.rejection, proposer != nullptr);
    if (proposer != nullptr) {
      proposer->vocab_size = assembly_->dims().vocab_size;
      ActiveProposer& part = parts.proposers.emplace_back();
      part.self = reinterpret_cast<mortise_proposer*>(proposer);
      part.api = SkewedProposer::table();
      part.name = "proposer 'skewed'";
      part.plugin = "skewed";
      part.max_tokens = limits.max_drafts = 2;
      if (proposer->tells) part.capabilities = MORTISE_CAP_DISTRIBUTION;
    }
    engine_ = std::make_unique<Engine>(parts, limits, assembly_->model_info(), assembly_->tokenizer());
  }

  // The tokens of requests that differ in their seeds, first_seed, first_seed + 1, ...
  std::vector<std::vector<TokenInfo>> draw(int count, std::uint64_t first_seed) {
    std::vector<std::vector<TokenInfo>> result(static_cast<std::size_t>(count));
    std::mutex mutex;
    std::condition_variable changed;
    int open = count;
    for (int i = 0; i < count; ++i) {
      Request request;
      request.prompt = kPrompt;
      request.sampling.top_k = kTopK;
      request.sampling.max_tokens = kTokens + 1;  // the last is never drafted
      request.sampling.ignore_eos = true;
      request.sampling.seed = first_seed + static_cast<std::uint64_t>(i);
      request.logprobs = kTopK;
      engine_->submit(request, [&, i](const Delta& delta) {
        const std::lock_guard lock(mutex);
        auto& tokens = result[static_cast<std::size_t>(i)];
        tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
        if (delta.finish != FinishReason::kNone && --open == 0) changed.notify_all();
      });
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open == 0; });
    return result;
  }

  // Every continuation of up to three tokens that top_k = 4 leaves, as far as they were met.
  static void learn(const std::vector<std::vector<TokenInfo>>& answers, Tree& tree) {
    for (const auto& answer : answers) {
      Ids before;
      for (const TokenInfo& token : answer) {
        Next next;
        double sum = 0;
        for (const auto& [id, logprob] : token.top) {
          next.ids.push_back(id);
          next.p.push_back(std::exp(static_cast<double>(logprob)));
          sum += next.p.back();
        }
        for (double& p : next.p) p /= sum;
        if (before.size() < kTokens) tree.try_emplace(before, next);
        before.push_back(token.id);
      }
    }
  }

  static double probability(const Tree& tree, const Ids& ids) {
    double p = 1;
    for (std::size_t n = 0; n < ids.size(); ++n) {
      const Next& next = tree.at(Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n)));
      const auto at = std::find(next.ids.begin(), next.ids.end(), ids[n]);
      if (at == next.ids.end()) return 0;
      p *= next.p[static_cast<std::size_t>(at - next.ids.begin())];
    }
    return p;
  }

  static Ids first_tokens(const std::vector<TokenInfo>& answer) {
    Ids ids;
    for (std::int32_t i = 0; i < kTokens; ++i) ids.push_back(answer[static_cast<std::size_t>(i)].id);
    return ids;
  }

  std::unique_ptr<Assembly> assembly_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(RejectionTest, WhateverTheDraftsComeFromTheTokensHaveTheTargetsDistribution) {
  Tree tree;
  open(nullptr);
  learn(draw(800, 1), tree);
  for (const bool tells : {true, false}) {
    for (const std::size_t favourite : {0u, 3u}) {  // near to the target, and far from it
      SkewedProposer proposer{tree, favourite, tells};
      open(&proposer);
      constexpr int kDraws = 2500;
      const auto answers = draw(kDraws, 100000);
      Tree all = tree;
      learn(answers, all);
      std::map<Ids, int> counts;
      for (const auto& answer : answers) ++counts[first_tokens(answer)];
      double distance = 0, missing = 1, expected = 0;
      for (const auto& [ids, count] : counts) {
        const double p = probability(all, ids);
        ASSERT_GT(p, 0) << "a token that top_k leaves out";
        distance += std::abs(static_cast<double>(count) / kDraws - p) / 2;
        expected += std::sqrt(2 * p * (1 - p) / (M_PI * kDraws)) / 2;
        missing -= p;
      }
      distance += missing / 2;
      expected += missing / 2;
      EXPECT_LT(distance, 1.4 * expected) << "favourite " << favourite << (tells ? "" : ", taken for certain");
      EXPECT_GT(engine_->stats().num_accepted, 0u);
      EXPECT_LT(engine_->stats().num_accepted, engine_->stats().num_drafts);
      engine_.reset();
      EXPECT_GT(proposer.num_drafts, kDraws);
    }
  }
}

TEST_F(RejectionTest, ARequestRepeatsWithItsSeedAloneAndInCompany) {
  Tree tree;
  open(nullptr);
  learn(draw(500, 1), tree);
  SkewedProposer together{tree}, alone{tree};
  open(&together);
  const auto in_company = draw(100, 7000);
  EXPECT_GT(engine_->stats().num_accepted, 0u);
  open(&alone, /*max_num_seqs=*/1);
  const auto one_by_one = draw(100, 7000);
  for (std::size_t i = 0; i < in_company.size(); ++i) {
    EXPECT_EQ(first_tokens(in_company[i]), first_tokens(one_by_one[i])) << i;
    EXPECT_EQ(in_company[i][1].logprob, one_by_one[i][1].logprob);
  }
  engine_.reset();
}

TEST_F(RejectionTest, TheFingerprintNamesWhatDecidesTheTokens) {
  RunConfig config;
  config.proposer = "ngram { max_tokens = 3 }";
  const auto coupled = open_assembly(model(), config);
  config.verify = "rejection";
  const auto rejection = open_assembly(model(), config);
  config.proposer = "ngram { max_tokens = 4 }";
  const auto longer = open_assembly(model(), config);
  EXPECT_NE(coupled->system_fingerprint(), rejection->system_fingerprint());
  EXPECT_NE(rejection->system_fingerprint(), longer->system_fingerprint());
  EXPECT_NE(rejection->numerics_id().find("rejection of ngram"), std::string::npos) << rejection->numerics_id();
}

}  // namespace
}  // namespace mortise::test
