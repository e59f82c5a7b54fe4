// runtime/bench_command/http_load.hpp: runs streams at a server that speaks OpenAI's API, ours or another, over plain
// HTTP. Parses as little of the answers as possible, because it shares the processors with the server that it measures.
#pragma once

#include <string>
#include <vector>

#include "engine/request.hpp"

namespace mortise::bench {

struct HttpAddress {
  std::string host, port;
};
// Parses "http://127.0.0.1:8000". Throws an Error.
HttpAddress parse_address(const std::string& url);

// Times in seconds from the sending of the first request, over connections that are already open.
struct StreamTimes {
  double all_first_s = 0;  // when every stream had had its first event
  double end_s = 0;        // when every stream had had its [DONE]
};

// Sends all requests to /v1/completions at once, as streams, and waits for their ends. Throws an Error if one fails: an
// error event, an early end, or a wrong number of tokens (the server must support `ignore_eos` and
// `stream_options.include_usage`).
StreamTimes run_streams(const HttpAddress& address, const std::string& model, const std::vector<Request>& requests);

}  // namespace mortise::bench
