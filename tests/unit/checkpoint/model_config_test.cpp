// Covers: runtime/checkpoint/json_file
#include "checkpoint/model_config.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "folder_test.hpp"

namespace mortise::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelConfigFile : public FolderTest {
 protected:
  ModelConfig read(const std::string& text) const {
    write("config.json", text);
    return read_model_config(folder_, "bfloat16");
  }
  std::string error_for(const std::string& text) const {
    return error_of([&] { read(text); });
  }
};

TEST_F(ModelConfigFile, RopeAndDtypeMeanWhatTransformersReads) {
  const json cases = json::parse(read_file(std::string(MORTISE_SOURCE_DIR) + "/tests/golden/configs.json"));
  ASSERT_GE(cases.size(), 20u);
  for (const json& entry : cases) {
    const json config = json::parse(read(entry["config"].dump()).json);
    json expected = entry["rope_parameters"];
    expected.erase("type");  // transformers keeps the old key beside the new one
    json rope = config.contains("rope_parameters") ? config["rope_parameters"] : json{{"rope_type", "default"}};
    rope.emplace("rope_theta", 10000.0);
    EXPECT_EQ(rope, expected) << entry["config"];
    EXPECT_EQ(config["dtype"], entry["dtype"].is_null() ? json("bfloat16") : entry["dtype"]) << entry["config"];
    for (const char* gone : {"rope_theta", "rope_scaling", "torch_dtype", "partial_rotary_factor"}) {
      EXPECT_FALSE(config.contains(gone)) << entry["config"];
    }
  }
}

TEST_F(ModelConfigFile, WhatIsNotSpelledInTwoWaysPassesThrough) {
  const ModelConfig config = read(
      R"({"model_type":"gemma3_text","head_dim":null,"sliding_window":512,"use_sliding_window":true,
          "max_window_layers":2,"layer_types":["sliding_attention","full_attention"],
          "rope_parameters":{"full_attention":{"type":"linear","factor":8.0},"sliding_attention":{"rope_type":"default"}}})");
  EXPECT_EQ(
      config.json,
      R"({"dtype":"bfloat16","head_dim":null,"layer_types":["sliding_attention","full_attention"],)"
      R"("max_window_layers":2,"model_type":"gemma3_text","rope_parameters":{"full_attention":{"factor":8.0,)"
      R"("type":"linear"},"sliding_attention":{"rope_type":"default"}},"sliding_window":512,"use_sliding_window":true})");
}

TEST_F(ModelConfigFile, AModelWithoutRopeGetsNone) {
  EXPECT_EQ(read(R"({"model_type":"opt"})").json, R"({"dtype":"bfloat16","model_type":"opt"})");
}

TEST_F(ModelConfigFile, TheFieldsOfTheHostAreRead) {
  const ModelConfig config = read(
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":4096,"max_position_embeddings":2048,
          "bos_token_id":1,"eos_token_id":[2,7,2],"torch_dtype":"float16"})");
  EXPECT_THAT(config.architectures, ElementsAre("LlamaForCausalLM"));
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.vocab_size, 4096);
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2, 7));
  EXPECT_EQ(config.dtype, "float16");
}

TEST_F(ModelConfigFile, AbsentAndNullFieldsAreNone) {
  const ModelConfig config = read(R"({"model_type":"llama","vocab_size":null,"eos_token_id":null,"bos_token_id":-1})");
  EXPECT_THAT(config.architectures, IsEmpty());
  EXPECT_EQ(config.vocab_size, std::nullopt);
  EXPECT_EQ(config.max_position_embeddings, std::nullopt);
  EXPECT_EQ(config.bos_token_id, std::nullopt);
  EXPECT_THAT(config.eos_token_ids, IsEmpty());
}

