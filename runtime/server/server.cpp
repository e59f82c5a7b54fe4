#include "server/server.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>
#include <utility>

#include "error.hpp"
#include "server/tls.hpp"

namespace mortise {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// For sending the last answers and closing connections, after all requests have ended.
constexpr std::chrono::seconds kCloseTime{5};
// From a hand-over until idle connections are closed. A request that a client sends at that moment would be lost. So
// connections in use get time for one more request, whose answer tells them that it was the last.
constexpr std::chrono::seconds kHandOverTime{5};
constexpr std::chrono::milliseconds kLook{20};  // interval between checks of the connections
// Connections beyond the limit that are refused with an answer at the same time. More are closed without an answer.
constexpr std::size_t kMaxRefusals = 64;
// Threads for swaps and reloads. A model makes one swap at a time and refuses others meanwhile, so a few threads
// suffice.
constexpr std::size_t kWaiters = 4;

std::size_t num_threads(std::size_t least) {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, least, 8);
}

ServerOptions with_room_for_a_body(ServerOptions options) {
  options.max_bodies_bytes = std::max(options.max_bodies_bytes, options.max_body_bytes);
  return options;
}

// Makes an acceptor for a descriptor that asio did not open. If asio had opened it, asio would leave it to the kernel
// to end its epoll events when it closes the descriptor; but another process has the socket, too, so the kernel would
// go on sending them.
tcp::acceptor acceptor_of(asio::io_context& io, FileDescriptor listening) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    fail("cannot listen at a socket without an address: {}", std::strerror(errno));
  }
  tcp::acceptor acceptor(io);
  acceptor.assign(at.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listening.release());
  return acceptor;
}

}  // namespace

Server::Server(ServerOptions options, Router router, HttpAnswers& answers, FileDescriptor listening)
    : tls_(options.tls_certificate.empty() ? std::optional<asio::ssl::context>()
                                           : load_tls(options.tls_certificate, options.tls_key)),
      workers_(num_threads(2)),
      waiters_(kWaiters),
      state_{with_room_for_a_body(options),
             std::move(router),
             ApiKeys(options.api_keys),
             ApiKeys(options.admin_keys),
             Cors(options.cors_origins),
             workers_,
             waiters_,
             answers},
      control_(asio::make_strand(io_)),
      acceptor_(acceptor_of(io_, std::move(listening))),
      signals_(io_, SIGTERM, SIGINT),
      hangups_(io_, SIGHUP),
      news_(io_) {}

Server::~Server() {
  if (drainer_.joinable()) drainer_.join();
  for (asio::thread_pool* threads : {&workers_, &waiters_}) {
    threads->stop();
    threads->join();
  }
}

std::string Server::url() const {
  const tcp::endpoint at = acceptor_.local_endpoint();
  const std::string address = at.address().to_string();
  return fmt::format("{}://{}:{}", tls_ ? "https" : "http", at.address().is_v6() ? "[" + address + "]" : address,
                     at.port());
}

void Server::run(const Hooks& hooks) {
  drain_ = hooks.drain;
  reload_ = hooks.reload;
  // Neither the accept loop nor `serving` may end silently: without the accept loop no client is served, and without
  // `serving` the process never ends.
  const auto end_with = [this](const std::exception_ptr& error) {
    if (!error) return;
    failure_ = error;
    io_.stop();
  };
  asio::co_spawn(control_, accept(), end_with);
  asio::co_spawn(control_, wait_for_end(), end_with);
  asio::co_spawn(control_, wait_for_hangups(), end_with);
  if (hooks.serving) asio::post(control_, [&] { start_serving(hooks.serving); });  // runs after accept() has begun
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < num_threads(1); ++i) threads.emplace_back([this] { run_io(); });
  run_io();
  for (std::thread& thread : threads) thread.join();
  ended_ = true;
  if (starter_.joinable()) starter_.join();
  // Bodies that wait to be parsed have no connection any more.
  for (asio::thread_pool* threads : {&workers_, &waiters_}) {
    threads->stop();
    threads->join();
  }
  if (failure_) std::rethrow_exception(failure_);
}

// Runs handlers. An exception from outside of a connection's coroutine ends that connection at most.
void Server::run_io() {
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception& error) {
      spdlog::error("a connection has failed: {}", error.what());
    }
  }
}

asio::awaitable<void> Server::accept() {
  while (acceptor_.is_open()) {
    boost::system::error_code error;
    tcp::socket socket =
        co_await acceptor_.async_accept(asio::make_strand(io_), asio::redirect_error(asio::use_awaitable, error));
    // Starts the connection even if the acceptor was closed meanwhile, since this client is connected. The number of
    // refusals is limited, too.
    if (!error && num_connections_ < state_.options.max_connections + kMaxRefusals) start(std::move(socket));
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) co_return;
    if (error) {  // for instance, no descriptors are left
      spdlog::warn("a connection cannot be accepted: {}", error.message());
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::use_awaitable);
    }
  }
}

