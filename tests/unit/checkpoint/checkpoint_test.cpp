#include "checkpoint/checkpoint.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "folder_test.hpp"

namespace mortise::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointFolder : public FolderTest {
 protected:
  CheckpointFolder() { write("config.json", R"({"model_type":"llama","eos_token_id":2,"rope_theta":10000.0})"); }

  void write_index(const std::string& weight_map) const {
    write("model.safetensors.index.json", R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
  }
  std::string error() const {
    return error_of([&] { Checkpoint::open(folder_); });
  }
  std::string fingerprint() const { return Checkpoint::open(folder_).fingerprint(); }

  const TensorToWrite a_{"a", "F32", {1}, "aaaa"};
  const TensorToWrite b_{"b", "BF16", {2, 2}, "bbbbbbbb"};
};

TEST_F(CheckpointFolder, OneFileOpens) {
  write("model.safetensors", safetensors_bytes({a_, b_}));
  write("generation_config.json", R"({"eos_token_id":[2,3]})");
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  EXPECT_EQ(checkpoint.path(), folder_);
  EXPECT_EQ(checkpoint.config().model_type, "llama");
  EXPECT_THAT(checkpoint.generation_config().eos_token_ids, ElementsAre(2, 3));
  EXPECT_EQ(checkpoint.tensors().size(), 2u);
  ASSERT_NE(checkpoint.find("b"), nullptr);
  EXPECT_EQ(std::memcmp(checkpoint.find("b")->bytes.data(), "bbbbbbbb", 8), 0);
  EXPECT_EQ(checkpoint.find("c"), nullptr);
}

TEST_F(CheckpointFolder, ADtypeThatTheConfigLacksIsThatOfMostWeights) {
  write("model.safetensors", safetensors_bytes({a_, b_}));
  EXPECT_EQ(Checkpoint::open(folder_).config().dtype, "bfloat16");
}

TEST_F(CheckpointFolder, ShardsGiveTheTensorsThatTheIndexNames) {
  write("model-1.safetensors", safetensors_bytes({a_}));
  write("model-2.safetensors",
        safetensors_bytes({{"a", "F32", {1}, "XXXX"}, b_}));  // an `a` that the index does not mean
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  EXPECT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_EQ(std::memcmp(checkpoint.find("a")->bytes.data(), "aaaa", 4), 0);
  EXPECT_EQ(std::memcmp(checkpoint.find("b")->bytes.data(), "bbbbbbbb", 8), 0);
}

TEST_F(CheckpointFolder, AMissingShardIsNamed) {
  write("model-1.safetensors", safetensors_bytes({a_}));
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  EXPECT_THAT(error(), AllOf(HasSubstr("model-2.safetensors: cannot be opened: No such file"), HasSubstr("download")));
}

TEST_F(CheckpointFolder, ATensorThatItsShardLacksIsNamed) {
  write("model-1.safetensors", safetensors_bytes({a_}));
  write_index(R"({"a":"model-1.safetensors","b":"model-1.safetensors"})");
  EXPECT_THAT(error(), HasSubstr("model-1.safetensors: has no tensor 'b'"));
}

TEST_F(CheckpointFolder, AnIndexCannotLeadOutOfTheFolder) {
  const auto outside = folder_.parent_path() / (folder_.filename().native() + ".safetensors");
  write_file(outside, safetensors_bytes({a_}));
  const std::string relative = "../" + outside.filename().native();
  for (const std::string& shard : {relative, outside.native(), std::string("sub/x.safetensors"), std::string(".."),
                                   std::string("..\\\\x.safetensors"), std::string("x.safetensors\\u0000.safetensors"),
                                   std::string(".hidden.safetensors"), std::string("config.json"), std::string()}) {
    write_index(R"({"a":")" + shard + R"("})");
    EXPECT_THAT(error(), HasSubstr("expected the name of a .safetensors file in the same folder")) << shard;
  }
  std::filesystem::remove(outside);
}

TEST_F(CheckpointFolder, ABrokenIndexIsRefused) {
  write_index("[]");
  EXPECT_THAT(error(), HasSubstr("model.safetensors.index.json: has no weight_map"));
  write_index(R"({"a":1})");
  EXPECT_THAT(error(), HasSubstr("tensor 'a' has no shard; download the file again"));
  write_index("{");
  EXPECT_THAT(error(), HasSubstr("model.safetensors.index.json: not JSON: parse error"));
}

TEST_F(CheckpointFolder, WhatIsMissingIsNamed) {
  EXPECT_THAT(error(), HasSubstr("has no weights (model.safetensors or model.safetensors.index.json)"));
  write("pytorch_model.bin", "x");
  EXPECT_THAT(error(), AllOf(HasSubstr("has 'pytorch_model.bin' but no model.safetensors"),
                             HasSubstr("weights in pickle files (.bin, .pth, .pt) are not supported"),
                             HasSubstr("save_pretrained")));
  std::filesystem::remove(folder_ / "pytorch_model.bin");
  write("model.gguf", "GGUF");
  EXPECT_THAT(error(), AllOf(HasSubstr("is no Hugging Face checkpoint, but has 'model.gguf'"),
                             HasSubstr("give the path of that file")));
  std::filesystem::remove(folder_ / "model.gguf");
  write("model-00001-of-00002.safetensors", safetensors_bytes({a_}));
  EXPECT_THAT(error(), HasSubstr("but neither model.safetensors nor model.safetensors.index.json"));
  std::filesystem::remove(folder_ / "config.json");
  EXPECT_THAT(error(), HasSubstr("has no config.json, so it is not a Hugging Face checkpoint"));
  EXPECT_THAT(error_of([&] { Checkpoint::open(folder_ / "absent"); }),
              HasSubstr("absent: no such folder; give the folder of a Hugging Face checkpoint"));
  EXPECT_THAT(error_of([&] { Checkpoint::open(folder_ / "model-00001-of-00002.safetensors"); }),
              HasSubstr("is a file, but no GGUF file; give the folder of a Hugging Face checkpoint"));
}

TEST_F(CheckpointFolder, ALoopOfLinksIsNamed) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "config.json"}) {
    std::filesystem::remove(folder_ / name);
    std::filesystem::create_symlink(name, folder_ / name);
    EXPECT_THAT(error(), AllOf(HasSubstr(std::string("/") + name + ": cannot be examined: Too many levels"),
                               HasSubstr("check its permissions and links")));
    if (name != std::string("config.json")) std::filesystem::remove(folder_ / name);
  }
}

