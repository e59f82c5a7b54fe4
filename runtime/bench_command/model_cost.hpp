// runtime/bench_command/model_cost.hpp: the bytes and operations of a model's steps, computed from the tensors of its
// checkpoint.
#pragma once

#include "bench_command/cost.hpp"
#include "checkpoint/checkpoint.hpp"
#include "mortise/batch.h"

namespace mortise::bench {

// Counts products with matrices. Embeddings count only if they are also the head. Integer matrices count as the bytes
// that the device reads: their bits, and a scale and a zero point for each group. Matrices of a quantised checkpoint
// define their own format; `dims` defines that of the others. `kv_bytes`: of one position in one layer.
// Of several ranks, `dims` and `kv_bytes` are those of one, and so is the result (docs/numerics.md, "Several ranks").
ModelCost model_cost(const Checkpoint& checkpoint, const mortise_model_dims& dims, double kv_bytes,
                     std::int32_t num_ranks = 1);

}  // namespace mortise::bench
