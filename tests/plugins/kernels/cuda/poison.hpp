// poison.hpp: NaN wherever a kernel might read what it has not written.
#pragma once

namespace mortise::test {

// Fills the shared memory of all multiprocessors with NaN (as bf16 and as f32), where the next kernel finds it. Waits
// for what runs on the GPU, and returns when it is done.
void poison_shared_memory();

}  // namespace mortise::test
