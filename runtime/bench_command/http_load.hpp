// runtime/bench_command/http_load.hpp: streams from a server that speaks OpenAI's API, ours or another, over plain
// HTTP. Reads as little of the answers as it can: it shares the processors with the server that it measures.
#pragma once

#include <string>
#include <vector>

#include "engine/request.hpp"

namespace mortise::bench {

struct HttpAddress {
  std::string host, port;
};
// Of "http://127.0.0.1:8000". Throws an Error.
HttpAddress parse_address(const std::string& url);

// Seconds from the sending of the first request, over connections that are open already.
struct StreamTimes {
  double all_first_s = 0;  // every stream had its first event
  double end_s = 0;        // every stream had its [DONE]
};

// Asks /v1/completions for all of them at once, as streams, and waits for their ends. Throws an Error when one
// fails: an error event, an early end, or another number of tokens than asked for (the server must know `ignore_eos`
// and `stream_options.include_usage`).
StreamTimes run_streams(const HttpAddress& address, const std::string& model, const std::vector<Request>& requests);

}  // namespace mortise::bench
