// Covers: runtime/sampling/token_info
#include "replay/request_log.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "error.hpp"

namespace mortise {
namespace {

using nlohmann::json;

template <typename T>
json written(const T& value) {
  return json::parse(to_json(value).dump());
}

RecordedRequest full_request() {
  RecordedRequest recorded;
  recorded.id = std::numeric_limits<std::uint64_t>::max();
  recorded.pipeline = "main \"x\"";
  Request& request = recorded.request;
  request.prompt = {5, 0, 7, 2'000'000'000};
  request.sampling.temperature = 0.1f;
  request.sampling.top_p = 0.9f;
  request.sampling.top_k = 40;
  request.sampling.min_p = 0.05f;
  request.sampling.repetition_penalty = 1.1f;
  request.sampling.frequency_penalty = -0.3f;
  request.sampling.presence_penalty = 0.7f;
  request.sampling.logit_bias = {{3, -100.0f}, {1000, 0.1f}};
  request.sampling.seed = std::numeric_limits<std::uint64_t>::max();
  request.sampling.n = 2;
  request.sampling.max_tokens = 100;
  request.sampling.min_tokens = 3;
  request.sampling.ignore_eos = true;
  request.sampling.stop = {"a\nb", "\xe2\x82\xac"};
  request.sampling.stop_token_ids = {9, 8};
  request.sampling.choices = {"yes", "no"};
  request.sampling.skip_special_tokens = false;
  request.logprobs = 2;
  request.score_from = 2;
  request.priority = -7;
  request.speculation = {.proposer = "ngram", .max_tokens = 2};
  request.group = std::uint64_t{1} << 63;
  request.client_id = "mine-1";
  RecordedChoice& choice = recorded.choices.emplace_back();
  choice.prompt = {{7, -1.5f, 1, DraftOutcome::kNone, {{7, -1.5f}, {8, -2.0f}}},
                   {2'000'000'000, -0.1f, 1, DraftOutcome::kNone, {{1, -0.1f}, {2, -0.2f}}}};
  choice.tokens = {{11, -0.1f, 1, DraftOutcome::kNone, {{11, -0.1f}, {12, -3.3f}}}};
  choice.finish = FinishReason::kStop;
  choice.stop_token = 11;
  RecordedChoice& failed = recorded.choices.emplace_back();
  failed.finish = FinishReason::kError;
  failed.error = "step 5 failed";
  return recorded;
}

TEST(RequestLog, AHeaderComesBackAsItWas) {
  const LogHeader header{"main", "Llama", "mortise-1", "a; b", 32000, "00ff"};
  const json line = written(header);
  EXPECT_TRUE(is_log_header(line));
  EXPECT_TRUE(to_json(header).dump().starts_with("{\"mortise_log\":1,"));
  const LogHeader back = read_log_header(line);
  EXPECT_EQ(back.pipeline, header.pipeline);
  EXPECT_EQ(back.model, header.model);
  EXPECT_EQ(back.system_fingerprint, header.system_fingerprint);
  EXPECT_EQ(back.numerics_id, header.numerics_id);
  EXPECT_EQ(back.vocab_size, header.vocab_size);
  EXPECT_EQ(back.vocabulary, header.vocabulary);
}

TEST(RequestLog, EveryFieldOfARequestComesBackAsItWas) {
  const RecordedRequest recorded = full_request();
  const RecordedRequest back = read_recorded_request(written(recorded));
  EXPECT_EQ(back.id, recorded.id);
  EXPECT_EQ(back.pipeline, recorded.pipeline);
  const Request &a = recorded.request, &b = back.request;
  EXPECT_EQ(b.prompt, a.prompt);
  EXPECT_EQ(b.logprobs, a.logprobs);
  EXPECT_EQ(b.score_from, a.score_from);
  EXPECT_EQ(b.priority, a.priority);
  EXPECT_EQ(b.speculation.proposer, a.speculation.proposer);
  EXPECT_EQ(b.speculation.max_tokens, a.speculation.max_tokens);
  EXPECT_EQ(b.group, a.group);
  EXPECT_EQ(b.client_id, a.client_id);
  // Writing it again gives the same text, so every sampling field was read back, whichever fields there are.
  EXPECT_EQ(to_json(back).dump(), to_json(recorded).dump());
  EXPECT_EQ(b.sampling.temperature, a.sampling.temperature);
  EXPECT_EQ(b.sampling.logit_bias, a.sampling.logit_bias);
  EXPECT_EQ(b.sampling.seed, a.sampling.seed);
  EXPECT_EQ(b.sampling.stop, a.sampling.stop);
  EXPECT_EQ(b.sampling.choices, a.sampling.choices);
  ASSERT_EQ(back.choices.size(), 2u);
  EXPECT_EQ(back.choices[0].prompt[1].id, 2'000'000'000);
  EXPECT_EQ(back.choices[0].prompt[0].top, recorded.choices[0].prompt[0].top);
  EXPECT_EQ(back.choices[0].tokens[0].id, 11);
  EXPECT_EQ(back.choices[0].tokens[0].logprob, -0.1f);
  EXPECT_EQ(back.choices[0].tokens[0].top, recorded.choices[0].tokens[0].top);
  EXPECT_EQ(back.choices[0].stop_token, 11);
  EXPECT_EQ(back.choices[1].finish, FinishReason::kError);
  EXPECT_EQ(back.choices[1].error, "step 5 failed");
}

TEST(RequestLog, ADefaultRequestComesBackToo) {
  RecordedRequest recorded;
  recorded.request.prompt = {1};
  recorded.request.sampling.seed = 0;
  recorded.choices.emplace_back().finish = FinishReason::kLength;
  const RecordedRequest back = read_recorded_request(written(recorded));
  EXPECT_EQ(back.request.logprobs, std::nullopt);
  EXPECT_EQ(back.request.score_from, std::nullopt);
  EXPECT_EQ(back.request.sampling.seed, 0u);
  EXPECT_EQ(to_json(back).dump(), to_json(recorded).dump());
}

TEST(RequestLog, LogProbabilitiesKeepEveryBit) {
  RecordedRequest recorded;
  recorded.request.prompt = {1};
  recorded.request.sampling.seed = 1;
  RecordedChoice& choice = recorded.choices.emplace_back();
  choice.finish = FinishReason::kLength;
  std::mt19937 random(11);
  std::vector<std::uint32_t> bits = {0x80000000u, 0x00000000u, 0x00000001u, 0x80000001u, 0x7f7fffffu, 0xff7fffffu,
                                     0xff800000u, 0x7f800000u, 0x7fc00000u, 0xffc12345u, 0x007fffffu, 0xbdcccccdu};
  for (int i = 0; i < 20'000; ++i) bits.push_back(static_cast<std::uint32_t>(random()));
  for (std::uint32_t value : bits) choice.tokens.push_back({1, std::bit_cast<float>(value), 1, {}});
  const RecordedRequest back = read_recorded_request(written(recorded));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto back_bits = std::bit_cast<std::uint32_t>(back.choices[0].tokens[i].logprob);
    // Signalling NaNs become quiet ones when they pass a register; no log probability is one.
    if (!std::isnan(std::bit_cast<float>(bits[i]))) {
      EXPECT_EQ(back_bits, bits[i]);
    } else {
      EXPECT_EQ(back_bits | 0x00400000u, bits[i] | 0x00400000u);
    }
  }
}

TEST(RequestLog, ExactTextHasTheDigitsAndTheBits) {
  EXPECT_EQ(exact_text(-1.25f), "-1.25 (0xbfa00000)");
  EXPECT_EQ(exact_text(-0.1f), "-0.1 (0xbdcccccd)");
  EXPECT_EQ(exact_text(std::nextafter(-0.1f, 0.0f)), "-0.099999994 (0xbdcccccc)");
  EXPECT_EQ(exact_text(-std::numeric_limits<float>::infinity()), "-inf (0xff800000)");
}

std::string error_of(const json& line, bool header) {
  try {
    if (header) {
      read_log_header(line);
    } else {
      read_recorded_request(line);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RequestLog, EachMissingFieldIsNamed) {
  const json header = written(LogHeader{"main", "m", "f", "n", 1, "v"});
  for (const char* name :
       {"mortise_log", "pipeline", "model", "system_fingerprint", "numerics_id", "vocab_size", "vocabulary"}) {
    json line = header;
    line.erase(name);
    EXPECT_EQ(error_of(line, true), std::string(name) + " is missing");
  }
  const json request = written(full_request());
  for (const char* name : {"request", "pipeline", "prompt", "sampling", "choices"}) {
    json line = request;
    line.erase(name);
    EXPECT_EQ(error_of(line, false), std::string(name) + " is missing");
  }
  for (const char* name : {"finish_reason", "token_logprobs"}) {
    json line = request;
    line["choices"][0].erase(name);
    EXPECT_EQ(error_of(line, false), std::string(name) + " is missing");
  }
}

TEST(RequestLog, AnotherVersionIsRefusedWithBothNumbers) {
  json line = written(LogHeader{"main", "m", "f", "n", 1, "v"});
  line["mortise_log"] = 2;
  EXPECT_EQ(error_of(line, true), "mortise_log is 2; this program reads version 1");
}

// Every value replaced by something else: an error or not, never a crash.
TEST(RequestLog, MutatedLinesAreReadOrRefused) {
  const json good = written(full_request());
  std::mt19937 random(5);
  const std::vector<json> values = {nullptr,        true,   -1,    0,           1e300, "text", json::array(),
                                    json::object(), {1, 2}, {{1}}, {{"a", {}}}, 0.5,   "0x",   INT64_MIN};
  const json flat = good.flatten();
  int num_refused = 0, num_runs = 0;
  for (const auto& [pointer, old] : flat.items()) {
    for (const json& value : values) {
      json line = good;
      line[json::json_pointer(pointer)] = value;
      num_refused += error_of(line, false) == "no error" ? 0 : 1;
      ++num_runs;
    }
  }
  EXPECT_GT(num_refused, num_runs / 2);
}

}  // namespace
}  // namespace mortise
