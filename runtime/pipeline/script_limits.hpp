// runtime/pipeline/script_limits.hpp: the limits of pipeline scripts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mortise {

// The budget of one call into Lua.
struct LuaBudget {
  std::int64_t instructions;           // lua_state.hpp says what counts as an instruction
  std::chrono::milliseconds cpu_time;  // of the thread
};

// The default instructions suit scripts that people write: about a second to load the script, and a tenth of a second
// for a callback, for which a request waits. The CPU times are longer, for slow machines; they end operations that no
// instruction measures. Neither limit interrupts a C function, so callers wait for a callback at most `callback_wait`.
// That is longer than its CPU time, because a busy machine must not fail a good script.
struct ScriptLimits {
  std::size_t memory_bytes = std::size_t{64} << 20;
  LuaBudget load{100'000'000, std::chrono::seconds(20)};
  LuaBudget callback{10'000'000, std::chrono::seconds(5)};
  std::chrono::milliseconds callback_wait = std::chrono::seconds(30);
};

}  // namespace mortise
