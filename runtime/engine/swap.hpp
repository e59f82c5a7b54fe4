// runtime/engine/swap.hpp: the types of a swap, which replaces the parts of a running engine between two of its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "engine/parts.hpp"
#include "engine/request.hpp"
#include "error.hpp"
#include "execution/difference.hpp"
#include "loader/component.hpp"

namespace mortise {

struct Replacement;

// The new parts may share memory and instances with the serving parts. MakeReplacement and Replacement::fit call these
// functions before they take something away from the serving parts. [engine's thread]
struct StepUse {
  std::function<void()> give_up_kv = [] {};       // the contents of the KV memory are about to be lost
  std::function<void()> release_buffers = [] {};  // buffers of the model or the attention are about to move
  // Takes in requests and runs one step of the serving parts, so that streams continue while the new parts are made.
  // Call it only while no part is in a call. Does nothing once give_up_kv or release_buffers was called.
  std::function<void()> step_meanwhile = [] {};
};

// Makes a replacement. If it throws, Engine::swap rethrows and nothing has changed. For a swap with verify_steps
// the new parts are made beside the serving parts: MakeReplacement calls nothing but use.step_meanwhile, a different
// attention or model gets its own KV memory, and shared parts keep their sizes until `fit` is called. [engine's thread]
using MakeReplacement = std::function<Replacement(const StepUse& use)>;

// What a swap with verify_steps compared. Only the kinds of parts that differ have figures.
struct VerifiedFigures {
  struct Plans {
    std::uint64_t num_plans = 0;
    double candidate_s = 0, serving_s = 0;  // for all plans, including the host's own work and checks
  };
  struct Drafts {
    std::uint64_t num_drafts = 0, num_accepted = 0;
    double seconds = 0;  // in the proposers' calls
  };
  struct Proposals {
    Drafts candidate, serving;  // the candidate's drafts were compared with the tokens that came
  };
  std::optional<std::uint64_t> attention_rows;  // attention outputs, of all layers
  std::optional<std::uint64_t> model_rows;      // hidden rows that need logits, each with its logits
  std::optional<Plans> scheduler;
  std::optional<Proposals> proposer;
};

// The difference for which a swap with verify_steps was refused, and where it is.
struct SwapDifference {
  std::string part;        // the candidate: "attention 'mine'"
  std::uint64_t step = 0;  // of the engine
  std::int32_t num_equal_steps = 0, verify_steps = 0;
  std::optional<RequestId> request = {};  // the request of the sequence at fault, if there is one
  std::int32_t choice = 0;
  // Complete for an attention or a model. If no row or element is to blame, only its texts are set.
  Difference difference = {};
};

// Thrown when the candidate computed something else or broke a bound, so the swap is refused. A value: each thread has
// its own.
class DifferenceError : public Error {
 public:
  explicit DifferenceError(SwapDifference where);
  const SwapDifference& where() const { return where_; }

 private:
  SwapDifference where_;
};

struct SwapFigures {
  std::uint64_t generation = 0;     // number of swaps of this engine, this one included
  double pause_s = 0;               // largest time without a step while sequences were live
  double largest_gap_s = 0;         // between two tokens of one sequence, see GapWatch
  std::size_t num_recomputed = 0;   // sequences that lost their KV; their tokens stay
  std::int32_t verified_steps = 0;  // steps compared before the swap
  VerifiedFigures verified;
};

// The way back from a part that fails: between two steps the engine replaces it, once, by what `make` makes. `why` says
// how the part failed. [engine's thread; nothing here waits]
struct Fallback {
  MakeReplacement make;
  // Called after the fallback, once every sequence that it delayed has its next token (gap_watch.hpp).
  std::function<void(const std::string& why, const SwapFigures& figures)> taken;
  // Called when `make` failed. The engine goes on as if there were no fallback.
  std::function<void(const std::string& why, const std::string& error)> refused;
};
using Fallbacks = std::map<PartKind, Fallback>;  // by kind of the failing part

// The parts and sizes that replace those of an engine.
struct Replacement {
  // All parts, active; parts that do not change are the serving parts. If sizes change, scheduler and proposers are
  // new, because they were activated for the old sizes.
  Parts parts;
  EngineLimits limits;
  // The new attention can read the running sequences' KV: it has the old attention's memory and layout.
  bool same_kv = false;
  // The engine calls this once it runs these parts. If it is never called, destroying the captured state restores the
  // previous parts.
  std::function<void()> taken = [] {};
  // Only for a swap with verify_steps: gives shared parts the sizes of `limits`, as the first act of the exchange. If
  // it throws an Error, nothing has changed.
  std::function<void(const StepUse& use)> fit = [](const StepUse&) {};
  Fallbacks fallbacks = {};  // from these parts; they replace the engine's fallbacks
};

// A swap on its way to the engine's thread.
struct SwapOrder {
  MakeReplacement make;
  std::int32_t verify_steps = 0;  // 0: at once
  std::stop_token cancel = {};
  std::promise<SwapFigures> done;
};

}  // namespace mortise
