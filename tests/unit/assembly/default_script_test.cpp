// Covers: runtime/assembly/default_parts
#include "assembly/default_script.hpp"

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::StartsWith;

class DefaultScript : public testing::Test {
 protected:
  // A copy of the demo's checkpoint.
  fs::path model(const std::string& name) const {
    const fs::path folder = dir_.path() / name;
    fs::create_directories(folder);
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
      fs::copy_file(fs::path(MORTISE_SOURCE_DIR) / "models/demo" / file, folder / file);
    }
    return folder;
  }
  // A catalog of the files alone that are named.
  PluginCatalog only(std::initializer_list<const char*> files) const {
    const fs::path folder = dir_.path() / "plugins";
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const char* file : files) fs::copy_file(fs::path(MORTISE_BINARY_DIR) / file, folder / file);
    return PluginCatalog({folder});
  }
  std::vector<std::string> names(const std::vector<std::string>& folders) const {
    std::vector<std::string> names;
    const PipelineScript script = load_pipelines(folders, all_);
    for (const auto& pipeline : script.pipelines()) names.push_back(pipeline.name);
    return names;
  }

  TempFolder dir_;
  PluginCatalog all_{{MORTISE_BINARY_DIR}};
};

TEST_F(DefaultScript, SeveralFoldersArePipelinesWithUniqueNames) {
  const std::string a = model("x/A-1.5B"), b = model("B"), other = model("y/A-1.5B");
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({a}), Names{"A-1.5B"});
  EXPECT_EQ(names({b, a}), (Names{"B", "A-1.5B"}));  // the first is the default
  EXPECT_EQ(names({a + "/", other, b}), (Names{"x/A-1.5B", "y/A-1.5B", "B"}));
  EXPECT_THAT(error_of([&] { names({a, a + "/."}); }), HasSubstr("A-1.5B: is given twice; give each checkpoint once"));
  write_text(dir_.path() / "p.lua", "return 1");
  EXPECT_THAT(error_of([&] {
                names({a, dir_.path() / "p.lua"});
              }),
              HasSubstr("p.lua: is no checkpoint (a folder, or a GGUF file); give one script, or only checkpoints"));
}

TEST_F(DefaultScript, PathsOfAnyLettersAreWrittenAsLuaReadsThem) {
  const std::string folder = model("it's a \"model\" \\ \n ü");
  const PipelineScript script = load_pipelines({&folder, 1}, all_);
  EXPECT_EQ(script.pipelines()[0].model.choices[0].options.at("path"), folder);
}

TEST_F(DefaultScript, PartsThatAreNotInstalledAreReplacedOrLeftOut) {
  const fs::path folder = model("m");
  const std::string text = default_script({&folder, 1}, only({"cpu.so", "llama.so", "paged-cpu.so", "fcfs.so"}));
  EXPECT_THAT(text, testing::AllOf(HasSubstr("attention = paged {"), HasSubstr("scheduler = fcfs {"),
                                   HasSubstr("device    = cpu {}"), testing::Not(HasSubstr("proposer"))));
  const auto failure = [&](const PluginCatalog& catalog) {
    return error_of([&] { default_script({&folder, 1}, catalog); });
  };
  EXPECT_THAT(
      failure(only({"cpu.so", "llama.so", "paged-cpu.so"})),
      StartsWith("no scheduler for the default pipeline: none of prefix_group, fcfs is installed and supports"));
  EXPECT_THAT(failure(only({"cpu.so", "llama.so"})), HasSubstr("m: no device can run it; cpu: does not compute in"));
  EXPECT_THAT(failure(only({"llama.so"})), HasSubstr("m: no device can run it; none is installed"));
  EXPECT_THAT(failure(only({"cpu.so"})), HasSubstr("no model plugin supports a checkpoint of model type 'llama' "
                                                   "(LlamaForCausalLM); none is installed"));
}

}  // namespace
}  // namespace mortise
