// plugins/kernels/cuda/layer_tail.hpp: what a layer of a small model computes between two calls of attention, in one
// kernel instead of six, with the bits of these launches one after another:
//   launch_linear_stream   y = o(x)
//   launch_norm            residual += y, hidden = norm(residual)
//   launch_gated_stream    activated = act(gate(hidden)) * up(hidden)
//   launch_linear_stream   y = down(activated)
//   launch_norm            residual += y, hidden = norm(residual)
//   launch_linear_stream   the next layer's q, k and v of hidden; absent after the last layer
// For a few rows each of those takes about two microseconds, mostly the hand-over from kernel to kernel. Here sixteen
// thread blocks are a cluster, and send their columns into each other's shared memory. All weights are requested before
// the preceding kernels have ended, so they must fit into the shared memory of these blocks.
// Shapes: all matrices bf16, m <= 8; serves_layer_tail() says which. y of both products, and out of both norms, is one
// matrix, so y is never read and is not written. Rows, weights and norms begin at multiples of 16 bytes.
// Order: as linear_mma.hpp and rows.hpp.
// Cost: 8 us, of which the six launches take 13 (the demo model at batch 1, H100). K of `down` sets a part of it: its
// instructions wait for each other.
// REQUIRES: no kernel that may still run writes the weights, biases or norm weights.
// Errors: the cudaError_t of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Source: PTX ISA, thread block clusters, st.async. Oracle: those launches, bitwise
// (tests/plugins/kernels/cuda/layer_tail_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/linear_mma.hpp"
#include "kernels/cuda/rows.hpp"

namespace mortise::cuda {

struct LayerTail {
  LinearArgs o;
  NormArgs after_attention;
  LinearArgs gate_up;  // as launch_gated_stream takes it
  Activation activation;
  LinearArgs down;
  NormArgs after_mlp;
  LinearArgs next;  // n = 0: absent
};

// Whether the kernel serves these shapes, and each operation reads what the one before it writes.
bool serves_layer_tail(const LayerTail& tail);

// REQUIRES: serves_layer_tail(tail), and prepare_layer_tail() has set `available`.
cudaError_t launch_layer_tail(const LayerTail& tail, cudaStream_t stream);

// Once, before any launch. `available`: whether the GPU can run clusters of this size.
cudaError_t prepare_layer_tail(bool& available);

}  // namespace mortise::cuda
