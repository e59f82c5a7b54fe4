// runtime/server/server.hpp: serves the connections of a listening socket until a signal ends it or another process
// takes the socket over. Requests are handled by the routes of a router (router.hpp).
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "file_descriptor.hpp"
#include "server/connection.hpp"

namespace mortise {

// An HTTP server. The thread that calls run() waits; io threads serve connections, workers run handlers, and a control
// strand handles the life of the server. Invariant: the stages of its end (draining, closing, handed over) change on
// that strand only.
class Server {
 public:
  // Connections to `listening` wait until run(). Throws an Error about the certificate. `answers` outlives the server.
  Server(ServerOptions options, Router router, HttpAnswers& answers, FileDescriptor listening);
  // REQUIRES: everything that answers its requests has ended; last answers may come after run() has returned.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const;  // "http://127.0.0.1:8000"
  // Whether SIGTERM or SIGINT has come, or another process serves now. [any thread]
  bool draining() const { return state_.draining || state_.handed_over; }

  struct Hooks {
    // Waits for running requests, and aborts them at the deadline.
    std::function<void(std::chrono::steady_clock::time_point deadline)> drain;
    // Called on a thread of its own when connections are accepted. An exception ends the server as SIGTERM does, and is
    // thrown by run(). May be empty.
    std::function<void()> serving = {};
    // Called on a worker after SIGHUP; throws nothing. Empty: the signal is ignored.
    std::function<void()> reload = {};
  };
  // Serves until SIGTERM, SIGINT or hand_over(). Then calls `drain`, lets connections end after their answers, and
  // returns. A second signal ends the process at once.
  void run(const Hooks& hooks);

  // A copy of the listening socket; invalid if the server does not listen any more. [any thread, while run() runs or
  // has returned]
  FileDescriptor listener();
  // Called when another process accepts connections instead. This server stops accepting. Each open connection may
  // bring one more request within kHandOverTime; then the server ends as after SIGTERM. Returns when no connection is
  // accepted any more. [as listener()]
  void hand_over();

 private:
  using Clock = std::chrono::steady_clock;

  void run_io();
  boost::asio::awaitable<void> accept();
  void start(boost::asio::ip::tcp::socket socket);
  void start_serving(const std::function<void()>& serving);
  void stop_accepting();
  boost::asio::awaitable<void> wait_for_end();
  boost::asio::awaitable<void> serve_open_connections();
  boost::asio::awaitable<void> drain();
  boost::asio::awaitable<void> end_connections();
  boost::asio::awaitable<void> wait_for_news(Clock::duration time);
  void close_idle_connections();
  boost::asio::awaitable<void> wait_for_hangups();
  void forget_ended();
  void call_on_control(std::function<void()> work);

  std::optional<boost::asio::ssl::context> tls_;
  boost::asio::thread_pool workers_, waiters_;
  ServerState state_;
  boost::asio::io_context io_;  // declared after everything that its connections use
  boost::asio::strand<boost::asio::io_context::executor_type> control_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::signal_set signals_, hangups_;
  std::atomic<bool> ended_ = false;  // no more work runs on control_
  std::thread starter_, drainer_;

  // The members below are used on control_.
  boost::asio::steady_timer news_;  // cancelled when state_ or one of the next three members has changed
  bool stops_ = false;              // a signal has come, or `serving` has failed
  Clock::time_point handed_over_at_;
  std::function<void(Clock::time_point)> drain_;
  std::function<void()> reload_;
  std::exception_ptr failure_;  // thrown by run()
  std::list<std::weak_ptr<Connection>> connections_;
  std::atomic<std::size_t> num_connections_ = 0;
};

}  // namespace mortise
