// Covers: runtime/pipeline/{constructors,script_limits}
#include "pipeline/pipeline_script.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class PipelineScriptTest : public testing::Test {
 protected:
  PipelineScript load(const std::string& text) {
    return PipelineScript::from_text(text, "test.lua", dir_.path(), catalog_);
  }
  std::string failure(const std::string& text) {
    return error_of([&] { load(text); });
  }
  // A pipeline of toys with `more` among its keys, e.g. "kv_cache = { memory = 1 }".
  static std::string toys(const std::string& more = "") {
    return "pipeline {\n  device = toy_device {},\n  model = toy_model { path = 'm' },\n  attention = toy_attention "
           "{},\n"
           "  scheduler = toy_scheduler {},\n  " +
           more + "\n}";
  }

  static std::string other_proposer() { return LOOKBACK_DIR "/lookback.so"; }

  TempFolder dir_;
  PluginCatalog catalog_{{fs::path(TEST_PLUGIN_DIR) / "good"}};
};

TEST_F(PipelineScriptTest, DescribesThePartsWithAllOptions) {
  const auto script = load(R"(
    local size = 8 * 4
    return pipeline {
      device    = toy_device {},
      model     = toy_model { path = script_dir .. "/model" },
      attention = toy_attention { block_size = size },
      scheduler = toy_scheduler { max_num_seqs = 3, classes = { "a", "b" } },
      proposer  = toy_proposer {},
      kv_cache  = { memory = "1MiB", dtype = "f32", prefix_cache = false },
      speculation = { verify = "rejection", batch_expansion = true },
    })");
  ASSERT_EQ(script.pipelines().size(), 1u);
  const PipelineDescription& pipeline = script.pipelines()[0];
  EXPECT_EQ(pipeline.name, "test");
  EXPECT_EQ(pipeline.where, "test.lua:3");
  EXPECT_EQ(pipeline.device.name, "toy_device");
  EXPECT_EQ(pipeline.model.where, "test.lua:5");
  EXPECT_EQ(pipeline.model.choices.at(0).options, json({{"path", dir_.path() / "model"}, {"max_model_len", nullptr}}));
  EXPECT_EQ(pipeline.scheduler.choices.at(0).options.at("classes"), json({"a", "b"}));
  EXPECT_EQ(pipeline.scheduler.choices.at(0).options.at("policy"), "arrival");
  ASSERT_EQ(pipeline.proposers.size(), 1u);
  EXPECT_EQ(pipeline.proposers[0].name, "toy_proposer");
  EXPECT_EQ(pipeline.block_size, 32);
  EXPECT_EQ(pipeline.max_num_seqs, 3);
  EXPECT_EQ(pipeline.max_batched_tokens, 2048);
  EXPECT_EQ(pipeline.kv_cache.memory_bytes, 1u << 20);
  EXPECT_EQ(pipeline.kv_cache.dtype, KvDtype::kF32);
  EXPECT_FALSE(pipeline.kv_cache.prefix_cache);
  EXPECT_EQ(pipeline.speculation.verify, Verify::kRejection);
  EXPECT_EQ(pipeline.speculation.lengths, DraftLengths::kFixed);
  EXPECT_TRUE(pipeline.speculation.batch_expansion);
}

TEST_F(PipelineScriptTest, PartsThatAreLeftOutHaveDefaults) {
  const auto script = load("return " + toys());
  EXPECT_TRUE(script.pipelines()[0].proposers.empty());
  EXPECT_EQ(script.pipelines()[0].kv_cache.memory_bytes, std::uint64_t{512} << 20);
  EXPECT_EQ(script.pipelines()[0].speculation.verify, Verify::kCoupled);
}

TEST_F(PipelineScriptTest, AMissingCallNamesTheLineOfThePart) {
  EXPECT_EQ(failure("return pipeline {\n  device = toy_device {},\n  model = toy_model,\n}"),
            "test.lua:3: model of pipeline is toy_model without its options; write toy_model { ... } (the { } are "
            "missing)");
  EXPECT_EQ(failure("local a = toy_device\nlocal p = plugin('" + other_proposer() + "')\nfirst_of { p }"),
            "test.lua:2: item 1 of first_of is plugin(\"" + other_proposer() +
                "\") without its options; write plugin(\"" + other_proposer() +
                "\") { ... } (the { } are missing)");  // not line 3, where it is used
}

