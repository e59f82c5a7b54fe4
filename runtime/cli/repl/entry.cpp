#include "cli/repl/entry.hpp"

#include <utility>

namespace mortise {
namespace {

constexpr std::string_view kFence = "\"\"\"";
constexpr std::string_view kBlanks = " \t\r\n\v\f";

bool is_fence(std::string_view line) {
  return line.starts_with(kFence) && is_blank(line.substr(kFence.size()));
}

bool goes_on(std::string_view line) {
  const std::size_t last = line.find_last_not_of('\\');
  const std::size_t num_backslashes = line.size() - (last == line.npos ? 0 : last + 1);
  return num_backslashes % 2 == 1;
}

}  // namespace

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == text.npos;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

void EntryAssembler::clear() {
  state_ = State::kEmpty;
  text_.clear();
}

Entry EntryAssembler::take(bool is_block) {
  Entry entry{std::move(text_), is_block};
  clear();
  return entry;
}

std::optional<Entry> EntryAssembler::add(std::string_view line) {
  if (state_ == State::kBlock) return add_to_block(line);
  const std::size_t first_end = std::min(line.find('\n'), line.size());
  if (state_ == State::kEmpty && is_fence(line.substr(0, first_end))) {
    state_ = State::kBlock;
    if (first_end == line.size()) return std::nullopt;
    return add_to_block(line.substr(first_end + 1));
  }
  if (goes_on(line)) {
    text_ += line.substr(0, line.size() - 1);
    text_ += '\n';
    state_ = State::kContinued;
    return std::nullopt;
  }
  text_ += line;
  return take(/*is_block=*/false);
}

// `line` may have several lines, including the closing one. Pasted text after the closing line belongs to the text.
std::optional<Entry> EntryAssembler::add_to_block(std::string_view line) {
  bool closed = false;
  while (true) {
    const std::size_t end = std::min(line.find('\n'), line.size());
    const std::string_view one = line.substr(0, end);
    if (!closed && is_fence(one)) {
      closed = true;
    } else {
      text_ += one;
      text_ += '\n';
    }
    if (end == line.size()) break;
    line.remove_prefix(end + 1);
  }
  if (!closed) return std::nullopt;
  if (!text_.empty()) text_.pop_back();  // the newline before the closing line
  return take(/*is_block=*/true);
}

std::string as_one_line(const Entry& entry) {
  if (!entry.is_block) return entry.text;
  EntryAssembler plain;
  const std::optional<Entry> again = plain.add(entry.text);
  const bool same = again && !again->is_block && again->text == entry.text;
  if (same && !entry.text.starts_with('/')) return entry.text;
  return std::string(kFence) + '\n' + entry.text + '\n' + std::string(kFence);
}

}  // namespace mortise
