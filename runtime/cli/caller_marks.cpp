#include "cli/caller_marks.hpp"

#include <algorithm>
#include <bitset>
#include <utility>

#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise {
namespace {

using Json = nlohmann::ordered_json;

// Unicode's private use area: U+E000 to U+F8FF, three bytes each in UTF-8.
constexpr std::size_t kFirstPrivate = 0xE000, kNumPrivate = 0xF900 - 0xE000;

std::string private_character(std::size_t index) {
  const std::size_t code = kFirstPrivate + index;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

std::bitset<kNumPrivate> private_characters_of(const std::string& text) {
  std::bitset<kNumPrivate> found;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  for (std::size_t at = 0; at + 2 < text.size(); ++at) {
    if (byte(at) != 0xEE && byte(at) != 0xEF) continue;
    const std::size_t code = ((byte(at) & 0xFU) << 12) | ((byte(at + 1) & 0x3FU) << 6) | (byte(at + 2) & 0x3FU);
    if (code >= kFirstPrivate && code < kFirstPrivate + kNumPrivate) found.set(code - kFirstPrivate);
  }
  return found;
}

bool is_plain_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return text.size() <= 64 && std::ranges::all_of(text, is_plain);
}

[[noreturn]] void fail_cut() {
  fail(
      "the script's chat_template returns a part of a message's text without one of the two characters around it; keep "
      "both or neither, or set chat = {{ special_tokens_in_content = true }}");
}

}  // namespace

CallerMarks::CallerMarks(const Tokenizer& tokenizer, Json& messages) : tokenizer_(tokenizer) {
  choose(messages);
  for (Json& message : messages) mark_message(message);
}

void CallerMarks::choose(const Json& messages) {
  const auto used = private_characters_of(messages.dump(-1, ' ', false, Json::error_handler_t::ignore));
  std::string* const marks[] = {&begin_, &end_};
  std::size_t num_chosen = 0;
  for (std::size_t i = 0; i < kNumPrivate && num_chosen < 2; ++i) {
    if (!used[i]) *marks[num_chosen++] = private_character(i);
  }
  if (num_chosen < 2) fail("messages: they use every character of Unicode's private use area; leave two of them out");
}

void CallerMarks::mark_message(Json& message) const {
  if (!message.is_object()) return mark(message);
  const auto role = message.find("role");
  const bool is_plain = role != message.end() && role->is_string() && is_plain_word(role->get_ref<std::string&>());
  const Json kept = is_plain ? *role : Json();
  mark(message);
  if (is_plain) message["role"] = kept;
}

void CallerMarks::mark(Json& value) const {
  if (value.is_string()) {
    value = marked(value.get_ref<const std::string&>());
  } else if (value.is_array()) {
    for (Json& item : value) mark(item);
  } else if (value.is_object()) {
    Json::object_t entries;
    for (auto& [key, item] : value.get_ref<Json::object_t&>()) {
      mark(item);
      entries.push_back({is_plain_word(key) ? key : marked(key), std::move(item)});
    }
    value = std::move(entries);
  }
}

std::string CallerMarks::marked(const std::string& text) const {
  std::string valid;
  tokenizer::append_lossy(text, /*is_end=*/true, valid);
  constexpr std::string_view kSpace = " \t\r\n";
  std::size_t begin = valid.find_first_not_of(kSpace);
  if (begin == valid.npos) begin = valid.size();
  std::size_t end = begin == valid.size() ? begin : valid.find_last_not_of(kSpace) + 1;
  const std::vector<std::size_t> cuts = tokenizer_.cuts_within_special_tokens(valid);
  if (!cuts.empty()) {  // possibly a token of white space
    begin = 0;
    end = valid.size();
  }
  if (begin == end) return valid;
  std::string out = valid.substr(0, begin) + begin_;
  std::size_t done = begin;
  for (const std::size_t cut : cuts) {
    const std::size_t first = tokenizer::previous_character(valid, cut);
    out += valid.substr(done, first - done) + begin_ + valid.substr(first, cut - first) + end_;
    done = cut;
  }
  return out + valid.substr(done, end - done) + end_ + valid.substr(end);
}

SegmentedText CallerMarks::segments(const std::string& text) const {
  if (!tokenizer::is_valid_utf8(text)) fail_cut();
  SegmentedText segments;
  std::size_t done = 0, depth = 0;  // the function may put one text inside another
  for (std::size_t begin = text.find(begin_), end = text.find(end_); begin != text.npos || end != text.npos;) {
    const std::size_t at = std::min(begin, end);
    if (at > done) segments.push_back({text.substr(done, at - done), depth == 0});
    done = at + begin_.size();
    if (at == begin) {
      ++depth;
      begin = text.find(begin_, done);
    } else {
      if (depth == 0) fail_cut();
      --depth;
      end = text.find(end_, done);
    }
  }
  if (depth > 0) fail_cut();
  if (done < text.size()) segments.push_back({text.substr(done), true});
  return segments;
}

}  // namespace mortise
