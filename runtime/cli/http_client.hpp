// runtime/cli/http_client.hpp: sends one request to a server over HTTP or HTTPS, for mortise ctl.
#pragma once

#include <string>

namespace mortise {

struct HttpQuestion {
  // Scheme, host and port: "http://127.0.0.1:8000", "https://example.org".
  std::string url;      // "http://127.0.0.1:8000", "https:
  std::string ca_file;  // for https: certificates of trusted authorities; empty: the system's
  std::string method;   // "GET", "POST"
  std::string path;
  std::string key;  // empty: no key is sent
  std::string body;
};

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

// Waits for the answer. Throws an Error for an invalid url, and with kUnavailable if the server cannot be reached, has
// the wrong certificate, or does not answer.
HttpReply ask_http(const HttpQuestion& question);

}  // namespace mortise
