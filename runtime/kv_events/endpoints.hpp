// runtime/kv_events/endpoints.hpp: the endpoints for each model's KV events, if several models share the options.
#pragma once

#include <cstddef>
#include <string>

namespace mortise {

struct KvEndpoints {
  std::string publish;  // --kv-events
  std::string replay;   // --kv-events-replay; empty: no replay
};

// Returns the endpoints of the model with this index; `first` are those of model 0. Ports rise by one for each model,
// as vLLM's do for each data parallel rank. They rise by two when the two given ports are neighbours: otherwise model 1
// would publish at the port where model 0 answers replay requests. Port * stays (each socket takes a free port), and
// endpoints other than tcp:// get a suffix. Throws an Error when a port is above 65535, or when an endpoint is the
// other kind of endpoint of a model up to `index`.
KvEndpoints endpoints_of_model(const KvEndpoints& first, std::size_t index);

}  // namespace mortise