TEST_F(PipelineScriptTest, NamesOfLuasLibraryThatAreLeftOutAreExplained) {
  EXPECT_EQ(failure("\nlocal json = require 'json'"),
            "test.lua:2: require is not available in a pipeline script: a pipeline script is one file and loads no "
            "modules; put everything that it needs into this file");
  EXPECT_THAT(failure("debug.getinfo(1)"), StartsWith("test.lua:1: debug is not available in a pipeline script: "));
}

TEST_F(PipelineScriptTest, UnknownVariablesOfFunctionsAreFoundWithoutRunningThem) {
  const auto unknown = [&](const std::string& text) {
    return load(text + "\nreturn " + toys()).unknown_variables(catalog_);
  };
  EXPECT_THAT(unknown("function chat_template(messages) return mesages[1] end"),
              testing::ElementsAre("test.lua:1: unknown variable 'mesages'; did you mean 'messages'?"));
  EXPECT_THAT(unknown("local t = { f = function()\n return function() return tabel.concat({}) end end }"),
              testing::ElementsAre("test.lua:2: unknown variable 'tabel'; did you mean 'table'?"));
  EXPECT_THAT(unknown("local function f() return require('x') end"),
              testing::ElementsAre(HasSubstr("require is not available")));
  // Defined before or after the function, by another one, by its name alone; a plugin; the script's own body.
  EXPECT_THAT(unknown("x = 1\nlocal function f() y = 2 return x + y + z, toy_device, string.rep end\n_G['z'] = 3\n"
                      "if x == 2 then nothing() end"),
              testing::IsEmpty());
}

TEST_F(PipelineScriptTest, AFolderInThePlaceOfAScriptKeepsItsName) {
  const auto name = [&](const char* script) {
    return PipelineScript::from_text("return " + toys(), script, dir_.path(), catalog_).pipelines()[0].name;
  };
  EXPECT_EQ(name("default pipeline of /models/Llama-3.2-1B"), "Llama-3.2-1B");
  EXPECT_EQ(name("scripts/a.b.lua"), "a.b");
}

TEST_F(PipelineScriptTest, FirstOfGivesProposersInOrder) {
  const auto script = load("local other = plugin('" + other_proposer() + "')\nreturn " +
                           toys("proposer = first_of { other {}, toy_proposer {} }"));
  const auto& proposers = script.pipelines()[0].proposers;
  ASSERT_EQ(proposers.size(), 2u);
  EXPECT_EQ(proposers[0].name, "lookback");
  EXPECT_EQ(proposers[1].name, "toy_proposer");
  EXPECT_EQ(load("return " + toys("proposer = first_of { toy_proposer {} }")).pipelines()[0].proposers.size(), 1u);
}

TEST_F(PipelineScriptTest, FirstOfSaysWhatIsWrongWithItsList) {
  const auto refusal = [&](const std::string& list) { return failure("\nlocal p = first_of " + list); };
  constexpr const char* kForm = "first_of { ngram {}, draft_model { path = ... } }";
  EXPECT_EQ(refusal("'ngram'"),
            std::string("test.lua:2: first_of needs a list of proposers, ") + kForm + ", not a string");
  EXPECT_EQ(refusal("{}"), std::string("test.lua:2: first_of has an empty list; give it proposers, ") + kForm);
  EXPECT_EQ(refusal("{ a = toy_proposer {} }"),
            std::string("test.lua:2: first_of needs a list of proposers, ") + kForm + ", without names and gaps");
  EXPECT_EQ(refusal("{ toy_proposer {}, 3 }"),
            "test.lua:2: item 2 of first_of is a number; expected a proposer, <plugin> { ... }");
  EXPECT_EQ(
      refusal("{ toy_proposer }"),
      "test.lua:2: item 1 of first_of is toy_proposer without its options; write toy_proposer { ... } (the { } are "
      "missing)");
  EXPECT_EQ(refusal("{ first_of { toy_proposer {} } }"),
            "test.lua:2: item 1 of first_of is another first_of; expected a proposer, <plugin> { ... }");
  EXPECT_EQ(refusal("{ toy_scheduler {} }"),
            "test.lua:2: item 1 of first_of must be a proposer, but 'toy_scheduler' is a scheduler");
  EXPECT_EQ(refusal("{ toy_proposer {}, toy_proposer {} }"),
            "test.lua:2: first_of has 'toy_proposer' twice; a request chooses a proposer by its name, so give each "
            "plugin once");
  EXPECT_THAT(refusal("{ unpack }"), StartsWith("test.lua:2: unknown plugin 'unpack'; in "));
  EXPECT_THAT(failure("local t = {}\nfor i = 1, 9 do t[i] = toy_proposer {} end\nfirst_of(t)"),
              HasSubstr("test.lua:3: first_of has 9 proposers; at most 8 are allowed"));
  EXPECT_THAT(failure("return " + toys("scheduler = first_of { toy_proposer {} }")),
              HasSubstr("scheduler of pipeline is a userdata; expected a part"));
  EXPECT_THAT(failure("local p = toy_proposer {}\nwhile true do first_of { p } end"),
              HasSubstr("test.lua:2: the script calls first_of more than 1000 times; call it where it is used"));
  auto late = load("local p = toy_proposer {} function chat_template(m) first_of { p } end return " + toys());
  EXPECT_THAT(error_of([&] { late.chat_template(json::array()); }),
              HasSubstr("first_of can only be called while the script loads, not in a callback"));
}

