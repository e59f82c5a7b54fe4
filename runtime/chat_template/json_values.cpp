#include "chat_template/json_values.hpp"

#include <algorithm>

#include "tokenizer/characters/utf8.hpp"

namespace mortise::jinja {
namespace {

using Json = nlohmann::ordered_json;

Value text_value(std::string_view text, Source source, Runtime& runtime) {
  if (tokenizer::is_valid_utf8(text)) return runtime.make().text(text, source);
  std::string valid;
  tokenizer::append_lossy(text, /*is_end=*/true, valid);
  return runtime.make().text(valid, source);
}

// Whether the role cannot spell a special token by itself, like "user" or "tool_results".
bool is_plain_role(const Json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.size() <= 20 && std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

Value message_value(const Json& message, Runtime& runtime) {
  if (!message.is_object()) return from_json(message, Source::kCaller, runtime);
  Dict::Entries entries;
  for (const auto& [key, value] : message.items()) {
    const Source source = key == "role" && is_plain_role(value) ? Source::kTemplate : Source::kCaller;
    entries.emplace_back(text_value(key, Source::kCaller, runtime), from_json(value, source, runtime));
  }
  return runtime.make().dict(std::move(entries));
}

}  // namespace

Value from_json(const Json& json, Source source, Runtime& runtime) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX) fail("the integer {} has more than 64 bits", json.dump());
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return text_value(json.get_ref<const std::string&>(), source, runtime);
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(from_json(item, source, runtime));
      return runtime.make().list(std::move(items));
    }
    case Json::value_t::object: {
      Dict::Entries entries;
      for (const auto& [key, value] : json.items()) {
        entries.emplace_back(text_value(key, source, runtime), from_json(value, source, runtime));
      }
      return runtime.make().dict(std::move(entries));
    }
    default:
      return None{};
  }
}

Value from_messages(const Json& messages, Runtime& runtime) {
  if (!messages.is_array()) return from_json(messages, Source::kCaller, runtime);
  std::vector<Value> list;
  for (const Json& message : messages) list.push_back(message_value(message, runtime));
  return runtime.make().list(std::move(list));
}

}  // namespace mortise::jinja
