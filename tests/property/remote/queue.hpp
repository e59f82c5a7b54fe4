// queue.hpp: work that waits until somebody waits for it, and the extension by which the attention queues its own.
#pragma once

#include <functional>

#include "mortise/device.h"

namespace mortise::test {

// Returns what the operation returns; its error goes into the given one.
using Work = std::function<mortise_status(mortise_error*)>;

#define MORTISE_EXT_REMOTE "mortise.test.remote/1"

struct RemoteTable {
  // Runs `work`, with the device's memory open, when the host waits; or puts it into the graph that is being captured.
  mortise_status (*queue)(mortise_device* device, Work work, mortise_error* error);
};

}  // namespace mortise::test
