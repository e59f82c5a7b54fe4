// runtime/pipeline/lua_globals.hpp: the global variables that a compiled Lua script names, without running it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// A global variable that a function of the script reads or writes.
struct GlobalUse {
  std::string name;
  int line = 0;
  bool written = false;
  bool in_function = false;          // and not in the body of the script itself
  std::vector<std::string> visible;  // local variables and upvalues of the function, of which it may be a misspelling
};

// Of `chunk`, the bytes that lua_dump writes with debug information. Finds what the compiler made of a plain name: an
// access of _ENV with a constant. Throws an Error (kInternal) when the bytes are not those of Lua 5.4.
std::vector<GlobalUse> find_globals(std::string_view chunk);

}  // namespace mortise
