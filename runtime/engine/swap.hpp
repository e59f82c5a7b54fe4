// runtime/engine/swap.hpp: other parts in the place of those that an engine runs, between two of its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <string>

#include "engine/parts.hpp"
#include "loader/component.hpp"

namespace mortise {

struct Replacement;

// Parts that still run share memory and instances with what is made. Their user is told before something of them ends.
struct StepUse {
  std::function<void()> give_up_kv;       // what the KV memory holds is about to be lost
  std::function<void()> release_buffers;  // the model's or the attention's are about to move
};

// Makes a replacement; what it throws is thrown by Engine::swap, and nothing has changed then. [engine thread]
using MakeReplacement = std::function<Replacement(const StepUse& use)>;

struct SwapFigures {
  std::uint64_t generation = 0;    // swaps of this engine until now, this one included
  double pause_s = 0;              // in which no step ran although sequences were live
  std::size_t num_recomputed = 0;  // sequences that lost their KV; their tokens stay
};

// The way back from a part that fails: between two steps the engine takes what `make` makes, once. `why` says how the
// part failed. [engine thread; nothing here waits]
struct Fallback {
  MakeReplacement make;
  std::function<void(const std::string& why, const SwapFigures& figures)> taken;
  // Nothing could be made: the engine goes on as if there were no way back.
  std::function<void(const std::string& why, const std::string& error)> refused;
};
using Fallbacks = std::map<PartKind, Fallback>;  // by the kind of the part that fails

// What takes the place of an engine's parts.
struct Replacement {
  // All parts, active. Those that are not replaced are the running ones. With other limits scheduler and proposers are
  // new, because they were activated for the old ones.
  Parts parts;
  EngineLimits limits;
  // The attention finds the running sequences' KV where the one before it left it, and reads its layout.
  bool same_kv = false;
  // Called when the engine runs these parts. Without the call the destructor of what it captured undoes the rest.
  std::function<void()> taken = [] {};
  Fallbacks fallbacks = {};  // from these parts, in the place of those that the engine has
};

// A swap on its way to the engine's thread.
struct SwapOrder {
  MakeReplacement make;
  std::promise<SwapFigures> done;
};

}  // namespace mortise
