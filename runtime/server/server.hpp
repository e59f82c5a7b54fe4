// runtime/server/server.hpp: serves the connections of a listening socket until a signal ends it or another process
// takes the socket over. What is asked and answered: router.hpp and whoever fills one.
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

class Server {
 public:
  // Connections of `listening` wait until run(). Throws an Error: of a certificate. `answers` outlives the server.
  Server(ServerOptions options, Router router, HttpAnswers& answers, FileDescriptor listening);
  // Behind the end of all that answers its requests: their last answers may come when run() has returned.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const;  // "http://127.0.0.1:8000"
  // Whether SIGTERM or SIGINT has come, or another process serves in the place of this one. [any thread]
  bool draining() const { return state_.draining || state_.handed_over; }

  struct Hooks {
    // Waits for what runs, and ends it at the deadline.
    std::function<void(std::chrono::steady_clock::time_point deadline)> drain;
    // Connections are accepted now. On a thread of its own. What it throws ends the server as SIGTERM does, and is
    // thrown by run(). Empty: nobody asks.
    std::function<void()> serving = {};
    // SIGHUP has come. On a worker; throws nothing. Empty: the signal is ignored.
    std::function<void()> reload = {};
  };
  // Serves until SIGTERM, SIGINT or hand_over(). Then `drain` is called; connections end behind their answers, and this
  // returns. A second signal ends the process at once.
  void run(const Hooks& hooks);

  // A copy of the listening socket; none when the server does not listen any more. [any thread, while run() runs or has
  // returned]
  FileDescriptor listener();
  // Another process accepts this one's connections: this one accepts none from now on. The open ones have kHandOverTime
  // to bring one more request each, which is served; then it ends as at SIGTERM. Returns when nothing is accepted any
  // more. [as listener()]
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
  boost::asio::io_context io_;  // behind what its connections use
  boost::asio::strand<boost::asio::io_context::executor_type> control_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::signal_set signals_, hangups_;
  std::atomic<bool> ended_ = false;  // nothing runs on control_ any more
  std::thread starter_, drainer_;

  // On control_ from here on.
  boost::asio::steady_timer news_;  // cancelled when one of the next three, or state_, has changed
  bool stops_ = false;              // a signal has come, or `serving` has failed
  Clock::time_point handed_over_at_;
  std::function<void(Clock::time_point)> drain_;
  std::function<void()> reload_;
  std::exception_ptr failure_;  // for run()
  std::list<std::weak_ptr<Connection>> connections_;
  std::atomic<std::size_t> num_connections_ = 0;
};

}  // namespace mortise
