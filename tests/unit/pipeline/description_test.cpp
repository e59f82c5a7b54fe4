// Covers: runtime/pipeline/table_schemas
#include "pipeline/description.hpp"

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;

PluginCatalog plugins() {
  return PluginCatalog({fs::path(TEST_PLUGIN_DIR) / "good"});
}

TEST(Description, BytesAreNumbersOrTextsWithUnits) {
  EXPECT_EQ(parse_bytes(4096), 4096u);
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("512MiB"), std::uint64_t{512} << 20);
  EXPECT_EQ(parse_bytes("1.5 GiB"), std::uint64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2KiB"), 2048u);
  for (const json& wrong :
       {json("512MB"), json("MiB"), json(""), json("-1"), json(0), json(-5), json("nan"), json("1e3"),
        json("99999999999GiB"), json(true), json(nullptr), json("512MiB "), json(1.5)}) {
    EXPECT_EQ(parse_bytes(wrong), std::nullopt) << wrong;
  }
}

TEST(Description, KvCacheHasDefaultsAndNamesWhatIsWrong) {
  const KvCacheOptions defaults = parse_kv_cache(json::object());
  EXPECT_EQ(defaults.memory_bytes, std::uint64_t{512} << 20);
  EXPECT_EQ(defaults.dtype, KvDtype::kAuto);
  EXPECT_TRUE(defaults.prefix_cache);
  EXPECT_EQ(parse_kv_cache({{"dtype", "int8"}}).dtype, KvDtype::kInt8);
  EXPECT_EQ(parse_kv_cache({{"dtype", "fp8"}}).dtype, KvDtype::kFp8);
  EXPECT_THAT(error_of([] {
                parse_kv_cache({{"memry", 1}});
              }),
              HasSubstr("unknown option 'memry' of kv_cache; did you mean 'memory'?"));
  EXPECT_THAT(error_of([] { parse_kv_cache({{"memory", "lots"}}); }), HasSubstr("\"lots\""));
  EXPECT_THAT(error_of([] { parse_kv_cache({{"dtype", "fp4"}}); }), HasSubstr("one of \"auto\", \"bf16\""));
}

TEST(Description, RejectionImpliesFixedLengths) {
  EXPECT_EQ(parse_speculation(json::object()).lengths, DraftLengths::kAdaptive);
  EXPECT_EQ(parse_speculation({{"verify", "rejection"}}).lengths, DraftLengths::kFixed);
  EXPECT_EQ(parse_speculation({{"lengths", "fixed"}}).verify, Verify::kCoupled);
  EXPECT_THAT(error_of([] {
                parse_speculation({{"verify", "rejection"}, {"lengths", "adaptive"}});
              }),
              HasSubstr("needs lengths = \"fixed\""));
}

TEST(Description, APartByNameServesSwaps) {
  const auto part = make_part(plugins(), PartKind::kAttention, "toy_attention", {{"block_size", 32}}, "/base");
  EXPECT_EQ(part.name, "toy_attention");
  EXPECT_EQ(part.choices.at(0).options.at("block_size"), 32);
  EXPECT_THAT(error_of([] { make_part(plugins(), PartKind::kModel, "toy_attention", json::object(), "/base"); }),
              HasSubstr("model must be a model, but 'toy_attention' is an attention"));
  EXPECT_THAT(error_of([] { make_part(plugins(), PartKind::kModel, "toy_modl", json::object(), "/base"); }),
              HasSubstr("did you mean 'toy_model'?"));
}

TEST(Description, AFileWithSeveralPartsOfAKindIsAskedForByName) {
  const auto found = plugins().find("toy_attention");
  Component other = *found.components.at(0);
  other.name = "other";
  const PartDescription part{"./x.so", "test.lua:3", {{found.components[0], json::object()}, {&other, json::object()}}};
  EXPECT_EQ(error_of([&] { part_of_kind(part, PartKind::kAttention, "attention"); }),
            "test.lua:3: ./x.so has several components of kind attention ('toy_attention', 'other'); put its "
            "folder on MORTISE_PLUGIN_PATH and use the component's name");
}

TEST(Description, RelativePathsAreTakenFromTheFolder) {
  const auto path = [](const std::string& given) {
    return make_part(plugins(), PartKind::kModel, "toy_model", {{"path", given}}, "/base/scripts")
        .choices.at(0)
        .options.at("path")
        .get<std::string>();
  };
  EXPECT_EQ(path("../models/x"), "/base/models/x");
  EXPECT_EQ(path("/abs/x"), "/abs/x");
  EXPECT_EQ(path(""), "");
}

TEST(Description, OptionsOfOneOfSeveralComponentsAreEnough) {
  const auto part = make_part(plugins(), PartKind::kAttention, "twin", {{"right_option", 3}}, "");
  ASSERT_EQ(part.choices.size(), 1u);  // 2: the left twin took an option that it does not have
  EXPECT_EQ(part.choices[0].component->file.filename(), "twin-right.so");
}

TEST(Description, ACheckedPipelineHasCheckedComponentsInAllPlaces) {
  const auto toy = [](PartKind kind, const char* name, const json& options) {
    return make_part(plugins(), kind, name, options, "/base");
  };
  PipelineDescription pipeline{};
  pipeline.device = toy(PartKind::kDevice, "toy_device", json::object());
  pipeline.model = toy(PartKind::kModel, "toy_model", {{"path", "x"}});
  pipeline.attention = toy(PartKind::kAttention, "toy_attention", json::object());
  pipeline.scheduler = toy(PartKind::kScheduler, "toy_scheduler", json::object());
  pipeline.proposers = {toy(PartKind::kProposer, "toy_proposer", json::object())};
  const PipelineDescription plain = pipeline;
  check_calls(pipeline);
  EXPECT_TRUE(same_pipeline(pipeline, plain));  // nobody asked for it
  pipeline.checked = true;
  check_calls(pipeline);
  const PipelineDescription checked = pipeline;
  for (const auto part : {&PipelineDescription::device, &PipelineDescription::model, &PipelineDescription::attention,
                          &PipelineDescription::scheduler}) {
    const Component& component = *(pipeline.*part).choices.at(0).component;
    EXPECT_NE(&component, (plain.*part).choices.at(0).component);
    EXPECT_EQ(component.label(), (plain.*part).choices.at(0).component->label());
  }
  EXPECT_NE(pipeline.proposers.at(0).choices.at(0).component, plain.proposers.at(0).choices.at(0).component);
  check_calls(pipeline);
  EXPECT_TRUE(same_pipeline(pipeline, checked));  // a swap keeps the parts that serve
}

}  // namespace
}  // namespace mortise
