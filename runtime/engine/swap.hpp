// runtime/engine/swap.hpp: other parts in the place of those that an engine runs, between two of its steps.
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

// Parts that still run share memory and instances with what is made. Their user is told before something of them ends.
struct StepUse {
  std::function<void()> give_up_kv;       // what the KV memory holds is about to be lost
  std::function<void()> release_buffers;  // the model's or the attention's are about to move
};

// Makes a replacement; what it throws is thrown by Engine::swap, and nothing has changed then. For a swap with
// verify_steps it is made beside the running parts: it calls nothing of `use`, has KV memory of its own where the
// attention or the model is another, and leaves what it shares as it is until `fit` is called. [engine thread]
using MakeReplacement = std::function<Replacement(const StepUse& use)>;

// What a swap with verify_steps compared, of those kinds of parts that differ.
struct VerifiedFigures {
  struct Plans {
    std::uint64_t num_plans = 0;
    double candidate_s = 0, serving_s = 0;  // in all of them, with what the host makes and checks
  };
  struct Drafts {
    std::uint64_t num_draft_tokens = 0, num_accepted_tokens = 0;
    double seconds = 0;  // in the proposers' calls
  };
  struct Proposals {
    Drafts candidate, serving;  // the candidate's drafts were held against the tokens that came
  };
  std::optional<std::uint64_t> attention_rows;  // of outputs, in all layers
  std::optional<std::uint64_t> model_rows;      // hidden rows that want logits, each with its logits
  std::optional<Plans> scheduler;
  std::optional<Proposals> proposer;
};

// Why a swap with verify_steps was refused, and where.
struct SwapDifference {
  std::string part;        // the candidate: "attention 'mine'"
  std::uint64_t step = 0;  // of the engine
  std::int32_t num_equal_steps = 0, verify_steps = 0;
  std::optional<RequestId> request = {};  // whose sequence it was found in, if it was one
  std::int32_t choice = 0;
  // Of an attention or a model, and of what no row or element is to blame for the text alone.
  Difference difference = {};
};

// A candidate computed or decided something that refuses it.
class DifferenceError : public Error {
 public:
  explicit DifferenceError(SwapDifference where);
  const SwapDifference& where() const { return where_; }

 private:
  SwapDifference where_;
};

struct SwapFigures {
  std::uint64_t generation = 0;     // swaps of this engine until now, this one included
  double pause_s = 0;               // in which no step ran although sequences were live
  double largest_gap_s = 0;         // between two tokens of one sequence: see GapWatch
  std::size_t num_recomputed = 0;   // sequences that lost their KV; their tokens stay
  std::int32_t verified_steps = 0;  // that were compared before
  VerifiedFigures verified;
};

// The way back from a part that fails: between two steps the engine takes what `make` makes, once. `why` says how the
// part failed. [engine thread; nothing here waits]
struct Fallback {
  MakeReplacement make;
  // Called when the gaps that it caused have ended.
  std::function<void(const std::string& why, const SwapFigures& figures)> taken;
  // Nothing could be made: the engine goes on as if there were no way back.
  std::function<void(const std::string& why, const std::string& error)> refused;
};
using Fallbacks = std::map<PartKind, Fallback>;  // by the kind of the part that fails

// What takes the place of an engine's parts.
struct Replacement {
  // All parts, active. Those that are not replaced are the running ones. With other sizes scheduler and proposers are
  // new, because they were activated for the old ones.
  Parts parts;
  EngineLimits limits;
  // The attention finds the running sequences' KV where the one before it left it, and reads its layout.
  bool same_kv = false;
  // Called when the engine runs these parts. Without the call the destructor of what it captured undoes the rest.
  std::function<void()> taken = [] {};
  // Of a swap with verify_steps, whose parts were made beside the running ones: gives shared parts these limits' sizes,
  // before everything else of the exchange. Throws an Error: then nothing has changed.
  std::function<void(const StepUse& use)> fit = [](const StepUse&) {};
  Fallbacks fallbacks = {};  // from these parts, in the place of those that the engine has
};

// A swap on its way to the engine's thread.
struct SwapOrder {
  MakeReplacement make;
  std::int32_t verify_steps = 0;  // 0: at once
  std::stop_token cancel = {};
  std::promise<SwapFigures> done;
};

}  // namespace mortise
