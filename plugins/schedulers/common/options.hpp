// plugins/schedulers/common/options.hpp: the options that all built-in schedulers have.
#pragma once

#include "mortise/plugin.hpp"
#include "schedulers/common/planner.hpp"

namespace mortise::scheduling {

inline constexpr const char* kLimitsSchema = R"schema({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "max_num_seqs": {"title": "maximum number of sequences that run at a time", "type": "integer", "minimum": 1,
                     "maximum": 65536, "default": 64},
    "max_batched_tokens": {"title": "maximum number of rows in one step; longer prompts are computed in chunks",
                           "type": "integer", "minimum": 1, "maximum": 1048576, "default": 2048}
  }
})schema";

inline Limits limits_of(const Options& options) {
  return {options.get<int32_t>("max_num_seqs"), options.get<int32_t>("max_batched_tokens")};
}

}  // namespace mortise::scheduling
