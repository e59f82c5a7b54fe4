// runtime/assembly/previous_parts.hpp: remembers the parts that served before the current ones, for a fallback when a
// current part fails. Engine's thread only.
#pragma once

#include <optional>
#include <vector>

#include "assembly/swap_options.hpp"
#include "pipeline/description.hpp"

namespace mortise {

// The previous part of each kind. It keeps descriptions, not instances: an instance would lack the sequences that came
// since, and a draft model or a KV cache would keep its memory. A fallback creates the part again; plugins are never
// unloaded, so no plugin file is read again. Invariant: each kind has at most one previous part, which the next swap of
// that kind replaces. Engine's thread only.
class PreviousParts {
 public:
  // `after` replaces `before`. For each kind that differs, the previous part is now that of `before`, or none if
  // `options` want no fallback.
  void remember(const PipelineDescription& before, const PipelineDescription& after, const SwapOptions& options);
  std::vector<PartKind> kinds() const;  // kinds with a previous part
  // Returns `running` with the previous part of that kind in it, and removes the previous part. REQUIRES: kinds() has
  // it.
  PipelineDescription take(PartKind kind, PipelineDescription running);

 private:
  std::optional<PartDescription> device_, model_, attention_, scheduler_;
  std::optional<std::vector<PartDescription>> proposers_;
};

}  // namespace mortise
