#include "sampling/choice_guides.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "error.hpp"

namespace mortise {
namespace {

using ::testing::HasSubstr;

class ChoiceGuidesTest : public ::testing::Test {
 protected:
  ChoiceGuidesTest() { params.choices = {" yes", " no", " yes and no"}; }
  std::shared_ptr<const ChoiceGuide> get() {
    const DecodedPrefix before =
        decode_prefix(tokenizer, params.skip_special_tokens, tokenizer.encode(prompt, /*add_special_tokens=*/false));
    return guides.get(params, {tokenizer, before, ends, vocab_size, max_tokens});
  }

  const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  const std::int32_t vocab_size = static_cast<std::int32_t>(tokenizer.vocab_size());
  ChoiceGuides guides;
  SamplingParams params;
  std::string prompt = "a question:";
  std::vector<std::int32_t> ends{1};
  std::int32_t max_tokens = 100;
};

TEST_F(ChoiceGuidesTest, WhoAsksForTheSameGetsTheSame) {
  const auto first = get();
  EXPECT_EQ(first->tokens.size(), 3u);
  EXPECT_EQ(get(), first);
  prompt = "another question:";  // it has the same end
  max_tokens = first->trie.longest();
  params.temperature = 0.5f;
  EXPECT_EQ(get(), first);
}

TEST_F(ChoiceGuidesTest, WhateverAGuideDependsOnMakesAnotherOne) {
  const auto first = get();
  const std::vector<std::function<void()>> changes = {
      [&] { params.choices.back() = " yes or no"; },
      [&] { params.choices.pop_back(); },
      [&] { params.choices[0] = first->tokens[0]; },
      [&] { params.min_tokens = 1; },
      [&] { params.stop = {"maybe"}; },
      [&] { params.skip_special_tokens = false; },
      [&] {
        ends = {1, 2};
      },
      [&] { prompt = "a question?"; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const SamplingParams params_before = params;
    const auto [prompt_before, ends_before] = std::pair(prompt, ends);
    changes[i]();
    EXPECT_NE(get(), first) << i;
    params = params_before, prompt = prompt_before, ends = ends_before;
    EXPECT_EQ(get(), first) << i;
  }
}

TEST_F(ChoiceGuidesTest, AChoiceThatIsTooLongForThisRequestIsStillNamed) {
  max_tokens = get()->trie.longest() - 1;
  try {
    get();
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("choices[2]: \" yes and no\" needs"));
  }
}

TEST_F(ChoiceGuidesTest, TheLastUsedAreKept) {
  const auto first = get();
  const auto choices = params.choices;
  std::weak_ptr<const ChoiceGuide> second;
  for (int i = 0; i < 40; ++i) {
    params.choices = {" " + std::to_string(i)};
    if (i == 0) {
      second = get();
    } else {
      get();
    }
    params.choices = choices;
    EXPECT_EQ(get(), first);
  }
  EXPECT_TRUE(second.expired());
  // A guide that alone exceeds the limit is kept until the next one is made.
  params.choices = {std::vector<std::int32_t>(3 << 20, 7)};
  max_tokens = 4 << 20;
  const std::weak_ptr<const ChoiceGuide> large = get();
  EXPECT_FALSE(large.expired());
  params.choices = choices;
  EXPECT_NE(get(), first);
  EXPECT_TRUE(large.expired());
}

TEST_F(ChoiceGuidesTest, ManyThreadsMayAsk) {
  const DecodedPrefix before = decode_prefix(tokenizer, true, tokenizer.encode(prompt, /*add_special_tokens=*/false));
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        SamplingParams own;
        own.choices = {" " + std::to_string((i + t) % 20)};  // of which not all are kept
        const ChoiceContext context{tokenizer, before, ends, vocab_size, max_tokens};
        if (guides.get(own, context)->tokens != make_choice_guide(own, context).tokens) ++num_wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

}  // namespace
}  // namespace mortise
