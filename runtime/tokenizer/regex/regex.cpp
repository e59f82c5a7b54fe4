#include "tokenizer/regex/regex.hpp"

#include <algorithm>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"
#include "tokenizer/regex/syntax.hpp"

namespace mortise::tokenizer {
namespace {

// JIT code takes 32 KiB of the thread's stack by default. Only patterns that backtrack over long texts need more.
constexpr std::size_t kJitStackStart = 32 * 1024;
constexpr std::size_t kJitStackMaximum = 16 * 1024 * 1024;
// A match is searched from this many bytes at a time. Between two checks of the clock, each of them may cost PCRE2's
// whole match limit, a tenth of a second.
constexpr std::size_t kWindow = 16;
constexpr std::size_t kMaxPatternBytes = 64 * 1024;  // the longest published pattern has a few thousand

template <auto Function>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    Function(object);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

std::string error_text(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

// Returns the offset of the first byte of the character that contains the byte at `offset`.
std::size_t character_start(std::string_view text, std::size_t offset) {
  while (offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xC0) == 0x80) --offset;
  return offset;
}

// Finds the matches of one text. Owns the memory that PCRE2 needs while it matches.
class Matcher {
 public:
  Matcher(const pcre2_code* code, std::string_view text)
      : code_(code),
        text_(text),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {}

  // Finds the first match that begins between `offset` and `last`. Returns whether there is one. Throws PCRE2's errors
  // as an Error.
  bool find(std::size_t offset, std::size_t last, const std::string& where, Match& match) {
    pcre2_set_offset_limit(context_.get(), last);
    int result = match_from(offset);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !stack_) {
      stack_.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMaximum, nullptr));
      pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
      result = match_from(offset);
    }
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) {
      fail("{}: the regular expression fails on a text of {} bytes ({}); use a simpler one", where, text_.size(),
           error_text(result));
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
    // \K in a lookahead could put the start after the end; to_pcre2_syntax refuses \K.
    match = {offsets[0], offsets[1]};
    return true;
  }

 private:
  int match_from(std::size_t offset) {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), offset, PCRE2_NO_UTF_CHECK,
                       data_.get(), context_.get());
  }

  const pcre2_code* code_;
  std::string_view text_;
  MatchData data_;
  MatchContext context_;
  JitStack stack_;
};

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> compiled{nullptr, &pcre2_code_free};
};

Regex::Regex(std::unique_ptr<const Code> code, std::string where) : code_(std::move(code)), where_(std::move(where)) {}

Regex::Regex(std::string_view pattern, std::string where) : Regex(std::unique_ptr<const Code>(), std::move(where)) {
  if (pattern.size() > kMaxPatternBytes) {
    fail("{}: a regular expression of {} bytes; the limit is {}", where_, pattern.size(), kMaxPatternBytes);
  }
  std::string translated;
  try {
    translated = to_pcre2_syntax(pattern);
  } catch (const Error& error) {
    fail("{}: {}", where_, error.what());
  }
  *this = from_pcre2_syntax(translated, std::move(where_));
}

Regex Regex::from_pcre2_syntax(const std::string& pattern, std::string where) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  constexpr auto kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
  auto code = std::make_unique<Code>();
  code->compiled.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), kOptions, &error,
                                     &offset, context.get()));
  if (!code->compiled) fail("{}: not a valid regular expression: {}", where, error_text(error));
  // Without JIT, which the system may forbid, the interpreter gives the same result more slowly.
  pcre2_jit_compile(code->compiled.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(code), std::move(where));
}

void Regex::find_all(std::string_view text, const TimeLimit& time, std::vector<Match>& matches) const {
  matches.clear();
  if (text.empty()) return;
  Matcher matcher(code_->compiled.get(), text);
  std::size_t from = 0;
  Match match{};
  while (from <= text.size()) {
    if (time.is_over()) {
      fail("{}: the regular expression takes too long for a text of {} bytes; use a simpler one", where_, text.size());
    }
    const std::size_t last = character_start(text, std::min(from + kWindow, text.size()));
    if (!matcher.find(from, last, where_, match)) {
      if (last == text.size()) break;
      from = last + character_length(text[last]);
      continue;
    }
    const bool is_empty = match.begin == match.end;
    if (is_empty && !matches.empty() && matches.back().end == match.end) {
      from += from < text.size() ? character_length(text[from]) : 1;
    } else {
      matches.push_back(match);
      from = match.end;
    }
  }
}

}  // namespace mortise::tokenizer
