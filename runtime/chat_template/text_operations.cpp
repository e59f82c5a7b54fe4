// strip, replace, join and lines: shared by filters and string methods. All keep the marks of the text.
#include <cstring>

#include "chat_template/runtime.hpp"
#include "chat_template/unicode.hpp"

namespace mortise::jinja {
namespace {

bool is_one_of(std::int32_t character, const MarkedText* characters) {
  if (characters == nullptr) return is_space(character);
  for (std::size_t at = 0; at < characters->size();) {
    if (next_character(characters->bytes(), at) == character) return true;
  }
  return false;
}

std::size_t previous(const std::string& text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

}  // namespace

MarkedText strip(const MarkedText& text, const MarkedText* characters, Ends ends) {
  const std::string& bytes = text.bytes();
  std::size_t begin = 0, end = bytes.size();
  while (ends != Ends::kRight && begin < end) {
    std::size_t next = begin;
    if (!is_one_of(next_character(bytes, next), characters)) break;
    begin = next;
  }
  while (ends != Ends::kLeft && begin < end) {
    const std::size_t last = previous(bytes, end);
    std::size_t at = last;
    if (!is_one_of(next_character(bytes, at), characters)) break;
    end = last;
  }
  return text.substr(begin, end);
}

MarkedText replace(const MarkedText& text, const MarkedText& from, const MarkedText& to, std::int64_t count,
                   Runtime& runtime) {
  Budget& budget = runtime.budget();
  budget.read(text.size());
  Growth growth(budget);
  MarkedText out;
  std::size_t done = 0;
  const std::string& bytes = text.bytes();
  const auto put = [&](std::size_t begin, std::size_t end) {
    out.append(text, done, begin);
    out.append(to);
    growth.reach(out.memory());
    done = end;
  };
  if (from.empty()) {  // an empty text is found before each character and at the end
    for (std::size_t at = 0; count != 0; --count) {
      put(at, at);
      if (at >= bytes.size()) break;
      next_character(bytes, at);
    }
  } else {
    for (; count != 0; --count) {
      const void* found = memmem(bytes.data() + done, bytes.size() - done, from.bytes().data(), from.size());
      if (found == nullptr) break;
      const auto begin = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
      put(begin, begin + from.size());
    }
  }
  out.append(text, done, text.size());
  return out;
}

void each_line(const MarkedText& text, bool keep_ends, const std::function<void(std::size_t, std::size_t)>& visit) {
  const std::string& bytes = text.bytes();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = at;
    const std::int32_t character = next_character(bytes, at);
    const bool ends = (character >= 0x0A && character <= 0x0D) || (character >= 0x1C && character <= 0x1E) ||
                      character == 0x85 || character == 0x2028 || character == 0x2029;
    if (!ends) continue;
    if (character == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    visit(begin, keep_ends ? at : end);
    begin = at;
  }
  if (begin < bytes.size()) visit(begin, bytes.size());
}

MarkedText join(const std::vector<Value>& items, const MarkedText& separator, Runtime& runtime) {
  MarkedText out;
  Growth growth(runtime.budget());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(runtime.text_of(items[i]));
    growth.reach(out.memory());
  }
  return out;
}

}  // namespace mortise::jinja
