// runtime/engine/setup.hpp: the objects that an engine builds from its parts and sizes (planner, drafting, KV, ...). A
// swap replaces some of them, or all of them if sizes change. Engine's thread only.
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

// The limits and names that requests are checked against. A swap publishes new ones; front ends read them on any
// thread. Immutable once published.
struct RequestTerms {
  EngineLimits limits;
  std::vector<std::string> proposers;  // names, in the order in which they are asked
};

// Arguments that all objects of a Setup need besides the parts. Outlives them.
struct SetupContext {
  std::int32_t vocab_size;
  RepeatedMessages& messages;
  const EngineHooks& hooks;
};

// All objects that depend on the sizes of a pipeline. Invariant: they all use the same sizes. Engine's thread only.
struct Setup {
  // Throws a PartError. `generation`: as in Execution's constructor.
  Setup(const Parts& parts, const EngineLimits& sizes, const SetupContext& context, std::uint64_t generation);

  EngineLimits limits;  // the objects below refer to it; sizes never change
  std::unique_ptr<SequenceKv> kv;
  std::unique_ptr<Planner> planner;
  std::unique_ptr<Drafting> drafting;
  StepRows rows;
  RowWork row_work;
  std::unique_ptr<Execution> execution;
};

}  // namespace mortise
