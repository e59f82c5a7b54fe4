#include "openai/event_id.hpp"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "error.hpp"

namespace mortise {
namespace {

constexpr char kFieldEnd = '~', kChoiceEnd = '.', kPartEnd = '-';
constexpr std::string_view kVersion = "1";
constexpr std::size_t kMaxLength = 16384;

// Reads the fields of a text one after the other. Used by one thread.
class Fields {
 public:
  Fields(std::string_view text, char separator) : rest_(text), separator_(separator) {}
  bool at_end() const { return done_; }
  std::string_view next() {
    if (done_) malformed();
    const std::size_t end = rest_.find(separator_);
    const std::string_view field = rest_.substr(0, end);
    done_ = end == std::string_view::npos;
    rest_ = done_ ? std::string_view() : rest_.substr(end + 1);
    return field;
  }
  template <class Number>
  Number number(int base) {
    return read<Number>(next(), base);
  }
  template <class Number>
  static Number read(std::string_view text, int base) {
    Number value{};
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (code != std::errc{} || end != text.data() + text.size()) malformed();
    return value;
  }
  [[noreturn]] static void malformed() {
    fail("Last-Event-ID is not the id of an event of this server; repeat the value of the event's id field exactly");
  }

 private:
  std::string_view rest_;
  const char separator_;
  bool done_ = false;
};

// "": nothing sent; "b": begun; "12-45": tokens and bytes; "12-45e": ended.
ChoiceProgress read_choice(std::string_view text) {
  ChoiceProgress progress;
  if (text.empty()) return progress;
  progress.stage = ChoiceProgress::Stage::kBegun;
  if (text == "b") return progress;
  if (text.back() == 'e') {
    progress.stage = ChoiceProgress::Stage::kEnded;
    text.remove_suffix(1);
  }
  Fields parts(text, kPartEnd);
  progress.num_tokens = parts.number<std::uint64_t>(10);
  progress.num_bytes = parts.number<std::uint64_t>(10);
  if (!parts.at_end()) Fields::malformed();
  return progress;
}

}  // namespace

std::string origin_text(const StreamOrigin& origin) {
  return fmt::format("{}~{}~{}~{}~{:x}~{}~{:x}~", kVersion, origin.fingerprint, origin.answer_id, origin.created,
                     origin.seed, origin.seed_drawn ? 1 : 0, origin.prompts);
}

void append_progress(std::string& text, const std::vector<ChoiceProgress>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const ChoiceProgress& choice = choices[i];
    if (i > 0) text += kChoiceEnd;
    if (!choice.begun()) continue;
    if (choice.num_tokens == 0 && choice.num_bytes == 0 && !choice.ended()) {
      text += 'b';
    } else {
      fmt::format_to(std::back_inserter(text), "{}-{}{}", choice.num_tokens, choice.num_bytes,
                     choice.ended() ? "e" : "");
    }
  }
}

EventId read_event_id(std::string_view text) {
  if (text.size() > kMaxLength) Fields::malformed();
  Fields fields(text, kFieldEnd);
  if (fields.next() != kVersion) Fields::malformed();
  EventId id;
  id.origin.fingerprint = fields.next();
  id.origin.answer_id = fields.next();
  id.origin.created = fields.number<std::int64_t>(10);
  id.origin.seed = fields.number<std::uint64_t>(16);
  id.origin.seed_drawn = fields.number<int>(10) != 0;
  id.origin.prompts = fields.number<std::uint64_t>(16);
  for (const char c : id.origin.answer_id) {
    // Answers repeat it, so only hexadecimal digits are allowed.
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) Fields::malformed();
  }
  Fields choices(fields.next(), kChoiceEnd);
  if (!fields.at_end()) Fields::malformed();
  while (!choices.at_end()) id.choices.push_back(read_choice(choices.next()));
  return id;
}

}  // namespace mortise
