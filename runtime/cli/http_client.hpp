// runtime/cli/http_client.hpp: sends one request to a server over HTTP or HTTPS, for `mortise ctl` and the plugin
// index.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace mortise {

struct HttpQuestion {
  std::string url;      // scheme, host and port: "http://127.0.0.1:8000", "https://example.org"
  std::string ca_file;  // for https: certificates of trusted authorities; empty: the system's
  std::string method;   // "GET", "POST"
  std::string path;     // "/admin/parts"
  std::string key;      // empty: no key is sent
  std::string body;
  // How long the server may send nothing, or less than 1 KiB/s. 0: as long as it likes.
  std::chrono::seconds patience{0};
  std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();  // of the answer's body
};

struct HttpReply {
  unsigned status = 0;
  std::string body;
  std::string location;  // of a redirection; empty: none is given
};

// Sends the request and waits for the answer. Follows no redirection. Throws an Error for an invalid url, and one with
// kUnavailable if the server cannot be reached, has the wrong certificate, does not answer, or sends too much.
HttpReply ask_http(const HttpQuestion& question);

// Splits "https://example.org/a/b?c" into "https://example.org" and "/a/b?c".
std::pair<std::string, std::string> split_url(const std::string& url);

}  // namespace mortise