TEST_F(PipelineScriptTest, UnknownOptionNamesLineValueAndTheNearest) {
  EXPECT_EQ(
      failure("local a = 1\nlocal p = toy_attention { blok_size = 16 }"),
      "test.lua:2: unknown option 'blok_size' of attention 'toy_attention'; did you mean 'block_size'? it has one "
      "option: block_size");
}

TEST_F(PipelineScriptTest, WrongValueNamesLineValueAndWhatWasExpected) {
  EXPECT_EQ(
      failure("\n\ntoy_attention {\n  block_size = 'big',\n}"),
      "test.lua:3: option 'block_size' of attention 'toy_attention' is \"big\" (a string); expected an integer from "
      "1 to 256 (tokens per KV block)");
  EXPECT_THAT(
      failure("toy_attention { block_size = print }"),
      AllOf(StartsWith("test.lua:1: "), HasSubstr("a value given to toy_attention holds a function; options are")));
  EXPECT_THAT(failure("toy_attention(16)"), HasSubstr("test.lua:1: toy_attention needs a table of options"));
  EXPECT_THAT(failure("toy_attention { 16 }"), HasSubstr("needs options by name"));
}

TEST_F(PipelineScriptTest, OptionsAreCheckedWhenTheConstructorIsCalled) {
  // Not only when the pipeline is built: the script ends before it.
  EXPECT_THAT(failure("local s = toy_scheduler { policy = 'x' }\nerror('reached')"), HasSubstr("option 'policy'"));
}

TEST_F(PipelineScriptTest, UnknownPluginGetsTheNearest) {
  EXPECT_THAT(failure("\nreturn pipeline { device = toy_devise {} }"),
              StartsWith("test.lua:2: unknown plugin 'toy_devise'; did you mean 'toy_device'?"));
}

TEST_F(PipelineScriptTest, OnlyThePluginsThatAreNamedAreOpened) {
  const TempFolder plugins;
  fs::copy_file(good("lively"), plugins.path() / "lively.so");
  write_text(plugins.path() / "broken.so", "broken");
  const PluginCatalog catalog({plugins.path()});
  const std::string text =
      error_of([&] { PipelineScript::from_text("lively {}\nbroken {}", "test.lua", dir_.path(), catalog); });
  EXPECT_THAT(text, AllOf(StartsWith("test.lua:2: no usable plugin 'broken'"), HasSubstr("is not an ELF file")));
}

TEST_F(PipelineScriptTest, KeysOfPipelineAreChecked) {
  EXPECT_THAT(failure("return " + toys("scheduller = 1")),
              StartsWith("test.lua:1: unknown key 'scheduller' of pipeline; did you mean 'scheduler'?"));
  EXPECT_THAT(failure("return pipeline { device = toy_device {} }"), HasSubstr("pipeline has no model"));
  EXPECT_THAT(failure("return pipeline { device = 'cpu' }"), HasSubstr("device of pipeline is a string"));
  EXPECT_THAT(failure("return pipeline { device = toy_device }"), HasSubstr("the { } are missing"));
  EXPECT_THAT(failure("return pipeline { device = toy_scheduler {} }"),
              HasSubstr("device must be a device, but 'toy_scheduler' is a scheduler"));
  EXPECT_THAT(failure("return pipeline { toy_device {} }"), HasSubstr("needs parts by name"));
  EXPECT_THAT(failure("return pipeline(3)"), HasSubstr("pipeline needs a table"));
  EXPECT_THAT(failure("return " + toys("kv_cache = { memory = 'big' }")),
              StartsWith("test.lua:1: option 'memory' of kv_cache is \"big\""));
  EXPECT_THAT(failure("return " + toys("kv_cache = 512")),
              HasSubstr("kv_cache of pipeline is 512 (a whole number); expected a table, kv_cache = { ... }"));
  EXPECT_THAT(failure("return " + toys("speculation = { verify = 'maybe' }")),
              HasSubstr("option 'verify' of speculation"));
}

