// runtime/server/options.hpp: what an operator decides about a server. Times are seconds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mortise {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;              // 0: a free one
  std::vector<std::string> api_keys;      // any of them is taken; none: everybody is
  std::vector<std::string> admin_keys;    // for /admin; none: this machine alone may ask there
  std::string tls_certificate, tls_key;   // PEM files; empty: plain HTTP
  std::vector<std::string> cors_origins;  // "*": all; none: browsers let no page of another origin read answers

  std::size_t max_connections = 1024;
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = 32 << 20;
  // Of bodies that are being read or wait to be, all together: a stranger's connections cannot fill the memory.
  std::size_t max_bodies_bytes = 512 << 20;
  std::chrono::seconds idle_timeout{75};    // without a request on an open connection
  std::chrono::seconds header_timeout{10};  // from a request's first byte to the end of its headers
  std::chrono::seconds body_timeout{60};    // from there to the body's end
  std::chrono::seconds write_timeout{60};   // in which a client takes nothing of what is sent to it
  std::chrono::seconds request_timeout{0};  // a request's deadline when it names none; 0: never
  std::chrono::seconds ping_interval{15};   // of comments in a stream in which nothing happens
  std::chrono::seconds drain{30};           // from SIGTERM until running requests are cut off
};

}  // namespace mortise
