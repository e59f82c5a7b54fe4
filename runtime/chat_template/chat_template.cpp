#include "chat_template/chat_template.hpp"

#include <algorithm>
#include <utility>

#include "chat_template/interpreter.hpp"
#include "chat_template/json_values.hpp"
#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise {

using namespace jinja;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;  // real ones have up to 40 KiB

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm time{};
  localtime_r(&now, &time);
  return time;
}

SegmentedText segments_of(const MarkedText& text, Budget& budget) {
  SegmentedText segments;
  const Counted room(&budget, text.runs().size() * sizeof(TextSegment) + text.size());
  segments.reserve(text.runs().size());
  std::size_t begin = 0;
  for (const MarkedText::Run& run : text.runs()) {
    segments.push_back({text.bytes().substr(begin, run.end - begin), run.source == Source::kTemplate});
    begin = run.end;
  }
  return segments;
}

// A text that no message contains by accident. The space after it shows whether the template strips contents. As in
// transformers.
constexpr std::string_view kEndMark = "CONTINUE_FINAL_MESSAGE_TAG";

void mark_end(Json& content) {
  std::string* text = content.is_string() ? content.get_ptr<std::string*>() : nullptr;
  if (content.is_array()) {
    for (Json& part : content) {
      if (part.is_object() && part.contains("text") && part["text"].is_string()) {
        text = part["text"].get_ptr<std::string*>();
      }
    }
  }
  if (text == nullptr) fail("continue_final_message: the last message has no text to continue");
  *text += std::string(kEndMark) + " ";
}

MarkedText cut_at_mark(const MarkedText& text) {
  const std::size_t at = text.bytes().rfind(kEndMark);
  if (at == std::string::npos) {
    fail("continue_final_message: the template leaves out the end of the last message");
  }
  const MarkedText kept = text.substr(0, at);
  const bool keeps_space = text.bytes().compare(at + kEndMark.size(), 1, " ") == 0;
  return keeps_space ? kept : strip(kept, nullptr, Ends::kRight);
}

}  // namespace

struct ChatTemplate::Compiled {
  ChatTemplateOptions options;
  SyntaxTree tree;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::compile(std::string_view source, ChatTemplateOptions options) {
  if (source.size() > kMaxTemplateBytes) {
    fail("{}: is larger than {} bytes; is it a chat template?", options.name, kMaxTemplateBytes);
  }
  if (!tokenizer::is_valid_utf8(source)) fail("{}: is not UTF-8", options.name);
  auto compiled = std::make_unique<Compiled>();
  if (!options.clock) options.clock = local_time;
  compiled->options = std::move(options);
  try {
    compiled->tree = parse(source);
  } catch (const Error& error) {
    fail("{} {}", compiled->options.name, error.what());
  }
  ChatTemplate result(std::move(compiled));
  const std::string probe = "Mortise asks";
  const bool takes_text = result.shows_content(probe);
  result.takes_parts_ = result.shows_content(Json::array({{{"type", "text"}, {"text", probe}}}));
  result.needs_parts_ = result.takes_parts_ && !takes_text;
  return result;
}

// Whether the template prints such a content as its text, and not as a printed list.
bool ChatTemplate::shows_content(const Json& content) const {
  ChatInput input;
  input.messages.push_back({{"role", "user"}, {"content", content}});
  try {
    const std::string text = plain_text(render(input));
    return text.find("Mortise asks") != text.npos && text.find("Mortise asks'") == text.npos &&
           text.find("Mortise asks\"") == text.npos;
  } catch (const Error&) {
    return false;
  }
}

Json with_text_contents(const Json& messages) {
  Json fitted = messages;
  for (Json& message : fitted) {
    if (!message.contains("content") || !message["content"].is_array()) continue;
    std::string text;
    for (const Json& part : message["content"]) {
      if (part.contains("text") && part["text"].is_string()) text += part["text"].get<std::string>();
    }
    message["content"] = text;
  }
  return fitted;
}

Json ChatTemplate::fitted(const Json& messages) const {
  if (!takes_parts_) return with_text_contents(messages);
  if (!needs_parts_) return messages;
  Json fitted = messages;
  for (Json& message : fitted) {
    if (!message.contains("content") || !message["content"].is_string()) continue;
    message["content"] = Json::array({{{"type", "text"}, {"text", message["content"]}}});
  }
  return fitted;
}

SegmentedText ChatTemplate::render(const ChatInput& input) const {
  const ChatTemplateOptions& options = compiled_->options;
  Json messages = input.messages;
  if (input.continue_final_message) {
    if (messages.empty() || !messages.back().contains("content")) {
      fail("continue_final_message: the last message has no text to continue");
    }
    mark_end(messages.back()["content"]);
  }
  Runtime runtime(options.limits, options.clock);
  MarkedText text;
  try {
    Interpreter interpreter(compiled_->tree, runtime);
    const auto define = [&](const std::string& name, const Json& value, Source source) {
      interpreter.define(name, from_json(value, source, runtime));
    };
    for (const auto& [name, value] : options.special_tokens.items()) define(name, value, Source::kTemplate);
    define("documents", nullptr, Source::kCaller);
    for (const auto& [name, value] : input.variables.items()) define(name, value, Source::kCaller);
    interpreter.define("messages", from_messages(messages, runtime));
    define("tools", input.tools, Source::kCaller);
    define("add_generation_prompt", input.add_generation_prompt && !input.continue_final_message, Source::kCaller);
    text = interpreter.run();
  } catch (const Error& error) {
    fail(error.code(), "{} {}", options.name, error.what());
  }
  return segments_of(input.continue_final_message ? cut_at_mark(text) : text, runtime.budget());
}

}  // namespace mortise