TEST_F(PipelineScriptTest, APartThatDoesNotSupportTheDeviceSaysWhy) {
  EXPECT_THAT(failure("return pipeline { device = toy_device {}, model = toy_model { path = 'm' },\n"
                      "  attention = twin {}, scheduler = toy_scheduler {} }"),
              AllOf(StartsWith("test.lua:2: attention 'twin' cannot serve this pipeline"),
                    HasSubstr("twin-left.so: this twin needs left_device"), HasSubstr("twin-right.so")));
}

TEST_F(PipelineScriptTest, WhatAScriptReturnsIsChecked) {
  EXPECT_THAT(failure("local p = " + toys()), HasSubstr("returns nothing; end it with `return pipeline { ... }`"));
  EXPECT_THAT(failure("return 3"), HasSubstr("returns number"));
  EXPECT_THAT(failure("return {}"), HasSubstr("returns an empty table"));
  EXPECT_THAT(failure("return { 3 }"), HasSubstr("expected pipelines by name"));
  EXPECT_THAT(failure("return toy_device {}"), HasSubstr("returns userdata"));
}

TEST_F(PipelineScriptTest, OfNamedPipelinesTheFirstMadeIsTheDefault) {
  const auto names = [](const PipelineScript& script) {
    std::vector<std::string> names;
    for (const auto& pipeline : script.pipelines()) names.push_back(pipeline.name);
    return names;
  };
  EXPECT_THAT(names(load("return { zebra = " + toys() + ", ant = " + toys() + " }")),
              testing::ElementsAre("zebra", "ant"));
  EXPECT_THAT(names(load("return { zebra = " + toys() + ", default = " + toys() + " }")),
              testing::ElementsAre("default", "zebra"));
}

TEST_F(PipelineScriptTest, PluginFilesAreTakenFromTheScriptsFolder) {
  fs::create_directory(dir_.path() / "own");
  fs::copy_file(good("lively"), dir_.path() / "own" / "policy.so");
  const auto script = load(
      "return pipeline { device = toy_device {}, model = toy_model { path = 'm' },\n"
      "attention = toy_attention {}, scheduler = plugin('./own/policy.so') { fail_in = 'x' } }");
  const PartDescription& scheduler = script.pipelines()[0].scheduler;
  EXPECT_EQ(scheduler.name, "lively");
  EXPECT_EQ(scheduler.choices.at(0).component->file, dir_.path() / "own" / "policy.so");
  EXPECT_EQ(scheduler.choices.at(0).options.at("fail_in"), "x");
  EXPECT_THAT(failure("\nplugin('./missing.so') {}"),
              AllOf(StartsWith("test.lua:2: "), HasSubstr("missing.so: no such file")));
  EXPECT_THAT(failure("plugin {}"), HasSubstr("plugin needs the name of a file"));
  EXPECT_THAT(failure("plugin('./own/policy.so') { x = 1 }"), HasSubstr("unknown option 'x' of scheduler 'lively'"));
}

// The SHA-256 of a file, as the message about a wrong pin tells it.
std::string sha256_of(const fs::path& file) {
  const std::string text = error_of([&] { load_pinned_plugin_file(file, std::string(64, '0')); });
  return text.substr(text.find("SHA-256 ") + 8, 64);
}

TEST_F(PipelineScriptTest, APinnedPluginIsTakenByNameOrFileIfItsHashIsThePin) {
  fs::copy_file(good("lively"), dir_.path() / "policy.so");
  const std::string pin = "sha256 = '" + sha256_of(good("lively")) + "' }";
  const std::string start =
      "return pipeline { device = toy_device {}, model = toy_model { path = 'm' }, attention = toy_attention {},\n"
      "scheduler = plugin { ";
  const auto by_name = load(start + "'lively', " + pin + " { fail_in = 'x' } }");
  EXPECT_EQ(by_name.pipelines()[0].scheduler.choices.at(0).component->file, good("lively"));
  EXPECT_EQ(by_name.pipelines()[0].scheduler.choices.at(0).options.at("fail_in"), "x");
  const auto by_file = load(start + "'./policy.so', " + pin + " {} }");
  EXPECT_EQ(by_file.pipelines()[0].scheduler.choices.at(0).component->file, dir_.path() / "policy.so");
  EXPECT_THAT(failure(start + "'lively', " + pin + " }"), HasSubstr("(the { } are missing)"));
}