TEST_F(ModelConfigFile, AFieldOfAWrongTypeIsNamedWithItsValue) {
  EXPECT_EQ(error_for(R"({"model_type":"llama","vocab_size":-3})"),
            (folder_ / "config.json").native() + ": vocab_size is '-3'; expected a whole number from 1 to 2147483647");
  EXPECT_THAT(error_for(R"({"model_type":"llama","vocab_size":0})"), HasSubstr("vocab_size is '0'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","vocab_size":2147483648})"), HasSubstr("vocab_size is '2147483648'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","eos_token_id":"</s>"})"), HasSubstr("expected a token id"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","eos_token_id":[2,[3]]})"), HasSubstr("eos_token_id is '[3]'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","eos_token_id":4294967298})"),
              HasSubstr("eos_token_id is 4294967298; that is not a token id"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","rope_scaling":2})"), HasSubstr("rope_scaling is '2'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","rope_scaling":{"type":3}})"), HasSubstr("rope_type is '3'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","rope_theta":"1e4"})"), HasSubstr("rope_theta is"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","dtype":16})"), HasSubstr("dtype is '16'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","architectures":"LlamaForCausalLM"})"), HasSubstr("a list of names"));
  EXPECT_THAT(error_for(R"({"vocab_size":4})"), HasSubstr("model_type is 'null'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","vocab_size":1e30})"), HasSubstr("vocab_size is '1e+30'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","rope_parameters":[]})"), HasSubstr("rope_parameters is '[]'"));
  EXPECT_THAT(error_for(R"({"model_type":"llama","max_position_embeddings":1099511627776})"),
              HasSubstr("max_position_embeddings is '1099511627776'; expected a whole number from 1 to 2147483647"));
}

TEST_F(ModelConfigFile, WhatIsNoJsonObjectIsRefused) {
  EXPECT_THAT(error_for(""), HasSubstr("config.json: not JSON: parse error at line 1"));
  EXPECT_THAT(error_for("{\"a\":"), HasSubstr("download the file again"));
  EXPECT_THAT(error_for("[1]"), HasSubstr("config.json: is a JSON array; expected an object"));
  EXPECT_THAT(error_for("{\"a\":\"\xff\"}"), HasSubstr("parse error"));
  EXPECT_THAT(error_for("{\"a\":" + std::string(100'000, '[')),
              HasSubstr("config.json: JSON is nested deeper than 100 levels"));
}

TEST_F(ModelConfigFile, MoreTokenIdsThanAnyModelHasAreRefused) {
  const auto with_ids = [](int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i == 0 ? "" : ",") + std::to_string(i);
    return R"({"model_type":"llama","eos_token_id":[)" + list + "]}";
  };
  EXPECT_EQ(read(with_ids(1024)).eos_token_ids.size(), 1024u);
  EXPECT_THAT(error_for(with_ids(1025)),
              HasSubstr("config.json: eos_token_id lists 1025 token ids; at most 1024 are allowed"));
}

// What stands in a folder in place of a file must neither be waited for, nor read for ever, nor end in an exception of
// the standard library.
TEST_F(ModelConfigFile, WhatIsNoFileIsRefused) {
  const auto error = [&] { return error_of([&] { read_model_config(folder_, "bfloat16"); }); };
  const std::filesystem::path path = folder_ / "config.json";
  EXPECT_THAT(error(), HasSubstr("config.json: cannot be opened: No such file or directory; download"));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("config.json: is not a file; expected a file of a checkpoint here"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(error(), HasSubstr("config.json: is not a file"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("config.json", path);
  EXPECT_THAT(error(), HasSubstr("config.json: cannot be opened: Too many levels of symbolic links; check"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  EXPECT_THAT(error(), HasSubstr("config.json: is not a file"));
  std::filesystem::remove(path);
  write("config.json", "{");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // sparse: takes no room
  EXPECT_THAT(error(),
              HasSubstr("config.json: 1099511627776 bytes; the limit is 67108864: this is not a file of a checkpoint"));
}

}  // namespace
}  // namespace mortise::test
