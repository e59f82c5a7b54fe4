// runtime/engine/setup.hpp: what an engine has made of its parts and their sizes. A swap replaces pieces of it, or with
// other sizes all of it. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/drafting.hpp"
#include "engine/hooks.hpp"
#include "engine/parts.hpp"
#include "engine/planner.hpp"
#include "engine/row_work.hpp"
#include "engine/sequence_kv.hpp"
#include "engine/step_rows.hpp"
#include "execution/execution.hpp"

namespace mortise {

// What a request must keep to. A swap publishes another one; front ends read it while the engine works.
struct RequestTerms {
  EngineLimits limits;
  std::vector<std::string> proposers;  // names, in their order
};

// What every piece is made with besides its part. Outlives the pieces.
struct SetupContext {
  std::int32_t vocab_size;
  RepeatedMessages& messages;
  const EngineHooks& hooks;
};

struct Setup {
  // Throws a PartError. `generation`: as Execution's.
  Setup(const Parts& parts, const EngineLimits& sizes, const SetupContext& context, std::uint64_t generation);

  EngineLimits limits;  // the pieces refer to it. Sizes stay
  std::unique_ptr<SequenceKv> kv;
  std::unique_ptr<Planner> planner;
  std::unique_ptr<Drafting> drafting;
  StepRows rows;
  RowWork row_work;
  std::unique_ptr<Execution> execution;
};

}  // namespace mortise