void Server::start(tcp::socket socket) {
  forget_ended();
  const bool refused = ++num_connections_ > state_.options.max_connections;
  try {
    connections_.push_back(
        start_connection(std::move(socket), tls_ ? &*tls_ : nullptr, state_, refused, [this] { --num_connections_; }));
  } catch (const std::exception& error) {  // for instance, no memory is left
    --num_connections_;
    spdlog::warn("a connection cannot be served: {}", error.what());
  }
}

void Server::forget_ended() {
  if (connections_.size() <= 2 * num_connections_ + 16) return;
  std::erase_if(connections_, [](const auto& connection) { return connection.expired(); });
}

asio::awaitable<void> Server::wait_for_hangups() {
  while (!state_.draining) {
    boost::system::error_code error;
    co_await hangups_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    if (reload_) asio::post(workers_, reload_);
  }
}

void Server::start_serving(const std::function<void()>& serving) {
  const auto fail_with = [this](const std::exception_ptr& error) {
    failure_ = error;
    stops_ = true;
    news_.cancel();
  };
  try {
    starter_ = std::thread([this, &serving, fail_with] {
      try {
        serving();
      } catch (...) {
        asio::post(control_, [fail_with, error = std::current_exception()] { fail_with(error); });
      }
    });
  } catch (...) {  // no thread could be started
    fail_with(std::current_exception());
  }
}

// Waits until the control strand has done the work, or can never do it.
void Server::call_on_control(std::function<void()> work) {
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> future = done->get_future();
  asio::post(control_, [done, work = std::move(work)] {
    work();
    done->set_value();
  });
  while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready && !ended_) {
  }
}

FileDescriptor Server::listener() {
  const auto copy = std::make_shared<FileDescriptor>();  // shared, because the work may run after the wait has ended
  call_on_control([this, copy] {
    if (acceptor_.is_open()) *copy = FileDescriptor(::fcntl(acceptor_.native_handle(), F_DUPFD_CLOEXEC, 0));
  });
  return ended_ ? FileDescriptor() : std::move(*copy);
}

void Server::hand_over() {
  call_on_control([this] {
    stop_accepting();
    handed_over_at_ = Clock::now();
    state_.handed_over = true;
    news_.cancel();
  });
}

void Server::stop_accepting() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
}

asio::awaitable<void> Server::wait_for_news(Clock::duration time) {
  news_.expires_after(time);
  boost::system::error_code cancelled;
  co_await news_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

asio::awaitable<void> Server::wait_for_end() {
  signals_.async_wait(asio::bind_executor(control_, [this](const boost::system::error_code& error, int) {
    if (error) return;
    signals_.clear();  // the next signal has its default action, which ends the process
    stops_ = true;
    news_.cancel();
  }));
  while (!stops_ && !state_.handed_over) co_await wait_for_news(std::chrono::hours(1));
  if (!stops_) co_await serve_open_connections();
  co_await drain();
  stop_accepting();
  co_await end_connections();
  io_.stop();
}

asio::awaitable<void> Server::serve_open_connections() {
  spdlog::info("another process accepts connections now; open connections are served until they end");
  const Clock::time_point end = handed_over_at_ + std::min<Clock::duration>(kHandOverTime, state_.options.drain);
  do {  // a connection accepted just before the hand-over is counted soon
    co_await wait_for_news(kLook);
  } while (!stops_ && num_connections_ > 0 && Clock::now() < end);
}

asio::awaitable<void> Server::drain() {
  state_.draining = true;
  spdlog::info("draining: no more requests are accepted");
  const Clock::time_point begin = state_.handed_over ? handed_over_at_ : Clock::now();
  drainer_ = std::thread([this, deadline = begin + state_.options.drain] {
    drain_(deadline);
    asio::post(control_, [this] {
      state_.closing = true;
      news_.cancel();
    });
  });
  while (!state_.closing) {
    // After a hand-over no load balancer needs to learn that this process drains.
    if (state_.handed_over) close_idle_connections();
    co_await wait_for_news(state_.handed_over ? Clock::duration(kLook) : std::chrono::hours(1));
  }
}

// Waits until all connections have ended, because their streams need the engines, which end next.
asio::awaitable<void> Server::end_connections() {
  const Clock::time_point end = Clock::now() + kCloseTime;
  while (num_connections_ > 0) {
    if (Clock::now() < end) {
      close_idle_connections();
    } else {
      for (const auto& weak : connections_) {
        if (const auto connection = weak.lock()) connection->close();
      }
    }
    co_await wait_for_news(kLook);
  }
}

void Server::close_idle_connections() {
  for (const auto& weak : connections_) {
    if (const auto connection = weak.lock()) connection->close_if_idle();
  }
}

}  // namespace mortise
