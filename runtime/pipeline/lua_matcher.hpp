// runtime/pipeline/lua_matcher.hpp: Lua's patterns (manual, section 6.4.1) with a bound on the work. The library's own
// matcher backtracks inside one C call, where no limit reaches it: ("a"):rep(100):find((".-"):rep(20) .. "b") takes
// longer than the universe is old. This one pays for each step from the state's budget.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "lua.h"

namespace mortise {

// Matches one pattern against one subject. Both must outlive it. All functions raise a Lua error for a malformed
// pattern (with the library's words), for one that needs too deep a recursion, and when the budget is used up.
class LuaMatcher {
 public:
  LuaMatcher(lua_State* L, std::string_view subject, std::string_view pattern)
      : L_(L), subject_(subject), pattern_(pattern) {}

  // The end of the match that begins at `begin`, with its captures; nullopt when there is none.
  std::optional<std::size_t> match(std::size_t begin);

  int num_captures() const { return num_captures_; }
  // Pushes capture `index`, a text or a position; without any captures 0 is the whole match, [begin, end).
  void push_capture(int index, std::size_t begin, std::size_t end);
  // Pushes all captures, or the whole match when there are none; returns how many.
  int push_captures(std::size_t begin, std::size_t end);

 private:
  using End = std::optional<std::size_t>;
  static constexpr int kMaxCaptures = 32;  // as LUA_MAXCAPTURES
  static constexpr std::ptrdiff_t kOpen = -1;
  static constexpr std::ptrdiff_t kPosition = -2;
  struct Capture {
    std::size_t begin;
    std::ptrdiff_t size;  // or kOpen, kPosition
  };

  char at(std::size_t p) const { return p < pattern_.size() ? pattern_[p] : '\0'; }
  void step();
  std::size_t item_end(std::size_t p);
  bool set_has(unsigned char c, std::size_t p, std::size_t end) const;
  bool item_matches(std::size_t s, std::size_t p, std::size_t end);

  End match_here(std::size_t s, std::size_t p);
  End match_item(std::size_t& s, std::size_t& p, bool& go_on);
  End match_longest(std::size_t s, std::size_t p, std::size_t end);
  End match_shortest(std::size_t s, std::size_t p, std::size_t end);
  End match_capture(std::size_t s, std::size_t p, std::ptrdiff_t size);
  End match_capture_end(std::size_t s, std::size_t p);
  End balanced(std::size_t s, std::size_t p);
  bool frontier(std::size_t s, std::size_t p, std::size_t end) const;
  End back_reference(std::size_t s, char digit);

  lua_State* L_;
  std::string_view subject_, pattern_;
  int depth_ = 0;
  int num_captures_ = 0;
  int steps_ = 0;  // not yet paid for
  std::array<Capture, kMaxCaptures> captures_;
};

}  // namespace mortise
