#include "cli/repl/dialogue.hpp"

#include <sys/stat.h>

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

SavedDialogue example() {
  SavedDialogue saved;
  saved.model = "demo";
  saved.system_fingerprint = "mortise-1";
  saved.settings = {{"temperature", 0.7}, {"stop", {"a\n"}}};
  saved.dialogue.mode = Mode::kChat;
  saved.dialogue.messages = {{{"role", "user"}, {"content", "Hé \"you\"\n\x01"}},
                             {{"role", "assistant"}, {"content", ""}}};
  saved.dialogue.add({"Once", " upon", "stop", 18446744073709551615u});
  return saved;
}

std::string file_text(const fs::path& path) {
  const auto bytes = test::read_bytes(path);
  return {bytes.begin(), bytes.end()};
}

TEST(Dialogue, ComesBackAsItWas) {
  const SavedDialogue saved = example();
  const SavedDialogue back = parse_dialogue(to_text(saved), "x.json");
  EXPECT_EQ(back.dialogue.mode, Mode::kChat);
  EXPECT_EQ(back.dialogue.messages, saved.dialogue.messages);
  EXPECT_EQ(back.settings, saved.settings);
  EXPECT_EQ(back.model, "demo");
  EXPECT_EQ(back.system_fingerprint, "mortise-1");
  ASSERT_EQ(back.dialogue.completions.size(), 1u);
  EXPECT_EQ(back.dialogue.completions[0].seed, 18446744073709551615u);
  EXPECT_EQ(back.dialogue.completions[0].text, " upon");
}

TEST(Dialogue, TheFileIsMadeToBeRead) {
  const std::string text = to_text(example());
  EXPECT_THAT(text, StartsWith("{\n  \"format\": \"mortise dialogue 1\",\n  \"model\": \"demo\","));
  EXPECT_THAT(text, HasSubstr("\"role\": \"user\",\n      \"content\": \"Hé"));
}

TEST(Dialogue, KeepsTheLastCompletionsOnly) {
  Dialogue dialogue;
  for (std::size_t i = 0; i < Dialogue::kMaxCompletions + 5; ++i) dialogue.add({std::to_string(i), "", "stop", i});
  EXPECT_EQ(dialogue.completions.size(), Dialogue::kMaxCompletions);
  EXPECT_EQ(dialogue.completions.front().prompt, "5");
}

// What is wrong with a file that differs from a good one by `change`.
std::string refusal(const std::function<void(Json&)>& change) {
  Json json = Json::parse(to_text(example()));
  change(json);
  return error_of([&] { parse_dialogue(json.dump(), "x.json"); });
}

TEST(Dialogue, AWrongFieldIsNamed) {
  EXPECT_EQ(refusal([](Json& j) { j["mode"] = "talk"; }), "x.json: mode is 'talk'; expected one of chat, complete");
  EXPECT_EQ(refusal([](Json& j) { j.erase("messages"); }), "x.json: messages is missing; expected a list");
  EXPECT_EQ(refusal([](Json& j) { j["model"] = 3; }), "x.json: model is '3'; expected a text");
  EXPECT_EQ(refusal([](Json& j) { j["settings"] = Json::array(); }), "x.json: settings is '[]'; expected an object");
  EXPECT_EQ(refusal([](Json& j) { j["mesages"] = 1; }), "x.json: unknown key 'mesages'; did you mean 'messages'?");
  EXPECT_EQ(refusal([](Json& j) { j["format"] = "other"; }),
            "x.json: format is 'other'; expected one of mortise dialogue 1");
  EXPECT_EQ(refusal([](Json& j) { j["messages"][1]["role"] = "robot"; }),
            "x.json: messages[1]: role is 'robot'; expected one of system, user, assistant");
  EXPECT_EQ(refusal([](Json& j) { j["messages"][0] = "hi"; }), "x.json: messages[0]: expected an object, not a string");
  EXPECT_EQ(refusal([](Json& j) { j["messages"][0]["content"] = nullptr; }),
            "x.json: messages[0]: content is missing; expected a text");
  EXPECT_EQ(refusal([](Json& j) { j["messages"][0]["name"] = "x"; }), "x.json: messages[0]: unknown key 'name'");
  EXPECT_EQ(refusal([](Json& j) { j["completions"][0]["seed"] = -1; }),
            "x.json: completions[0]: seed is '-1'; expected a whole number");
}

