// Real logits of real parts, and what the reference in double makes of them: every token that the engine drew in random
// mixes of all parameters is the one that the API's documentation asks for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "mix.hpp"
#include "parity/stack.hpp"
#include "random_model.hpp"
#include "sampling/key.hpp"
#include "sampling_reference.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr double kTie = 1e-3;    // f32 noise and logits against double: scores are up to about 100
constexpr double kSlack = 1e-4;  // of a filter's bound

struct Counts {
  int tokens = 0, filtered = 0, guided = 0, ties = 0;
};

// The tokens that may come next when the text must be one of the choices; nullopt where it is free.
std::optional<Ids> allowed_tokens(const SamplingParams& params, const Tokenizer& tokenizer, const Ids& generated,
                                  const Ids& end_tokens) {
  if (params.choices.empty()) return std::nullopt;
  std::set<std::int32_t> allowed;
  for (const GuidedChoice& choice : params.choices) {
    const Ids ids = tokenizer.encode(std::get<std::string>(choice), false);
    if (ids.size() < generated.size() || !std::equal(generated.begin(), generated.end(), ids.begin())) continue;
    if (ids.size() > generated.size()) allowed.insert(ids[generated.size()]);
    if (ids.size() == generated.size()) allowed.insert(end_tokens.begin(), end_tokens.end());
  }
  return Ids(allowed.begin(), allowed.end());
}

double log_softmax(const Row& row, std::int32_t token) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (float logit : row) sum += std::exp(logit - max);
  return row[static_cast<std::size_t>(token)] - max - std::log(sum);
}

class SamplingReference : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace();
    models_ = write_random_models(folder_->path());
    // The stack beside the engine reads no quantised checkpoints; exactness_test draws them.
    std::erase_if(models_, [](const RandomModel& model) { return model.comes_quantized; });
    models_.push_back({"demo", 4096, MORTISE_SOURCE_DIR "/models/demo"});
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // Draws what the choice has drawn again, from logits that the parts give for its tokens without an engine.
  void check(const Request& request, std::int32_t choice, const ChoiceOutcome& outcome, const std::vector<Row>& rows,
             const Tokenizer& tokenizer, const Ids& eos) {
    const SamplingParams& params = request.sampling;
    Ids ends = params.stop_token_ids;
    if (!params.ignore_eos || !params.choices.empty()) ends.insert(ends.end(), eos.begin(), eos.end());
    Ids generated;
    for (const TokenInfo& info : outcome.tokens) {
      const Row& row = rows[request.prompt.size() + generated.size() - 1];
      const auto allowed = allowed_tokens(params, tokenizer, generated, ends);
      const ReferenceRow reference{row,
                                   request.prompt,
                                   generated,
                                   ends,
                                   allowed ? &*allowed : nullptr,
                                   noise_key(*params.seed, static_cast<std::uint32_t>(choice))};
      const ReferenceDraw draw = reference_draw(reference, params);
      if (draw.token != info.id) {
        // Another token is right only where rounding decides: between two scores, or at a filter's bound.
        const double margin = std::min({draw.margin(info.id), reference_draw(reference, params, kSlack).margin(info.id),
                                        reference_draw(reference, params, -kSlack).margin(info.id)});
        ASSERT_LE(margin, kTie) << "token " << generated.size() << " is " << info.id << " instead of " << draw.token;
        ++counts_.ties;
      }
      ++counts_.tokens;
      counts_.filtered += draw.left.size() < row.size() / 2;
      counts_.guided += allowed.has_value();
      if (request.logprobs) {  // raw, whatever the parameters say
        ASSERT_NEAR(info.logprob, log_softmax(row, info.id), 1e-4);
        ASSERT_EQ(info.top.size(), static_cast<std::size_t>(*request.logprobs));
        for (const auto& [id, logprob] : info.top) ASSERT_NEAR(logprob, log_softmax(row, id), 1e-4);
      }
      ASSERT_FALSE(std::count(ends.begin(), ends.end(), info.id) > 0 && &info != &outcome.tokens.back())
          << "an end token did not end it";
      generated.push_back(info.id);
    }
    check_end(params, outcome, generated, ends);
  }

  static void check_end(const SamplingParams& params, const ChoiceOutcome& outcome, const Ids& generated,
                        const Ids& ends) {
    const bool end_token = !generated.empty() && std::count(ends.begin(), ends.end(), generated.back()) > 0;
    if (!params.choices.empty()) {
      ASSERT_EQ(std::count(params.choices.begin(), params.choices.end(), GuidedChoice(outcome.text)) > 0, true)
          << outcome.text;
      ASSERT_EQ(outcome.finish, FinishReason::kStop);
    } else if (end_token) {
      ASSERT_EQ(outcome.finish, FinishReason::kStop);
    } else if (outcome.finish == FinishReason::kLength) {
      ASSERT_EQ(static_cast<std::int32_t>(generated.size()), params.max_tokens);
    } else {
      ASSERT_EQ(outcome.finish, FinishReason::kStop);
      ASSERT_FALSE(params.stop.empty()) << "ended for no reason";
    }
    for (const std::string& stop : params.stop) {
      if (params.min_tokens > 1) continue;
      ASSERT_EQ(outcome.text.find(stop), std::string::npos) << "a stop string is in the text";
    }
  }

  void run_mix(const RandomModel& model, std::mt19937& random) {
    const std::vector<Request> requests = draw_requests(random, model.vocab_size, 200, 500);
    const Outcomes outcomes = run_alone(model.folder, machine_isas(true).back(), requests);
    const Tokenizer tokenizer = Tokenizer::load(model.folder);
    Ids eos = Checkpoint::open(model.folder).generation_config().eos_token_ids;
    if (eos.empty()) eos.push_back(*tokenizer.eos_id());
    StackOptions options;
    options.num_blocks = 2000;
    Stack stack(built_in_parts(model_plugin(model.folder)), model.folder, options);
    std::uint64_t next_id = 1;
    for (const auto& [key, outcome] : outcomes) {
      const Request& request = requests[key.first];
      if (outcome.tokens.empty()) continue;
      Ids tokens = request.prompt;
      for (const TokenInfo& info : outcome.tokens) tokens.push_back(info.id);
      const std::vector<Row> rows = stack.step({{next_id++, tokens}}).front();
      check(request, key.second, outcome, rows, tokenizer, eos);
      if (HasFatalFailure()) return;
    }
  }

  static inline std::optional<TempFolder> folder_;
  static inline std::vector<RandomModel> models_;
  Counts counts_;
};

