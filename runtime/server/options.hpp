// runtime/server/options.hpp: the operator's settings of a server. Times are in seconds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mortise {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;              // 0: any free port
  std::vector<std::string> api_keys;      // a request needs one of them; empty: no key is needed
  std::vector<std::string> admin_keys;    // for /admin; empty: only this machine may use it
  std::string tls_certificate, tls_key;   // PEM files; empty: plain HTTP
  std::vector<std::string> cors_origins;  // "*": all; empty: browsers let no page of another origin read answers

  std::size_t max_connections = 1024;
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = 32 << 20;
  // For all bodies that are being read or wait to be read, so that strangers' connections cannot fill the memory.
  std::size_t max_bodies_bytes = 512 << 20;
  std::chrono::seconds idle_timeout{75};    // how long an open connection may have no request
  std::chrono::seconds header_timeout{10};  // from the first byte of a request to the end of its headers
  std::chrono::seconds body_timeout{60};    // from the end of the headers to the end of the body
  std::chrono::seconds write_timeout{60};   // how long a client may accept no data
  std::chrono::seconds request_timeout{0};  // deadline of requests that name none; 0: none
  std::chrono::seconds ping_interval{15};   // between comments in a stream without events
  std::chrono::seconds drain{30};           // from SIGTERM until running requests are aborted
};

}  // namespace mortise
