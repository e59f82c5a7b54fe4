// runtime/cli/http_client.hpp: one request to a server over HTTP or HTTPS, as mortise ctl makes it.
#pragma once

#include <string>

namespace mortise {

struct HttpQuestion {
  std::string url;      // "http://127.0.0.1:8000", "https://example.org": scheme, host and port, and nothing else of it
  std::string ca_file;  // of https: certificates of the authorities that are trusted; empty: the system's
  std::string method;   // "GET", "POST"
  std::string path;
  std::string key;  // empty: none is sent
  std::string body;
};

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

// Waits for the answer. Throws an Error: of a url that is none, and with kUnavailable when the server cannot be
// reached, is not who its certificate says, or does not answer.
HttpReply ask_http(const HttpQuestion& question);

}  // namespace mortise
