#include "checkpoint/generation_config.hpp"

#include <gmock/gmock.h>

#include "folder_test.hpp"

namespace mortise::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GenerationConfigFile : public FolderTest {
 protected:
  GenerationConfigFile() {
    config_.bos_token_id = 1;
    config_.eos_token_ids = {2};
  }
  GenerationConfig read(const std::string& text) const {
    write("generation_config.json", text);
    return read_generation_config(folder_, config_);
  }

  ModelConfig config_;
};

TEST_F(GenerationConfigFile, WithoutAFileTheTokenIdsOfTheModelStand) {
  const GenerationConfig config = read_generation_config(folder_, config_);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2));
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_EQ(config.do_sample, std::nullopt);
  EXPECT_EQ(config.temperature, std::nullopt);
}

TEST_F(GenerationConfigFile, EveryFieldIsRead) {
  const GenerationConfig config = read(
      R"({"eos_token_id":[5,6],"bos_token_id":4,"pad_token_id":0,"do_sample":true,"temperature":1,"top_k":20,
          "top_p":0.8,"min_p":0.05,"repetition_penalty":1.05,"transformers_version":"4.46.0"})");
  EXPECT_THAT(config.eos_token_ids, ElementsAre(5, 6));
  EXPECT_EQ(config.bos_token_id, 4);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_EQ(config.do_sample, true);
  EXPECT_EQ(config.temperature, 1.0);
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.top_p, 0.8);
  EXPECT_EQ(config.min_p, 0.05);
  EXPECT_EQ(config.repetition_penalty, 1.05);
}

TEST_F(GenerationConfigFile, AFileWithoutEosLeavesThatOfTheModel) {
  EXPECT_THAT(read(R"({"do_sample":false})").eos_token_ids, ElementsAre(2));
  EXPECT_THAT(read(R"({"eos_token_id":9})").eos_token_ids, ElementsAre(9));
}

TEST_F(GenerationConfigFile, AFieldOfAWrongTypeIsNamed) {
  const auto error_for = [&](const char* text) { return error_of([&] { read(text); }); };
  EXPECT_THAT(error_for(R"({"temperature":"hot"})"), HasSubstr("generation_config.json: temperature is"));
  EXPECT_THAT(error_for(R"({"top_k":2.5})"), HasSubstr("top_k is '2.5'; expected a whole number"));
  EXPECT_THAT(error_for(R"({"top_k":99999999999})"), HasSubstr("expected a whole number from -1 to 2147483647"));
  EXPECT_THAT(error_for(R"({"do_sample":1})"), HasSubstr("expected true or false"));
  EXPECT_THAT(error_for("{"), HasSubstr("generation_config.json: not JSON: parse error"));
}

// Else each request would be refused for a parameter that its author never gave.
TEST_F(GenerationConfigFile, ADefaultThatNoRequestCouldUseIsNamed) {
  const auto error_for = [&](const char* text) { return error_of([&] { read(text); }); };
  EXPECT_THAT(
      error_for(R"({"temperature":-1})"),
      HasSubstr("generation_config.json: temperature is '-1'; expected a number from 0 to 100; correct the file"));
  EXPECT_THAT(error_for(R"({"temperature":1e300})"), HasSubstr("temperature is '1e+300'"));
  EXPECT_THAT(error_for(R"({"top_k":-2})"), HasSubstr("top_k is '-2'; expected a whole number from -1"));
  EXPECT_THAT(error_for(R"({"top_p":0})"), HasSubstr("top_p is '0'; expected a number above 0 to 1"));
  EXPECT_THAT(error_for(R"({"top_p":1e-300})"), HasSubstr("top_p is '1e-300'"));  // 0 as a float
  EXPECT_THAT(error_for(R"({"min_p":1.5})"), HasSubstr("min_p is '1.5'; expected a number from 0 to 1"));
  EXPECT_THAT(error_for(R"({"repetition_penalty":0})"),
              HasSubstr("repetition_penalty is '0'; expected a number above 0"));
  EXPECT_THAT(error_for(R"({"eos_token_id":[2,"x"]})"), HasSubstr("eos_token_id is '\"x\"'; expected a token id"));
  EXPECT_EQ(read(R"({"temperature":0,"top_k":-1,"top_p":1,"min_p":0})").top_k, -1);
}

TEST_F(GenerationConfigFile, ALoopOfLinksIsNamed) {
  std::filesystem::create_symlink("generation_config.json", folder_ / "generation_config.json");
  EXPECT_THAT(error_of([&] { read_generation_config(folder_, config_); }),
              HasSubstr("generation_config.json: cannot be examined: Too many levels of symbolic links"));
}

}  // namespace
}  // namespace mortise::test
