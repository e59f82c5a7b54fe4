#include "pipeline/lua_matcher.hpp"

#include <cctype>
#include <utility>

#include "lauxlib.h"
#include "pipeline/lua_state.hpp"

namespace mortise {
namespace {

constexpr int kMaxDepth = 200;         // as the library's MAXCCALLS: a frame here has some 100 bytes
constexpr int kStepsPerPayment = 256;  // a step costs as much as an instruction
// Sets and what a capture holds may be as long as the script's memory, so that looking at them is work as well.
constexpr std::size_t kSetBytesPerStep = 16;
constexpr std::size_t kTextBytesPerStep = 64;

bool class_has(unsigned char c, unsigned char letter) {
  bool has;
  switch (std::tolower(letter)) {
    case 'a':
      has = std::isalpha(c) != 0;
      break;
    case 'c':
      has = std::iscntrl(c) != 0;
      break;
    case 'd':
      has = std::isdigit(c) != 0;
      break;
    case 'g':
      has = std::isgraph(c) != 0;
      break;
    case 'l':
      has = std::islower(c) != 0;
      break;
    case 'p':
      has = std::ispunct(c) != 0;
      break;
    case 's':
      has = std::isspace(c) != 0;
      break;
    case 'u':
      has = std::isupper(c) != 0;
      break;
    case 'w':
      has = std::isalnum(c) != 0;
      break;
    case 'x':
      has = std::isxdigit(c) != 0;
      break;
    case 'z':  // of Lua 5.1; the library still takes it
      has = c == '\0';
      break;
    default:
      return letter == c;  // an escaped character that stands for itself
  }
  return std::isupper(letter) != 0 ? !has : has;
}

}  // namespace

void LuaMatcher::step() {
  if (++steps_ >= kStepsPerPayment) LuaState::of(L_).spend(std::exchange(steps_, 0));
}

std::optional<std::size_t> LuaMatcher::match(std::size_t begin) {
  depth_ = 0;
  num_captures_ = 0;
  step();
  return match_here(begin, 0);
}

// Where the single character item that begins at p ends: behind "a", "%a" or "[a-z]".
std::size_t LuaMatcher::item_end(std::size_t p) {
  const std::size_t begin = p;
  const char first = pattern_[p++];
  if (first == '%') {
    if (p == pattern_.size()) luaL_error(L_, "malformed pattern (ends with '%%')");
    return p + 1;
  }
  if (first != '[') return p;
  if (at(p) == '^') ++p;
  do {  // a ] that comes first stands for itself
    if (p >= pattern_.size()) luaL_error(L_, "malformed pattern (missing ']')");
    p += pattern_[p] == '%' ? 2 : 1;
  } while (p >= pattern_.size() || pattern_[p] != ']');
  steps_ += static_cast<int>((p - begin) / kSetBytesPerStep);
  return p + 1;
}

// Whether the set from p ('[') to end (behind ']') has c.
bool LuaMatcher::set_has(unsigned char c, std::size_t p, std::size_t end) const {
  const std::size_t close = end - 1;
  ++p;
  const bool negated = at(p) == '^';
  if (negated) ++p;
  while (p < close) {
    if (pattern_[p] == '%') {
      if (class_has(c, static_cast<unsigned char>(pattern_[p + 1]))) return !negated;
      p += 2;
    } else if (at(p + 1) == '-' && p + 2 < close) {
      if (static_cast<unsigned char>(pattern_[p]) <= c && c <= static_cast<unsigned char>(pattern_[p + 2])) {
        return !negated;
      }
      p += 3;
    } else {
      if (static_cast<unsigned char>(pattern_[p]) == c) return !negated;
      ++p;
    }
  }
  return negated;
}

bool LuaMatcher::item_matches(std::size_t s, std::size_t p, std::size_t end) {
  step();
  if (s >= subject_.size()) return false;
  const auto c = static_cast<unsigned char>(subject_[s]);
  switch (pattern_[p]) {
    case '.':
      return true;
    case '%':
      return class_has(c, static_cast<unsigned char>(pattern_[p + 1]));
    case '[':
      steps_ += static_cast<int>((end - p) / kSetBytesPerStep);
      return set_has(c, p, end);
    default:
      return static_cast<unsigned char>(pattern_[p]) == c;
  }
}

// Matches pattern_[p...] at s. Recursion is for choices alone; a run of plain items is this loop.
LuaMatcher::End LuaMatcher::match_here(std::size_t s, std::size_t p) {
  if (++depth_ > kMaxDepth) luaL_error(L_, "pattern too complex");
  bool go_on = true;
  End end;
  while (go_on) {
    if (p == pattern_.size()) {
      end = s;
      break;
    }
    end = match_item(s, p, go_on);
  }
  --depth_;
  return end;
}

// Matches what stands at p. With `go_on` s and p are moved behind it; else the result is that of the whole rest.
LuaMatcher::End LuaMatcher::match_item(std::size_t& s, std::size_t& p, bool& go_on) {
  const auto continue_at = [&](End next_s, std::size_t next_p) {
    go_on = next_s.has_value();
    if (go_on) s = *next_s;
    p = next_p;
    return End();
  };
  go_on = false;
  step();
  const char first = pattern_[p], second = at(p + 1);
  if (first == '(') return second == ')' ? match_capture(s, p + 2, kPosition) : match_capture(s, p + 1, kOpen);
  if (first == ')') return match_capture_end(s, p + 1);
  if (first == '$' && p + 1 == pattern_.size()) return s == subject_.size() ? End(s) : End();
  if (first == '%' && second == 'b') return continue_at(balanced(s, p + 2), p + 4);
  if (first == '%' && second == 'f') {
    if (at(p + 2) != '[') luaL_error(L_, "missing '[' after '%%f' in pattern");
    const std::size_t end = item_end(p + 2);
    return continue_at(frontier(s, p + 2, end) ? End(s) : End(), end);
  }
  if (first == '%' && std::isdigit(static_cast<unsigned char>(second)) != 0) {
    return continue_at(back_reference(s, second), p + 2);
  }
  const std::size_t end = item_end(p);
  const char suffix = at(end);
  if (!item_matches(s, p, end)) {
    return continue_at(suffix == '*' || suffix == '?' || suffix == '-' ? End(s) : End(), end + 1);
  }
  switch (suffix) {
    case '?':
      if (const End rest = match_here(s + 1, end + 1)) return rest;
      return continue_at(s, end + 1);
    case '+':
    case '*':
      return match_longest(s + 1, p, end);
    case '-':
      return match_shortest(s, p, end);
    default:
      return continue_at(s + 1, end);
  }
}

// The item matched at s - 1 already. For * the rest may begin there too; for + it may not.
LuaMatcher::End LuaMatcher::match_longest(std::size_t s, std::size_t p, std::size_t end) {
  std::size_t last = s;
  while (item_matches(last, p, end)) ++last;
  const std::size_t first = at(end) == '*' ? s - 1 : s;
  for (;; --last) {
    if (const End rest = match_here(last, end + 1)) return rest;
    if (last == first) return std::nullopt;
  }
}

LuaMatcher::End LuaMatcher::match_shortest(std::size_t s, std::size_t p, std::size_t end) {
  for (;; ++s) {
    if (const End rest = match_here(s, end + 1)) return rest;
    if (!item_matches(s, p, end)) return std::nullopt;
  }
}

LuaMatcher::End LuaMatcher::match_capture(std::size_t s, std::size_t p, std::ptrdiff_t size) {
  if (num_captures_ >= kMaxCaptures) luaL_error(L_, "too many captures");
  captures_[static_cast<std::size_t>(num_captures_++)] = {s, size};
  const End rest = match_here(s, p);
  if (!rest) --num_captures_;
  return rest;
}

LuaMatcher::End LuaMatcher::match_capture_end(std::size_t s, std::size_t p) {
  int open = num_captures_ - 1;
  while (open >= 0 && captures_[static_cast<std::size_t>(open)].size != kOpen) --open;
  if (open < 0) luaL_error(L_, "invalid pattern capture");
  Capture& capture = captures_[static_cast<std::size_t>(open)];
  capture.size = static_cast<std::ptrdiff_t>(s - capture.begin);
  const End rest = match_here(s, p);
  if (!rest) capture.size = kOpen;
  return rest;
}

// %bxy at p: the text from an x to its y.
LuaMatcher::End LuaMatcher::balanced(std::size_t s, std::size_t p) {
  if (p + 1 >= pattern_.size()) luaL_error(L_, "malformed pattern (missing arguments to '%%b')");
  if (s >= subject_.size() || subject_[s] != pattern_[p]) return std::nullopt;
  const char open = pattern_[p], close = pattern_[p + 1];
  std::size_t depth = 1;
  for (++s; s < subject_.size(); ++s) {
    step();
    if (subject_[s] == close) {
      if (--depth == 0) return s + 1;
    } else if (subject_[s] == open) {
      ++depth;
    }
  }
  return std::nullopt;
}

// %f[set]: between a character outside of the set and one in it; '\0' stands beyond both ends.
bool LuaMatcher::frontier(std::size_t s, std::size_t p, std::size_t end) const {
  const auto before = static_cast<unsigned char>(s == 0 ? '\0' : subject_[s - 1]);
  const auto behind = static_cast<unsigned char>(s < subject_.size() ? subject_[s] : '\0');
  return !set_has(before, p, end) && set_has(behind, p, end);
}

LuaMatcher::End LuaMatcher::back_reference(std::size_t s, char digit) {
  const int index = digit - '1';
  if (index < 0 || index >= num_captures_ || captures_[static_cast<std::size_t>(index)].size < 0) {
    if (index >= 0 && index < num_captures_ && captures_[static_cast<std::size_t>(index)].size == kPosition) {
      return std::nullopt;  // a position has no text
    }
    luaL_error(L_, "invalid capture index %%%d", index + 1);
  }
  const Capture& capture = captures_[static_cast<std::size_t>(index)];
  const auto text = subject_.substr(capture.begin, static_cast<std::size_t>(capture.size));
  steps_ += static_cast<int>(text.size() / kTextBytesPerStep);
  return subject_.substr(s).starts_with(text) ? End(s + text.size()) : End();
}

void LuaMatcher::push_capture(int index, std::size_t begin, std::size_t end) {
  if (index >= num_captures_) {
    if (index != 0) luaL_error(L_, "invalid capture index %%%d", index + 1);
    lua_pushlstring(L_, subject_.data() + begin, end - begin);
    return;
  }
  const Capture& capture = captures_[static_cast<std::size_t>(index)];
  if (capture.size == kOpen) luaL_error(L_, "unfinished capture");
  if (capture.size == kPosition) {
    lua_pushinteger(L_, static_cast<lua_Integer>(capture.begin) + 1);
  } else {
    lua_pushlstring(L_, subject_.data() + capture.begin, static_cast<std::size_t>(capture.size));
  }
}

int LuaMatcher::push_captures(std::size_t begin, std::size_t end) {
  const int count = num_captures_ == 0 ? 1 : num_captures_;
  luaL_checkstack(L_, count, "too many captures");
  for (int i = 0; i < count; ++i) push_capture(i, begin, end);
  return count;
}

}  // namespace mortise
