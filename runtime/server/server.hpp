// runtime/server/server.hpp: listens, and serves connections until a signal ends it. What is asked and answered:
// router.hpp and whoever fills one.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
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

#include "server/connection.hpp"

namespace mortise {

class Server {
 public:
  // Listens; connections wait until run(). Throws an Error: of the address, or of a certificate.
  // `answers` outlives the server.
  Server(ServerOptions options, Router router, HttpAnswers& answers);
  // Behind the end of all that answers its requests: their last answers may come when run() has returned.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const;  // "http://127.0.0.1:8000"
  // Whether SIGTERM or SIGINT has come. [any thread]
  bool draining() const { return state_.draining; }

  // Serves until SIGTERM or SIGINT. Then `drain` is called, which waits for what runs, and ends it at the deadline;
  // connections end behind their answers, and this returns. A second signal ends the process at once. At each SIGHUP
  // `reload` is called on a worker; it throws nothing.
  void run(const std::function<void(std::chrono::steady_clock::time_point deadline)>& drain,
           std::function<void()> reload);

 private:
  void run_io();
  boost::asio::awaitable<void> accept();
  void start(boost::asio::ip::tcp::socket socket);
  boost::asio::awaitable<void> wait_for_signal();
  boost::asio::awaitable<void> wait_for_hangups();
  void forget_ended();

  std::optional<boost::asio::ssl::context> tls_;
  boost::asio::thread_pool workers_;
  ServerState state_;
  boost::asio::io_context io_;  // behind what its connections use
  boost::asio::strand<boost::asio::io_context::executor_type> control_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::signal_set signals_, hangups_;
  std::function<void(std::chrono::steady_clock::time_point)> drain_;
  std::function<void()> reload_;
  std::thread drainer_;
  std::exception_ptr failure_;                        // of accept() or wait_for_signal(), for run()
  std::list<std::weak_ptr<Connection>> connections_;  // on control_
  std::atomic<std::size_t> num_connections_ = 0;
};

}  // namespace mortise
