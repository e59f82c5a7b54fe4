#include "pipeline/lua_patterns.hpp"

#include <string.h>

#include <cctype>
#include <string_view>

#include "lauxlib.h"
#include "pipeline/lua_matcher.hpp"

namespace mortise {
namespace {

constexpr std::size_t kNowhere = ~std::size_t{0};

std::string_view text_at(lua_State* L, int index) {
  std::size_t size = 0;
  const char* data = luaL_checklstring(L, index, &size);
  return {data, size};
}

// Where a search begins, counted from 0, by the optional position at `index`: negative ones count from the end.
std::size_t start_at(lua_State* L, int index, std::size_t size) {
  const lua_Integer given = luaL_optinteger(L, index, 1);
  if (given > 0) return static_cast<std::size_t>(given) - 1;
  const auto length = static_cast<lua_Integer>(size);
  return given == 0 || given < -length ? 0 : static_cast<std::size_t>(length + given);
}

bool take_anchor(std::string_view& pattern) {
  const bool anchored = pattern.starts_with('^');
  if (anchored) pattern.remove_prefix(1);
  return anchored;
}

int push_range(lua_State* L, std::size_t begin, std::size_t end) {
  lua_pushinteger(L, static_cast<lua_Integer>(begin) + 1);
  lua_pushinteger(L, static_cast<lua_Integer>(end));
  return 2;
}

// memmem takes linear time; the library's search takes the product of both lengths.
int find_plain(lua_State* L, std::string_view text, std::string_view wanted, std::size_t begin) {
  const void* found = ::memmem(text.data() + begin, text.size() - begin, wanted.data(), wanted.size());
  if (found == nullptr) {
    luaL_pushfail(L);
    return 1;
  }
  const auto at = static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  return push_range(L, at, at + wanted.size());
}

int find_or_match(lua_State* L, bool is_find) {
  const std::string_view text = text_at(L, 1);
  std::string_view pattern = text_at(L, 2);
  const std::size_t start = start_at(L, 3, text.size());
  if (start > text.size()) {
    luaL_pushfail(L);
    return 1;
  }
  const bool plain = lua_toboolean(L, 4) != 0 || pattern.find_first_of("^$*+?.([%-") == std::string_view::npos;
  if (is_find && plain) return find_plain(L, text, pattern, start);
  const bool anchored = take_anchor(pattern);
  LuaMatcher matcher(L, text, pattern);
  for (std::size_t begin = start; begin <= text.size(); ++begin) {
    if (const auto end = matcher.match(begin)) {
      if (!is_find) return matcher.push_captures(begin, *end);
      push_range(L, begin, *end);
      return 2 + (matcher.num_captures() == 0 ? 0 : matcher.push_captures(begin, *end));
    }
    if (anchored) break;
  }
  luaL_pushfail(L);
  return 1;
}

int find(lua_State* L) {
  return find_or_match(L, /*is_find=*/true);
}

int match(lua_State* L) {
  return find_or_match(L, /*is_find=*/false);
}

struct GmatchState {
  std::size_t begin;
  std::size_t last_end;  // an empty match does not follow at once on the match before it
};

int next_match(lua_State* L) {  // Upvalues: text, pattern, GmatchState.
  const std::string_view text = text_at(L, lua_upvalueindex(1));
  auto& state = *static_cast<GmatchState*>(lua_touserdata(L, lua_upvalueindex(3)));
  LuaMatcher matcher(L, text, text_at(L, lua_upvalueindex(2)));
  for (std::size_t begin = state.begin; begin <= text.size(); ++begin) {
    const auto end = matcher.match(begin);
    if (!end || *end == state.last_end) continue;
    state = {*end, *end};
    return matcher.push_captures(begin, *end);
  }
  state.begin = text.size() + 1;
  return 0;
}

int gmatch(lua_State* L) {
  const std::size_t size = text_at(L, 1).size();
  text_at(L, 2);
  const std::size_t start = start_at(L, 3, size);
  lua_settop(L, 2);
  *static_cast<GmatchState*>(lua_newuserdatauv(L, sizeof(GmatchState), 0)) = {start, kNowhere};
  lua_pushcclosure(L, &next_match, 3);
  return 1;
}

// The replacement text at index 3, with %0 to %9 and %% in it.
void add_replacement(lua_State* L, luaL_Buffer* out, LuaMatcher& matcher, std::string_view text, std::size_t begin,
                     std::size_t end) {
  std::string_view rest = text_at(L, 3);
  for (std::size_t at = rest.find('%'); at != rest.npos; at = rest.find('%')) {
    luaL_addlstring(out, rest.data(), at);
    const char kind = at + 1 < rest.size() ? rest[at + 1] : '\0';
    if (kind == '%') {
      luaL_addchar(out, '%');
    } else if (kind == '0') {
      luaL_addlstring(out, text.data() + begin, end - begin);
    } else if (std::isdigit(static_cast<unsigned char>(kind)) != 0) {
      matcher.push_capture(kind - '1', begin, end);
      luaL_tolstring(L, -1, nullptr);  // a position is a number
      lua_remove(L, -2);
      luaL_addvalue(out);
    } else {
      luaL_error(L, "invalid use of '%%' in replacement string");
    }
    rest.remove_prefix(at + 2);
  }
  luaL_addlstring(out, rest.data(), rest.size());
}

// What the text, function or table at index 3 makes of a match; false: it stays as it was.
bool add_value(lua_State* L, luaL_Buffer* out, LuaMatcher& matcher, std::string_view text, std::size_t begin,
               std::size_t end) {
  switch (lua_type(L, 3)) {
    case LUA_TFUNCTION:
      lua_pushvalue(L, 3);
      lua_call(L, matcher.push_captures(begin, end), 1);
      break;
    case LUA_TTABLE:
      matcher.push_capture(0, begin, end);
      lua_gettable(L, 3);
      break;
    default:
      add_replacement(L, out, matcher, text, begin, end);
      return true;
  }
  if (lua_toboolean(L, -1) == 0) {
    lua_pop(L, 1);
    luaL_addlstring(out, text.data() + begin, end - begin);
    return false;
  }
  if (lua_isstring(L, -1) == 0) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  luaL_addvalue(out);
  return true;
}

int gsub(lua_State* L) {
  const std::string_view text = text_at(L, 1);
  std::string_view pattern = text_at(L, 2);
  const int type = lua_type(L, 3);
  luaL_argexpected(L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                   "string/function/table");
  const lua_Integer max_count = luaL_optinteger(L, 4, static_cast<lua_Integer>(text.size()) + 1);
  lua_settop(L, 4);
  const bool anchored = take_anchor(pattern);
  LuaMatcher matcher(L, text, pattern);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  bool changed = false;
  lua_Integer count = 0;
  std::size_t begin = 0, last_end = kNowhere;
  while (count < max_count) {
    const auto end = matcher.match(begin);
    if (end && *end != last_end) {
      ++count;
      changed = add_value(L, &out, matcher, text, begin, *end) || changed;
      begin = last_end = *end;
    } else if (begin < text.size()) {
      luaL_addchar(&out, text[begin++]);
    } else {
      break;
    }
    if (anchored) break;
  }
  if (changed) {
    luaL_addlstring(&out, text.data() + begin, text.size() - begin);
    luaL_pushresult(&out);
  } else {
    lua_pushvalue(L, 1);
  }
  lua_pushinteger(L, count);
  return 2;
}

}  // namespace

void set_pattern_functions(lua_State* L) {
  static constexpr luaL_Reg kFunctions[] = {
      {"find", &find}, {"match", &match}, {"gmatch", &gmatch}, {"gsub", &gsub}, {nullptr, nullptr}};
  luaL_setfuncs(L, kFunctions, 0);
}

}  // namespace mortise
