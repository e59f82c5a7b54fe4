// Covers: runtime/bench_command/bench
#include "bench_command/script_text.hpp"

#include "bench_command/bench.hpp"
#include "pipeline/pipeline_script.hpp"
#include "test_support.hpp"

namespace mortise::bench {
namespace {

using namespace test;
using testing::HasSubstr;

class BenchScriptText : public testing::Test {
 protected:
  PipelineScript load(const std::string& text) {
    return PipelineScript::from_text(text, "test.lua", dir_.path(), catalog_);
  }
  PipelineScript toys(const std::string& more = "") {
    return load(
        "return pipeline { device = toy_device {}, model = toy_model { path = 'm' }, attention = toy_attention {}, "
        "scheduler = toy_scheduler { classes = { 'a\\\"\\n', 'b' } }, " +
        more + " }");
  }
  std::string changed(const PipelineScript& script, const std::vector<std::string>& texts) {
    std::vector<Setting> settings;
    for (const std::string& text : texts) settings.push_back(parse_setting(text));
    return script_text(script.pipelines().front(), settings, catalog_);
  }

  TempFolder dir_;
  PluginCatalog catalog_{{fs::path(TEST_PLUGIN_DIR) / "good"}};
};

TEST_F(BenchScriptText, AScriptOfAPipelineMakesThatPipeline) {
  const PipelineScript script =
      toys("proposer = toy_proposer {}, kv_cache = { memory = '1MiB', prefix_cache = false }");
  const PipelineScript again = load(changed(script, {}));
  const PipelineDescription &a = script.pipelines().front(), &b = again.pipelines().front();
  EXPECT_EQ(a.model.choices.front().options, b.model.choices.front().options);
  EXPECT_EQ(a.scheduler.choices.front().options, b.scheduler.choices.front().options);
  EXPECT_EQ(b.scheduler.choices.front().options.at("classes").at(0), "a\"\n");
  EXPECT_EQ(b.proposers.at(0).name, "toy_proposer");
  EXPECT_EQ(b.kv_cache.memory_bytes, 1u << 20);
  EXPECT_FALSE(b.kv_cache.prefix_cache);
  EXPECT_EQ(b.speculation.verify, Verify::kCoupled);
}

TEST_F(BenchScriptText, SettingsChangeOptionsAndTheirTypes) {
  const PipelineScript script =
      load(changed(toys(), {"scheduler.max_num_seqs=3", "scheduler.policy=shortest", "attention.block_size=32",
                            "kv_cache.memory=2MiB", "kv_cache.prefix_cache=false", "scheduler.weight=0.25",
                            "model.path=/a=b.c", "scheduler.classes=[\"c\", \"d\"]"}));
  const PipelineDescription& pipeline = script.pipelines().front();
  EXPECT_EQ(pipeline.max_num_seqs, 3);
  EXPECT_EQ(pipeline.block_size, 32);
  EXPECT_EQ(pipeline.scheduler.choices.front().options.at("policy"), "shortest");
  EXPECT_EQ(pipeline.scheduler.choices.front().options.at("weight"), 0.25);
  EXPECT_EQ(pipeline.scheduler.choices.front().options.at("classes"), (nlohmann::json{"c", "d"}));
  EXPECT_EQ(pipeline.model.choices.front().options.at("path"), "/a=b.c");
  EXPECT_EQ(pipeline.kv_cache.memory_bytes, 2u << 20);
  EXPECT_FALSE(pipeline.kv_cache.prefix_cache);
}

TEST_F(BenchScriptText, APartThatNoNameLeadsToIsNamedByItsFile) {
  const PluginCatalog elsewhere({dir_.path()});
  const std::string text = script_text(toys().pipelines().front(), {}, elsewhere);
  EXPECT_THAT(text, HasSubstr("plugin(\"" + fs::path(TEST_PLUGIN_DIR).string()));
}

TEST_F(BenchScriptText, UnknownOptionsAreRefusedAsInScripts) {
  EXPECT_THAT(error_of([&] { load(changed(toys(), {"scheduler.colour=3"})); }), HasSubstr("colour"));
  EXPECT_THAT(error_of([&] { load(changed(toys(), {"kv_cache.memory=none"})); }),
              HasSubstr("option 'memory' of kv_cache is"));
  EXPECT_EQ(error_of([&] { changed(toys(), {"proposer.max_tokens=3"}); }),
            "proposer.max_tokens: the pipeline has no proposer; use a script that has one");
}

TEST(BenchSetting, WhatIsNoSettingIsToldWhatOneLooksLike) {
  for (const char* text : {"threads=1", "device.threads", "device.=1", ".threads=1", "x=a.b", ""}) {
    EXPECT_EQ(error_of([&] { parse_setting(text); }),
              std::string(text) +
                  ": not a setting; write PART.OPTION=VALUE, such as device.threads=1 or kv_cache.memory=1GiB");
  }
  EXPECT_EQ(error_of([] { parse_setting("gpu.threads=1"); }),
            "gpu.threads=1: there is no part gpu; a setting belongs to device, model, attention, scheduler, proposer "
            "or kv_cache");
}

TEST(BenchOptionsTest, OptionsThatDoNotGoTogetherAreRefused) {
  BenchOptions limits;
  limits.scenario = "limits";
  limits.shape = "tiny";
  EXPECT_EQ(
      error_of([&] { run_bench(limits); }),
      "bench limits: measures only the machine or the device of a script; leave out --shape, --set, --against and "
      "--trace");
  BenchOptions unknown;
  unknown.scenario = "speed";
  EXPECT_EQ(error_of([&] { run_bench(unknown); }), "bench speed: no such scenario");
  BenchOptions startup;
  startup.scenario = "startup";
  startup.trace = "t.json";
  EXPECT_EQ(error_of([&] { run_bench(startup); }),
            "bench startup: runs in other processes, which --trace cannot follow; leave it out");
  BenchOptions pairs;
  pairs.scenario = "decode";
  pairs.against = {"a.lua", "b.lua"};
  EXPECT_EQ(error_of([&] { run_bench(pairs); }), "--against: names 2 scripts; give one, or settings PART.OPTION=VALUE");
  pairs.against = {"device.threads=1"};
  pairs.repeats = 201;
  EXPECT_EQ(error_of([&] { run_bench(pairs); }), "--repeats 201: at most 200 pairs");
}

}  // namespace
}  // namespace mortise::bench
