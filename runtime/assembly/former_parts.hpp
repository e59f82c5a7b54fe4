// runtime/assembly/former_parts.hpp: what served before the parts that serve now, as far as it comes back when they
// fail.
#pragma once

#include <optional>
#include <vector>

#include "assembly/swap_options.hpp"
#include "pipeline/description.hpp"

namespace mortise {

// Descriptions, of which parts are made anew: an instance that was kept would know nothing of the sequences that came
// and ended since, and a draft model or a KV cache would take its memory all the time. Their plugins' images stay
// loaded for ever, so no file is read again. A part stays here until the next swap of its kind: that one is the way
// back then.
class FormerParts {
 public:
  // `before` is replaced by `after`: of the kinds that differ, the former part is now that of `before`, or none where
  // `options` wish no fallback.
  void remember(const PipelineDescription& before, const PipelineDescription& after, const SwapOptions& options);
  std::vector<PartKind> kinds() const;  // those with a way back
  // `running` with the former part of that kind, which has no way back from then on. REQUIRES: kinds() has it.
  PipelineDescription take(PartKind kind, PipelineDescription running);

 private:
  std::optional<PartDescription> device_, model_, attention_, scheduler_;
  std::optional<std::vector<PartDescription>> proposers_;
};

}  // namespace mortise
