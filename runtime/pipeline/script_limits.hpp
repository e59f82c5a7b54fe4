// runtime/pipeline/script_limits.hpp: what a pipeline script may use.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mortise {

// For one call into Lua.
struct LuaBudget {
  std::int64_t instructions;           // see lua_state.hpp for what counts as one
  std::chrono::milliseconds cpu_time;  // of the thread
};

// The defaults are for people's scripts: about a second to load, which happens once, and a tenth for a callback, which
// runs while a request waits. The times are longer, for slow machines: they end what instructions do not measure.
// Neither interrupts a C function. So whoever needs a callback waits for it at most `callback_wait`, which is longer
// than its CPU time because a busy machine must not fail a good script.
struct ScriptLimits {
  std::size_t memory_bytes = std::size_t{64} << 20;
  LuaBudget load{100'000'000, std::chrono::seconds(20)};
  LuaBudget callback{10'000'000, std::chrono::seconds(5)};
  std::chrono::milliseconds callback_wait = std::chrono::seconds(30);
};

}  // namespace mortise