// Downloaders keep the files elsewhere and link to them.
TEST_F(CheckpointFolder, LinksAreFollowed) {
  std::filesystem::create_directory(folder_ / "blobs");
  write("blobs/abc", safetensors_bytes({a_}));
  std::filesystem::create_symlink("blobs/abc", folder_ / "model.safetensors");
  EXPECT_EQ(Checkpoint::open(folder_).tensors().size(), 1u);
}

TEST_F(CheckpointFolder, TheFingerprintIgnoresShardsAndSpelling) {
  write("model.safetensors", safetensors_bytes({a_, b_}));
  const std::string before = fingerprint();
  EXPECT_EQ(fingerprint(), before);
  std::filesystem::remove(folder_ / "model.safetensors");
  write("model-1.safetensors", safetensors_bytes({b_}));
  write("model-2.safetensors", safetensors_bytes({a_}));
  write_index(R"({"b":"model-1.safetensors","a":"model-2.safetensors"})");
  write("config.json", R"({"eos_token_id":2,"dtype":"bfloat16","transformers_version":"5.0.0","model_type":"llama",
                           "rope_parameters":{"rope_type":"default","rope_theta":10000.0}})");
  EXPECT_EQ(fingerprint(), before);
}

TEST_F(CheckpointFolder, TheFingerprintTellsShapesNamesAndConfigurationsApart) {
  const std::string large(1 << 20, 'w');
  const auto with = [&](const char* name, const char* dtype, std::vector<std::int64_t> shape) {
    write("model.safetensors", safetensors_bytes({{name, dtype, std::move(shape), large}}));
    return fingerprint();
  };
  const std::string before = with("w", "BF16", {512, 1024});
  EXPECT_NE(with("v", "BF16", {512, 1024}), before);
  EXPECT_NE(with("w", "F16", {512, 1024}), before);
  EXPECT_NE(with("w", "BF16", {1024, 512}), before);
  EXPECT_EQ(with("w", "BF16", {512, 1024}), before);
  write("config.json", R"({"model_type":"llama","eos_token_id":2,"rope_theta":20000.0})");
  EXPECT_NE(with("w", "BF16", {512, 1024}), before);
}

// File times do not show a change within the file system's tick, so a checkpoint that is that new has no identity yet.
TEST_F(CheckpointFolder, TheIdentityIsThatOfTheFiles) {
  const std::string large(1 << 20, 'w');
  const auto path = write("model.safetensors", safetensors_bytes({{"w", "BF16", {512, 1024}, large}}));
  const auto tick = [] { std::this_thread::sleep_for(std::chrono::milliseconds(150)); };
  EXPECT_EQ(Checkpoint::open(folder_).identity(), std::nullopt);
  tick();
  const Checkpoint before = Checkpoint::open(folder_);
  ASSERT_NE(before.identity(), std::nullopt);
  EXPECT_EQ(Checkpoint::open(folder_).identity(), before.identity());

  const auto modified = std::filesystem::last_write_time(path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(200000).put('x');
  std::filesystem::last_write_time(path, modified);
  tick();
  const auto changed = Checkpoint::open(folder_).identity();
  EXPECT_NE(changed, before.identity());
  EXPECT_NE(changed, std::nullopt);

  std::filesystem::copy_file(path, folder_ / "copy");
  std::filesystem::rename(folder_ / "copy", path);  // the same bytes
  tick();
  EXPECT_NE(Checkpoint::open(folder_).identity(), changed);
}

// Before the weights are prepared none of them should be waited for.
TEST_F(CheckpointFolder, TheIdentityIsMadeWithoutReadingAWeight) {
  const auto path =
      write("model.safetensors", safetensors_bytes({{"w", "BF16", {512, 1024}, std::string(1 << 20, 'w')}}));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  const auto before = checkpoint.identity();
  ASSERT_NE(before, std::nullopt);
  std::filesystem::resize_file(path, 0);  // whoever touches the mapping now is ended by the system
  EXPECT_EQ(checkpoint.identity(), before);
}

TEST_F(CheckpointFolder, TheIdentityTellsConfigurationsAndTheFilesOfTensorsApart) {
  write("model-1.safetensors", safetensors_bytes({a_, b_}));
  write("model-2.safetensors", safetensors_bytes({a_, b_}));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  const auto before = Checkpoint::open(folder_).identity();
  ASSERT_NE(before, std::nullopt);
  write_index(R"({"a":"model-2.safetensors","b":"model-1.safetensors"})");
  EXPECT_NE(Checkpoint::open(folder_).identity(), before);
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  EXPECT_EQ(Checkpoint::open(folder_).identity(), before);
  write("config.json", R"({"model_type":"llama","eos_token_id":2,"rope_theta":20000.0})");
  EXPECT_NE(Checkpoint::open(folder_).identity(), before);
}

TEST(CheckpointInMemory, HasNoIdentity) {
  EXPECT_EQ(Checkpoint::from_memory("made", {}, {}, nullptr).identity(), std::nullopt);
}

}  // namespace
}  // namespace mortise::test