TEST_F(PipelineScriptTest, APinThatDoesNotMatchIsRefusedWithBothHashes) {
  fs::copy_file(good("lively"), dir_.path() / "policy.so");
  const std::string actual = sha256_of(good("lively")), other(64, '1'), pin = "sha256 = '" + other + "' } {}";
  for (const std::string name : {"lively", "./policy.so"}) {
    EXPECT_THAT(failure("\nplugin { '" + name + "', " + pin),
                AllOf(StartsWith("test.lua:2: "), HasSubstr("SHA-256 " + actual + ", not the pinned " + other)));
  }
  EXPECT_THAT(failure("plugin { 'absent', " + pin), HasSubstr("no file absent.so or absent-*.so to pin in "));
  EXPECT_THAT(failure("plugin { '', " + pin), HasSubstr("to pin in "));  // loaded: "" would match every file
  EXPECT_THAT(failure("plugin { 'lively', sha256 = 'abc' } {}"), HasSubstr("which is not a SHA-256"));
  EXPECT_THAT(failure("plugin { 'lively', sha256 = '' } {}"),
              HasSubstr("the sha256 of plugin { \"lively\" } is empty"));
  for (const std::string table : {"{ 'lively' }", "{ sha256 = 'x' }", "{ 'lively', sha256 = 3 }",
                                  "{ 'lively', sha265 = 'x' }", "{ 'lively', sha256 = 'x', path = 'y' }"}) {
    EXPECT_THAT(failure("plugin " + table), HasSubstr("or a name and its sha256 and nothing else"));
  }
  fs::create_directory(dir_.path() / "renamed");
  fs::copy_file(good("lively"), dir_.path() / "renamed" / "quiet.so");
  EXPECT_THAT(error_of([&] { PluginCatalog({dir_.path() / "renamed"}).find_pinned("quiet", actual); }),
              HasSubstr("quiet.so: has no part 'quiet'; name the file"));
}

TEST_F(PipelineScriptTest, ChatTemplateGetsTheMessages) {
  auto script = load(
      "function chat_template(messages)\n  local text = ''\n  for _, m in ipairs(messages) do\n"
      "    text = text .. '<' .. m.role .. '>' .. m.content\n  end\n  return text\nend\nreturn " +
      toys());
  EXPECT_EQ(script.chat_template({{{"role", "user"}, {"content", "hi"}}, {{"role", "bot"}, {"content", "ho"}}}),
            "<user>hi<bot>ho");
  EXPECT_THAT(error_of([&] { script.chat_template({{{"role", "user"}}}); }), StartsWith("test.lua:4: "));
  EXPECT_EQ(load("return " + toys()).chat_template(json::array()), std::nullopt);
}

TEST_F(PipelineScriptTest, OnRequestSetsPriorityGroupAndProposer) {
  auto script = load(
      "function on_request(request)\n  if request.user == 'vip' then\n"
      "    return { priority = -1, group = 'g', proposer = 'none', max_draft_tokens = 3 }\n  end\n"
      "  if request.user == 'bad' then return { priority = 'high' } end\n"
      "  if request.user == 'odd' then return { prio = 1 } end\nend\nreturn " +
      toys());
  const auto route = script.on_request({{"user", "vip"}}).value();
  EXPECT_EQ(route.priority, -1);
  EXPECT_EQ(route.group, "g");
  EXPECT_EQ(route.proposer, "none");
  EXPECT_EQ(route.max_drafts, 3);
  EXPECT_EQ(script.on_request({{"user", "x"}}).value().priority, std::nullopt);
  EXPECT_THAT(error_of([&] {
                script.on_request({{"user", "bad"}});
              }),
              HasSubstr("on_request returned priority = \"high\" (a string); expected a whole number"));
  EXPECT_THAT(
      error_of([&] {
        script.on_request({{"user", "odd"}});
      }),
      HasSubstr(
          "on_request returned the unknown key 'prio'; it may set priority, group, proposer and max_draft_tokens"));
  EXPECT_EQ(load("return " + toys()).on_request(json::object()), std::nullopt);
  auto wrong = load("function on_request() return 7 end return " + toys());
  EXPECT_EQ(
      error_of([&] { wrong.on_request(json::object()); }),
      "test.lua: on_request returned 7 (a whole number); expected nil or a table with priority, group, proposer or "
      "max_draft_tokens");
}

