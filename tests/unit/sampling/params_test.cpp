#include "sampling/params.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "error.hpp"

namespace mortise {
namespace {

struct Case {
  std::function<void(SamplingParams&)> set;
  const char* message;
};

TEST(Validate, NamesTheParameterItsValueAndItsRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases = {
      {[](SamplingParams& p) { p.temperature = -1; }, "temperature is -1; it must be from 0 to 100"},
      {[&](SamplingParams& p) { p.temperature = nan; }, "temperature is nan"},
      {[](SamplingParams& p) { p.top_p = 0; }, "top_p is 0; it must be above 0"},
      {[](SamplingParams& p) { p.top_p = 1.5f; }, "top_p is 1.5"},
      {[](SamplingParams& p) { p.top_k = -2; }, "top_k is -2; it must be at least 1, or 0 or -1 for off"},
      {[](SamplingParams& p) { p.min_p = 2; }, "min_p is 2"},
      {[](SamplingParams& p) { p.repetition_penalty = 0; }, "repetition_penalty is 0"},
      {[](SamplingParams& p) { p.frequency_penalty = 3; }, "frequency_penalty is 3"},
      {[](SamplingParams& p) { p.presence_penalty = -3; }, "presence_penalty is -3"},
      {[](SamplingParams& p) { p.n = 0; }, "n is 0"},
      {[](SamplingParams& p) { p.max_tokens = -1; }, "max_tokens is -1"},
      {[](SamplingParams& p) { p.min_tokens = 17; }, "min_tokens is 17; it must be from 0 to max_tokens (16)"},
      {[](SamplingParams& p) {
         p.logit_bias = {{100, 1.0f}};
       },
       "logit_bias: token id 100 is not in the vocabulary"},
      {[](SamplingParams& p) { p.stop_token_ids = {-1}; }, "stop_token_ids: token id -1"},
      {[](SamplingParams& p) { p.stop = {""}; }, "stop has an empty string"},
      {[](SamplingParams& p) { p.stop.assign(1025, "x"); }, "stop has 1025 texts; at most 1024 are allowed"},
      {[](SamplingParams& p) { p.stop = {std::string(16385, 'x')}; }, "stop has 16385 bytes of text; at most 16384"},
      {[](SamplingParams& p) { p.stop_token_ids.assign(1025, 1); }, "stop_token_ids has 1025 ids; at most 1024"},
      {[](SamplingParams& p) { p.choices = {std::vector<std::int32_t>{}}; }, "choices[0] is empty; leave it out"},
      {[](SamplingParams& p) { p.choices.assign(65537, "x"); }, "choices has 65537 entries; at most 65536 are allowed"},
      {[](SamplingParams& p) { p.choices = {std::string(5'000'000, 'x')}; },
       "choices has 5000000 bytes of texts and token ids"},
      {[](SamplingParams& p) {
         p.choices = {"a", ""};
       },
       "choices[1] is empty; leave it out"},
  };
  for (const Case& test : cases) {
    SamplingParams params;
    test.set(params);
    try {
      validate(params, 100);
      ADD_FAILURE() << "accepted: " << test.message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(test.message));
    }
  }
}

TEST(Validate, TakesTheDefaultsAndTheEdgesOfTheRanges) {
  SamplingParams params;
  validate(params, 1);
  params.top_k = -1;
  params.temperature = 0;
  params.max_tokens = 0;
  params.min_p = 1;
  validate(params, 1);
}

}  // namespace
}  // namespace mortise
