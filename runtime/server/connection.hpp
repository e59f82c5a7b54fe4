// runtime/server/connection.hpp: one client's connection: reads requests, hands them to handlers, sends answers.
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

// What all connections of a server share. Outlives them.
struct ServerState {
  const ServerOptions options;
  const Router router;
  const ApiKeys api_keys, admin_keys;
  const Cors cors;
  boost::asio::thread_pool &workers, &waiters;
  HttpAnswers& answers;
  std::atomic<std::size_t> body_bytes = 0;  // of bodies in memory
  std::atomic<bool> handed_over = false;    // another process accepts; each connection ends after its next answer
  std::atomic<bool> draining = false;       // takes no more work
  std::atomic<bool> closing = false;        // each connection ends after its answer
};

class Connection {
 public:
  virtual ~Connection() = default;
  // Ends the connection if no request is on it. [any thread]
  virtual void close_if_idle() = 0;
  // Ends the connection whatever is on it. [any thread]
  virtual void close() = 0;
};

// Serves the connection until it ends; then `ended` is called. The socket's executor is a strand of its own. `tls`
// null: plain HTTP. `refused`: there are too many; the client is told so and nothing is read.
std::shared_ptr<Connection> start_connection(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls,
                                             ServerState& state, bool refused, std::function<void()> ended);

}  // namespace mortise