TEST_F(PipelineScriptTest, CallbacksAreLimitedAndSurviveTheirErrors) {
  auto script = load(
      "function chat_template(m)\n  if #m == 0 then while true do end end\n"
      "  if #m == 1 then return 7 .. '' end\n  if #m == 2 then return nil end\n  return undefined\nend\n"
      "return " +
      toys());
  EXPECT_THAT(error_of([&] { script.chat_template(json::array()); }), HasSubstr("instructions"));
  EXPECT_EQ(script.chat_template({1}), "7");
  EXPECT_THAT(error_of([&] { script.chat_template({1, 2}); }), HasSubstr("chat_template returned a nil"));
  EXPECT_THAT(error_of([&] {
                script.chat_template({1, 2, 3});
              }),
              StartsWith("test.lua:5: unknown variable 'undefined'"));
}

// A limit on instructions or time cannot end it: both are looked at between instructions, and find is one.
TEST_F(PipelineScriptTest, ACallbackWhosePatternBacktracksIsAbandoned) {
  const ScriptLimits limits{.callback_wait = std::chrono::milliseconds(50)};
  auto script = PipelineScript::from_text(
      "function chat_template(messages) return #messages == 0 and 'none' or ('a'):rep(100):find(('.-'):rep(20) .. 'b') "
      "end\nreturn " +
          toys(),
      "test.lua", dir_.path(), catalog_, limits);
  EXPECT_EQ(script.chat_template(json::array()), "none");
  EXPECT_THAT(error_of([&] { script.chat_template({1}); }),
              StartsWith("test.lua: chat_template did not return within 0.05 s and was abandoned"));
  EXPECT_THAT(error_of([&] { script.chat_template(json::array()); }),
              HasSubstr("which was abandoned, has not returned"));
}

TEST_F(PipelineScriptTest, WhatTheScriptDefinedWhenItHasRunIsCalledBack) {
  auto script = load("function chat_template() on_request = print return 'x' end\nreturn " + toys());
  EXPECT_EQ(script.chat_template(json::array()), "x");
  EXPECT_EQ(script.on_request(json::object()), std::nullopt);
}

TEST_F(PipelineScriptTest, CallbacksCannotMakeParts) {
  auto script = load("local make = toy_device\nfunction chat_template(m) return make {} end\nreturn " + toys());
  EXPECT_THAT(error_of([&] { script.chat_template(json::array()); }),
              HasSubstr("toy_device can only be made while the script loads, not in a callback"));
  auto file = load("function chat_template(m) plugin('x.so') end return " + toys());
  EXPECT_THAT(error_of([&] { file.chat_template(json::array()); }),
              HasSubstr("plugin can only be called while the script loads, not in a callback"));
  auto whole = load("function chat_template(m) pipeline {} end return " + toys());
  EXPECT_THAT(error_of([&] { whole.chat_template(json::array()); }),
              HasSubstr("pipeline can only be called while the script loads, not in a callback"));
}

