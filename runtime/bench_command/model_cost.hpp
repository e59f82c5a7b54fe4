// runtime/bench_command/model_cost.hpp: what the steps of a model read and compute, from the tensors of its checkpoint.
#pragma once

#include "bench_command/cost.hpp"
#include "checkpoint/checkpoint.hpp"
#include "mortise/batch.h"

namespace mortise::bench {

// Products are with matrices, embeddings excepted; a head that is tied to them counts. Integer matrices count as what
// the device reads of them: their bits, and of each group a scale and a zero point. Those of a quantised checkpoint say
// so themselves; `dims` tells what becomes of the others. `kv_bytes`: of one position in one layer.
ModelCost model_cost(const Checkpoint& checkpoint, const mortise_model_dims& dims, double kv_bytes);

}  // namespace mortise::bench