TEST_F(SamplingReference, EveryTokenIsTheOneThatTheParametersAskFor) {
  constexpr std::uint32_t kMixes = 60;
  for (std::uint32_t seed = 1; seed <= kMixes; ++seed) {
    std::mt19937 random(seed);
    const RandomModel& model = models_[seed % models_.size()];
    run_mix(model, random);
    ASSERT_FALSE(HasFatalFailure()) << "mix " << seed << ", model " << model.name;
  }
  std::printf("%d tokens, %d of them filtered to less than half the vocabulary, %d guided, %d decided by rounding\n",
              counts_.tokens, counts_.filtered, counts_.guided, counts_.ties);
  EXPECT_GT(counts_.tokens, 2000);
  EXPECT_GT(counts_.filtered, 500);
  EXPECT_GT(counts_.guided, 50);
  EXPECT_LT(counts_.ties, counts_.tokens / 200);  // more: it is not rounding
}

// The noise itself is Gumbel's: frequencies over seeds are the softmax.
TEST(SamplingNoise, DrawsFollowTheProbabilities) {
  constexpr int kDraws = 40000;
  const std::vector<float> logits = {1.0f, 0.0f, -1.0f, 2.0f, 0.5f};
  std::vector<int> counts(logits.size());
  const Ids none;
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const ReferenceRow row{logits, none, none, none, nullptr, noise_key(seed, 0)};
    ++counts[static_cast<std::size_t>(reference_draw(row, {}).token)];
  }
  double chi_square = 0;
  const Row row(logits.begin(), logits.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double expected = kDraws * std::exp(log_softmax(row, static_cast<std::int32_t>(i)));
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 18.5);  // with four degrees of freedom, chance exceeds it once in a thousand
}

}  // namespace
}  // namespace mortise::test