TEST_F(PipelineScriptTest, ScriptsAreRefusedWithTheirName) {
  const auto load_file = [&](const fs::path& file) { return error_of([&] { PipelineScript::load(file, catalog_); }); };
  EXPECT_THAT(load_file(dir_.path() / "none.lua"), HasSubstr("none.lua: no such script"));
  EXPECT_THAT(load_file(dir_.path()), HasSubstr("is not a file; name the script in it"));
  ASSERT_EQ(::mkfifo((dir_.path() / "pipe.lua").c_str(), 0600), 0);
  EXPECT_THAT(load_file(dir_.path() / "pipe.lua"), HasSubstr("is not a file"));  // a hang: it was opened
  fs::create_symlink("loop.lua", dir_.path() / "loop.lua");
  EXPECT_THAT(load_file(dir_.path() / "loop.lua"), HasSubstr("cannot be examined: Too many levels of symbolic links"));
  if (::geteuid() != 0) {  // root reads everything
    write_text(dir_.path() / "secret.lua", "return");
    fs::permissions(dir_.path() / "secret.lua", fs::perms::none);
    EXPECT_THAT(load_file(dir_.path() / "secret.lua"), HasSubstr("secret.lua: cannot be read; check its permissions"));
  }
  write_text(dir_.path() / "large.lua", "return");
  fs::resize_file(dir_.path() / "large.lua", std::uintmax_t{1} << 40);  // sparse: takes no room
  EXPECT_THAT(load_file(dir_.path() / "large.lua"), HasSubstr("is larger than 1 MiB; is it a Lua script?"));
  write_text(dir_.path() / "broken.lua", "return pipeline {\n  device = \n}");
  EXPECT_THAT(load_file(dir_.path() / "broken.lua"), HasSubstr("broken.lua:3: unexpected symbol near '}'"));
  write_text(dir_.path() / "binary.lua", "\x1bLua");
  EXPECT_THAT(load_file(dir_.path() / "binary.lua"), HasSubstr("attempt to load a binary chunk"));
}

// Parts and pipelines are kept outside of Lua's memory.
TEST_F(PipelineScriptTest, LoopsThatMakePartsEnd) {
  EXPECT_THAT(failure("while true do\n  toy_scheduler {}\nend"),
              StartsWith("test.lua:2: the script makes more than 1000 parts"));
  EXPECT_THAT(failure("local p = { device = toy_device {}, model = toy_model { path = 'm' },\n"
                      "attention = toy_attention {}, scheduler = toy_scheduler {} }\nwhile true do pipeline(p) end"),
              StartsWith("test.lua:3: more than 100 pipelines; make fewer"));
  EXPECT_THAT(failure("local p = " + toys() + "\nlocal t = {} for i = 1, 101 do t['p' .. i] = p end return t"),
              HasSubstr("test.lua: returns more than 100 pipelines; return fewer"));
  fs::copy_file(good("lively"), dir_.path() / "own.so");
  EXPECT_THAT(failure("while true do plugin('own.so') end"), HasSubstr("instructions"));
  EXPECT_THAT(failure("for i = 1, 1e9 do pcall(function() return _G['x' .. i] end) end"), HasSubstr("instructions"));
}

TEST_F(PipelineScriptTest, TheLookUpOfGlobalsIsOutOfReach) {
  EXPECT_EQ(error_of([&] { load("assert(getmetatable(_G) == false)\nreturn " + toys()); }), "");
  EXPECT_THAT(failure("setmetatable(_G, nil)"), HasSubstr("cannot change a protected metatable"));
}

TEST_F(PipelineScriptTest, WhatHasNoLineHasTheScriptsName) {
  EXPECT_THAT(failure("local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end"),
              StartsWith("test.lua: the script needs more than 64 MiB of memory"));
  EXPECT_EQ(failure("error('plain', 0)"), "test.lua: plain");
  EXPECT_EQ(failure("error({})"), "test.lua: an error without a text; call error() with a text");
}

TEST_F(PipelineScriptTest, LimitsCanBeSet) {
  const ScriptLimits limits{.memory_bytes = std::size_t{1} << 20,
                            .load = {1'000'000, std::chrono::seconds(60)},
                            .callback = {2000, std::chrono::seconds(60)}};
  const auto load_limited = [&](const std::string& text) {
    return PipelineScript::from_text(text, "test.lua", dir_.path(), catalog_, limits);
  };
  EXPECT_THAT(error_of([&] { load_limited("for i = 1, 2e6 do end"); }), HasSubstr("more than 1000000 instructions"));
  EXPECT_THAT(error_of([&] { load_limited("local s = ('x'):rep(1 << 20)"); }), HasSubstr("more than 1 MiB of memory"));
  auto script = load_limited("function chat_template() while true do end end return " + toys());
  EXPECT_THAT(error_of([&] { script.chat_template(json::array()); }), HasSubstr("more than 2000 instructions"));
}

TEST_F(PipelineScriptTest, ScriptDirIsAbsolute) {
  write_text(dir_.path() / "x.lua", "assert(script_dir:sub(1, 1) == '/')\nreturn " + toys());
  const fs::path before = fs::current_path();
  fs::current_path(dir_.path());
  EXPECT_EQ(error_of([&] { PipelineScript::load("x.lua", catalog_); }), "");
  fs::current_path(before);
}

}  // namespace
}  // namespace mortise
