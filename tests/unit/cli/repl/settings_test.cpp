#include "cli/repl/settings.hpp"

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;
using Json = nlohmann::json;

Settings settings(Json fields = Json::object()) {
  SamplingParams defaults;
  defaults.temperature = 0.7f;
  defaults.max_tokens = 256;
  return Settings(std::move(fields), defaults, /*vocab_size=*/100);
}

TEST(Settings, ValuesAreJson) {
  Settings s = settings();
  s.set("temperature", "0.25");
  s.set("max_tokens", "7");
  s.set("ignore_eos", "true");
  s.set("stop_token_ids", "[1, 2]");
  s.set("logit_bias", R"({"3": -100})");
  const SamplingParams params = s.params();
  EXPECT_EQ(params.temperature, 0.25f);
  EXPECT_EQ(params.max_tokens, 7);
  EXPECT_TRUE(params.ignore_eos);
  EXPECT_EQ(params.stop_token_ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(params.logit_bias.at(3), -100.0f);
}

TEST(Settings, StopTakesPlainText) {
  Settings s = settings();
  for (const auto& [text, stop] : std::vector<std::pair<std::string, std::string>>{
           {"The end.", "The end."}, {"42", "42"}, {"\"\\n\"", "\n"}, {"\"default\"", "default"}, {"null", "null"}}) {
    s.set("stop", text);
    EXPECT_EQ(s.params().stop, std::vector<std::string>{stop}) << text;
  }
  s.set("stop", R"(["a", "b"])");
  EXPECT_EQ(s.params().stop.size(), 2u);
}

TEST(Settings, ChoicesAreAList) {
  Settings s = settings();
  s.set("choices", R"(["yes", "no"])");
  EXPECT_EQ(s.params().choices, (std::vector<GuidedChoice>{"yes", "no"}));
  EXPECT_EQ(error_of([&] { s.set("choices", "yes"); }),
            "choices: expected a list of texts and lists of token ids, got \"yes\"");
}

TEST(Settings, DefaultUnsets) {
  Settings s = settings({{"temperature", 0}, {"seed", 5}});
  EXPECT_EQ(s.params().temperature, 0.0f);
  s.set("temperature", "default");
  EXPECT_EQ(s.params().temperature, 0.7f);  // 1: the model's own value was lost
  s.set("seed", "null");
  EXPECT_FALSE(s.params().seed.has_value());
  EXPECT_TRUE(s.fields().empty());
}

TEST(Settings, SeedsAreWholeAndOf64Bits) {
  Settings s = settings();
  s.set("seed", "18446744073709551615");
  EXPECT_EQ(s.params().seed, 18446744073709551615u);
  s.set("seed", "0");
  EXPECT_EQ(s.params().seed, 0u);
  EXPECT_THAT(error_of([&] { s.set("seed", "1.5"); }), HasSubstr("seed: expected an integer of 64 bits, got 1.5"));
  EXPECT_THAT(error_of([&] { s.set("seed", "x"); }), HasSubstr("seed: expected an integer of 64 bits, got \"x\""));
}

TEST(Settings, AMistakeNamesTheFieldAndChangesNothing) {
  Settings s = settings({{"temperature", 0.5}});
  EXPECT_EQ(error_of([&] { s.set("temperature", "hot"); }), "temperature: expected a number, got \"hot\"");
  EXPECT_EQ(error_of([&] { s.set("top_p", "7"); }), "top_p is 7; it must be above 0 and at most 1");
  EXPECT_EQ(error_of([&] { s.set("ignore_eos", "yes"); }), "ignore_eos: expected true or false, got \"yes\"");
  EXPECT_EQ(error_of([&] { s.set("min_tokens", "300"); }), "min_tokens is 300; it must be from 0 to max_tokens (256)");
  EXPECT_THAT(error_of([&] { s.set("stop_token_ids", "[100]"); }), HasSubstr("token id 100 is not in the vocabulary"));
  EXPECT_EQ(s.fields(), Json({{"temperature", 0.5}}));
}

TEST(Settings, AnUnknownFieldIsToldWithTheNearest) {
  Settings s = settings();
  EXPECT_THAT(error_of([&] { s.set("temprature", "1"); }),
              HasSubstr("unknown field 'temprature'; did you mean 'temperature'? there are temperature, top_p,"));
  EXPECT_THAT(error_of([&] { s.show("zzz"); }), HasSubstr("unknown field 'zzz'; there are temperature"));
}

TEST(Settings, ReplaceTakesAllOrNothing) {
  Settings s = settings({{"temperature", 0.5}});
  EXPECT_NE(error_of([&] { s.replace({{"top_p", 0.9}, {"top_k", "many"}}); }), "");
  EXPECT_NE(error_of([&] { s.replace({{"top_p", 0.9}, {"topk", 1}}); }), "");
  EXPECT_EQ(s.fields(), Json({{"temperature", 0.5}}));
  s.replace({{"top_p", 0.9}});
  EXPECT_EQ(s.params().temperature, 0.7f);
}

TEST(Settings, WrongFlagsOfTheProgramAreRefusedAtOnce) {
  EXPECT_EQ(error_of([] { settings({{"top_p", 7}}); }), "top_p is 7; it must be above 0 and at most 1");
}

TEST(Settings, TheTableMarksWhatIsSetAndShowsFloatsAsWritten) {
  const std::string table = settings({{"top_p", 0.9}}).table();
  EXPECT_THAT(table, HasSubstr("  temperature         0.7  "));
  EXPECT_THAT(table, HasSubstr("* top_p               0.9  "));
  EXPECT_EQ(settings().show("temperature"), "temperature is 0.7 (the default)");
  EXPECT_EQ(settings({{"seed", 3}}).show("seed"), "seed is 3");
}

TEST(Settings, EveryFieldCanBeShownAndUnset) {
  for (const auto& [name, values] : Settings::words()) {
    Settings s = settings();
    EXPECT_THAT(s.table(), HasSubstr(name));
    s.set(name, "default");
    for (const std::string& value : values) s.set(name, value);
  }
}

}  // namespace
}  // namespace mortise
