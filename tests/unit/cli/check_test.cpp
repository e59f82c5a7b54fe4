#include "test_command.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(CliCheck, ABrokenScriptIsOneErrorLineWithFileAndLine) {
  const TempFolder dir;
  const fs::path script = dir.path() / "broken.lua";
  const auto check = [&](const std::string& text) {
    write_text(script, text);
    return mortise_with_toys("check " + script.string());
  };
  for (const std::string& text : {std::string("return pipeline {"), std::string("toy_attention { blok_size = 1 }"),
                                  std::string("return pipeline { device = toy_device {} }"), std::string("x.y = 1"),
                                  std::string("while true do end"), std::string("")}) {
    const Outcome outcome = check(text);
    EXPECT_EQ(outcome.exit_code, 1) << text;
    EXPECT_TRUE(is_error_line(outcome.err)) << text << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("broken.lua:")) << text;
  }
  const Outcome missing = mortise_with_toys("check " + (dir.path() / "none.lua").string());
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.lua: no such script"));
}

TEST(CliCheck, AMissingCheckpointIsNamed) {
  const TempFolder dir;
  write_text(dir.path() / "p.lua",
             "return pipeline { device = toy_device {}, model = toy_model { path = 'no_model' },\n"
             "attention = toy_attention {}, scheduler = toy_scheduler {} }");
  const Outcome outcome = mortise_with_toys("check " + (dir.path() / "p.lua").string());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr((dir.path() / "no_model").string()));
}

TEST(CliCheck, TheDemoScriptIsFine) {
  ASSERT_TRUE(fs::exists(fs::path(MORTISE_BINARY_DIR) / "fcfs.so")) << "build all targets first";
  const Outcome outcome = run_program(MORTISE, "check " MORTISE_SOURCE_DIR "/scripts/demo.lua");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("pipeline demo\n"), HasSubstr("blocks of 16 tokens in 512 MiB"),
                                 HasSubstr("demo.lua is fine\n")));
}

// A script of the demo's parts, `more` in front of it and `memory` for its KV cache.
std::string demo_script(const std::string& more, const std::string& memory, const std::string& model) {
  return more + "\nreturn pipeline { device = cpu {}, model = llama { path = '" + model +
         "' }, attention = paged {}, scheduler = fcfs {}, kv_cache = { memory = '" + memory + "' } }";
}

TEST(CliCheck, WhatWouldFailOnlyLaterIsFound) {
  ASSERT_TRUE(fs::exists(fs::path(MORTISE_BINARY_DIR) / "fcfs.so")) << "build all targets first";
  const fs::path demo = fs::path(MORTISE_SOURCE_DIR) / "models/demo";
  const TempFolder dir;
  const fs::path script = dir.path() / "p.lua";
  const auto check = [&](const std::string& text) {
    write_text(script, text);
    return run_program(MORTISE, "check " + script.string()).err;
  };
  EXPECT_EQ(check(demo_script("function chat_template(messages)\n  return messages[1].content\nend", "1MiB", demo)),
            "");
  EXPECT_THAT(check(demo_script("function chat_template(messages)\n  return mesages[1].content\nend", "1MiB", demo)),
              HasSubstr("p.lua:2: unknown variable 'mesages'; did you mean 'messages'?"));
  EXPECT_THAT(check(demo_script("", "100000GiB", demo)),
              HasSubstr("p.lua:2: 100000.0 GiB of KV cache and 0.0 GiB of weights do not fit the "));
  const fs::path bare = dir.path() / "bare";
  fs::create_directory(bare);
  for (const char* file : {"config.json", "model.safetensors"}) fs::copy(demo / file, bare / file);
  EXPECT_THAT(check(demo_script("", "1MiB", bare)), HasSubstr("bare: has no tokenizer.json; download it"));
}

TEST(CliCheck, AnUnknownOptionOfARealPluginIsNamedWithItsLine) {
  ASSERT_TRUE(fs::exists(fs::path(MORTISE_BINARY_DIR) / "paged-cpu.so")) << "build all targets first";
  const TempFolder dir;
  write_text(dir.path() / "p.lua", "\nlocal a = paged { blok_size = 16 }");
  const Outcome outcome = run_program(MORTISE, "check " + (dir.path() / "p.lua").string());
  EXPECT_THAT(outcome.err,
              HasSubstr("p.lua:2: unknown option 'blok_size' of attention 'paged'; did you mean 'block_size'?"));
}

}  // namespace
}  // namespace mortise
