// runtime/pipeline/lua_globals.hpp: finds the global variables of a compiled Lua script without running it.
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
  bool in_function = false;  // used in a function, not in the body of the script
  // Local variables and upvalues at that place, since the name may be a misspelling of one.
  std::vector<std::string> visible;
};

// Finds the globals of `chunk`, the output of lua_dump with debug information: accesses of _ENV with a constant key.
// Throws an Error (kInternal) if the bytes are not from Lua 5.4.
std::vector<GlobalUse> find_globals(std::string_view chunk);

}  // namespace mortise
