#include "engine/setup.hpp"

namespace mortise {

Setup::Setup(const Parts& parts, const EngineLimits& sizes, const SetupContext& context, std::uint64_t generation)
    : limits(sizes),
      kv(std::make_unique<SequenceKv>(limits, context.hooks.kv_observer)),
      planner(std::make_unique<Planner>(parts.scheduler, limits, context.messages)),
      drafting(std::make_unique<Drafting>(parts.proposers, limits, context.vocab_size, context.messages,
                                          context.hooks.clock)),
      rows(limits.batch_expansion),
      row_work(context.vocab_size, limits.rejection),
      execution(std::make_unique<Execution>(parts.shards(), limits, generation, std::function<void()>{},
                                            context.hooks.warm_up)) {}

}  // namespace mortise
