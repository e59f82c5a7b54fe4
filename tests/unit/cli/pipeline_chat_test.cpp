// Chats through a script's function.
// Covers: runtime/cli/caller_marks
#include "cli/pipeline_chat.hpp"

#include <gmock/gmock.h>

#include "error.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const Tokenizer& demo() {
  static const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  return tokenizer;
}

ChatInput asked(const char* messages) {
  ChatInput input;
  input.messages = nlohmann::ordered_json::parse(messages);
  return input;
}

// What comes from the caller in brackets, or the error.
std::string marked(const char* messages, PipelineChat::Script script) {
  try {
    const PipelineChat chat(demo(), {}, std::move(script));
    std::string all;
    for (const TextSegment& part : chat.render(asked(messages)).text) {
      all += part.special_tokens ? part.text : "[" + part.text + "]";
    }
    return all;
  } catch (const Error& error) {
    return error.what();
  }
}

std::string text(const Json& value) {
  return value.get<std::string>();
}

TEST(PipelineChat, EveryTextOfAMessageIsTheCallers) {
  const char* const messages = R"([{"role": "tool", "content": "c", "name": "n", "tool_call_id": "i",
    "tool_calls": [{"function": {"name": "f", "arguments": {"k": "v", "<|im_end|>": ["w", 1]}}}], "empty": ""}])";
  EXPECT_EQ(marked(messages,
                   [](const Json& list) {
                     const Json& message = list[0];
                     const Json& call = message["tool_calls"][0]["function"];
                     const Json& arguments = call["arguments"];
                     std::string all = "<" + text(message["role"]) + ">" + text(message["empty"]);
                     for (const char* name : {"content", "name", "tool_call_id"}) all += text(message[name]);
                     all += text(call["name"]) + text(arguments["k"]);
                     for (const auto& [key, value] : arguments.items()) {
                       if (value.is_array()) all += key + text(value[0]) + value[1].dump();
                     }
                     return all;
                   }),
            "<tool>[c][n][i][f][v][<][|im_end|>][w]1");
  EXPECT_THAT(
      marked(R"([{"role": "<|im_end|>", "content": ""}])", [](const Json& list) { return text(list[0]["role"]); }),
      "[<][|im_end|>]");
}

TEST(PipelineChat, ASpecialTokenInTwoContentsIsNone) {
  const PipelineChat::Script join = [](const Json& list) {
    return text(list[0]["content"]) + text(list[1]["content"]);
  };
  const char* const messages = R"([{"role": "user", "content": "<|im_"}, {"role": "user", "content": "end|>"}])";
  EXPECT_EQ(marked(messages, join), "[<|im_][end|>]");
  const PipelineChat chat(demo(), {}, join);
  for (const std::int32_t id : demo().encode(chat.render(asked(messages)).text, false)) {
    EXPECT_FALSE(demo().is_special(id));
  }
}

TEST(PipelineChat, AFunctionMayStripRepeatAndNestTexts) {
  const char* const messages = R"([{"role": "user", "content": " a b\n"}, {"role": "user", "content": "c"}])";
  EXPECT_EQ(marked(messages,
                   [](const Json& list) {
                     const std::string first = text(list[0]["content"]), second = text(list[1]["content"]);
                     std::string nested = first;
                     nested.replace(nested.find(" b"), 1, second);
                     return first.substr(1, first.size() - 2) + "|" + second + second + "|" + nested;
                   }),
            "[a b]|[c][c]| [a][c][b]\n");
}

TEST(PipelineChat, ATextThatLostAMarkIsRefused) {
  const char* const messages = R"([{"role": "user", "content": "abc"}])";
  const auto cut = [&](std::size_t begin, std::size_t num_bytes) {
    return marked(messages, [=](const Json& list) { return text(list[0]["content"]).substr(begin, num_bytes); });
  };
  EXPECT_EQ(cut(3, 3), "abc");  // neither mark: the function made it its own text
  for (const auto& [begin, size] : {std::pair(0, 6), {3, 6}, {1, 7}, {0, 7}, {3, 5}}) {
    EXPECT_THAT(cut(static_cast<std::size_t>(begin), static_cast<std::size_t>(size)),
                HasSubstr("returns a part of a message's text without one of the two characters around it"));
  }
}

TEST(PipelineChat, ASpecialTokenThatIsCutOutOfATextIsNone) {
  const char* const messages = R"([{"role": "user", "content": "a <|im_end|> b"}])";
  EXPECT_EQ(marked(messages,
                   [](const Json& list) {
                     const std::string all = text(list[0]["content"]);
                     return all.substr(all.find("a"), all.find("b") + 1 - all.find("a"));
                   }),
            "a [<]|im_end|> b");
}

TEST(PipelineChat, ThePrivateCharactersOfAMessageAreItsOwn) {
  const PipelineChat::Script first = [](const Json& list) { return text(list[0]["content"]) + "."; };
  EXPECT_EQ(marked("[{\"role\": \"user\", \"content\": \"\xEE\x80\x81<|im_end|>\xEE\x80\x80\"}]", first),
            "[\xEE\x80\x81][<][|im_end|>\xEE\x80\x80].");
  std::string all = R"([{"role": "user", "content": ")";
  for (int code = 0xE000; code < 0xF900; ++code) {
    all += {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
            static_cast<char>(0x80 | (code & 0x3F))};
  }
  EXPECT_THAT(marked((all + "\"}]").c_str(), first), HasSubstr("use every character of Unicode's private use area"));
}

TEST(PipelineChat, ManyMessagesTakeNoSquareOfTime) {
  ChatInput input;
  for (int i = 0; i < 100'000; ++i) input.messages.push_back({{"role", "user"}, {"content", "<|im_end|>"}});
  const PipelineChat chat(demo(), {}, [](const Json& list) {
    std::string all;
    for (const Json& message : list) all += text(message["content"]);
    return all;
  });
  EXPECT_EQ(chat.render(input).text.size(), 200'000u);
}

}  // namespace
}  // namespace mortise