TEST(Dialogue, HostileFilesAreErrors) {
  const auto error = [](const std::string& text) { return error_of([&] { parse_dialogue(text, "x.json"); }); };
  EXPECT_THAT(error(""), StartsWith("x.json: "));
  EXPECT_THAT(error("{\"format\": "), HasSubstr("is it a file that /save wrote?"));
  EXPECT_EQ(error("[]"), "x.json: expected an object, not a array");
  EXPECT_THAT(error(std::string(1000000, '[')), AllOf(StartsWith("x.json: JSON is nested deeper than 100 levels"),
                                                      HasSubstr("a file that /save wrote?")));
  EXPECT_THAT(error("{\"format\": \"\xff\"}"), HasSubstr("is it a file that /save wrote?"));
  EXPECT_EQ(error("{\"format\": \"\\u001b[2J\"}"), "x.json: format is '?[2J'; expected one of mortise dialogue 1");
}

TEST(SaveDialogue, DoesNotWriteOverAFileUnlessTold) {
  const TempFolder dir;
  const fs::path file = dir.path() / "a.json";
  save_dialogue(example(), file, /*overwrite=*/false);
  test::write_text(file, "mine");
  EXPECT_EQ(error_of([&] { save_dialogue(example(), file, false); }),
            file.string() + ": exists already; /save! " + file.string() + " overwrites it");
  EXPECT_EQ(file_text(file), "mine");
  save_dialogue(example(), file, /*overwrite=*/true);
  EXPECT_EQ(load_dialogue(file).dialogue.messages, example().dialogue.messages);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);  // 2: a file was left over
}

TEST(SaveDialogue, FollowsALink) {
  const TempFolder dir;
  test::write_text(dir.path() / "real.json", "old");
  fs::create_symlink("real.json", dir.path() / "link.json");
  save_dialogue(example(), dir.path() / "link.json", /*overwrite=*/true);
  EXPECT_TRUE(fs::is_symlink(dir.path() / "link.json"));
  EXPECT_THAT(file_text(dir.path() / "real.json"), StartsWith("{"));
}

TEST(SaveDialogue, WhatCannotBeWrittenIsAnError) {
  const TempFolder dir;
  EXPECT_THAT(error_of([&] { save_dialogue(example(), dir.path() / "none" / "a.json", false); }),
              HasSubstr("none/a.json: cannot be written: No such file or directory"));
  EXPECT_THAT(error_of([&] { save_dialogue(example(), dir.path(), true); }), HasSubstr("is not a file"));
  EXPECT_EQ(error_of([&] { save_dialogue(example(), "/dev/full", true); }),
            "/dev/full: is not a file; give a file to save to");
}

TEST(LoadDialogue, WhatIsNoFileIsAnErrorAndNotAWait) {
  const TempFolder dir;
  const fs::path pipe = dir.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { load_dialogue(pipe); }), pipe.string() + ": is not a file");
  EXPECT_EQ(error_of([&] { load_dialogue(dir.path()); }), dir.path().string() + ": is not a file");
  EXPECT_EQ(error_of([&] { load_dialogue("/dev/zero"); }), "/dev/zero: is not a file");
  EXPECT_EQ(error_of([&] { load_dialogue("/nowhere/x"); }), "/nowhere/x: no such file");
  const fs::path huge = dir.path() / "huge";
  test::write_text(huge, "");
  fs::resize_file(huge, std::uintmax_t{1} << 40);  // sparse
  EXPECT_EQ(error_of([&] { load_dialogue(huge); }),
            huge.string() + ": is larger than 64 MiB; no dialogue is that large");
}

}  // namespace
}  // namespace mortise
