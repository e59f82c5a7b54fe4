// runtime/server/connection.hpp: a client's connection: reads requests, passes them to handlers, and sends the answers.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>

#include "server/api_keys.hpp"
#include "server/cors.hpp"
#include "server/metrics.hpp"
#include "server/options.hpp"
#include "server/router.hpp"

namespace mortise {

// The state that all connections of a server share. Outlives them.
struct ServerState {
  const ServerOptions options;
  const Router router;
  const ApiKeys api_keys, admin_keys;
  const Cors cors;
  boost::asio::thread_pool &workers, &waiters;
  HttpAnswers& answers;
  std::atomic<std::size_t> body_bytes = 0;  // bytes of bodies in memory
  // Another process accepts connections now; each connection here ends after its next answer.
  std::atomic<bool> handed_over = false;
  std::atomic<bool> draining = false;  // new work is refused
  std::atomic<bool> closing = false;   // each connection ends after its answer
};

// A connection as the server sees it. Its work runs on the strand of its socket. Invariant: it handles one request at a
// time.
class Connection {
 public:
  virtual ~Connection() = default;
  // Ends the connection if it has no request in progress. [any thread]
  virtual void close_if_idle() = 0;
  // Ends the connection at once. [any thread]
  virtual void close() = 0;
};

// Serves the connection until it ends, then calls `ended`. The socket's executor is a strand of its own. `tls` null:
// plain HTTP. `refused`: there are too many connections; the client is told so, and nothing is read.
std::shared_ptr<Connection> start_connection(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls,
                                             ServerState& state, bool refused, std::function<void()> ended);

}  // namespace mortise
