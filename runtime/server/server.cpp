#include "server/server.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <utility>

#include "error.hpp"
#include "server/tls.hpp"

namespace mortise {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

// For the last bytes of answers and the ends of connections, once all requests have ended.
constexpr std::chrono::seconds kCloseTime{5};
// Connections beyond the limit that are told so at a time; more are closed without a word.
constexpr std::size_t kMaxRefusals = 64;

std::size_t num_threads(std::size_t least) {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, least, 8);
}

ServerOptions with_room_for_a_body(ServerOptions options) {
  options.max_bodies_bytes = std::max(options.max_bodies_bytes, options.max_body_bytes);
  return options;
}

tcp::acceptor listen(asio::io_context& io, const std::string& host, std::uint16_t port) {
  boost::system::error_code error;
  const auto found = tcp::resolver(io).resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty())
    fail("--host {}: no address of this machine is found under that name: {}", host, error.message());
  tcp::acceptor acceptor(io);
  const tcp::endpoint at = found.begin()->endpoint();
  acceptor.open(at.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) {
    fail("cannot listen at {}:{}: {}; choose another --port or --host", host, port, error.message());
  }
  return acceptor;
}

}  // namespace

Server::Server(ServerOptions options, Router router, HttpAnswers& answers)
    : tls_(options.tls_certificate.empty() ? std::optional<asio::ssl::context>()
                                           : load_tls(options.tls_certificate, options.tls_key)),
      workers_(num_threads(2)),
      state_{with_room_for_a_body(options),
             std::move(router),
             ApiKeys(options.api_keys),
             ApiKeys(options.admin_keys),
             Cors(options.cors_origins),
             workers_,
             answers},
      control_(asio::make_strand(io_)),
      acceptor_(listen(io_, options.host, options.port)),
      signals_(io_, SIGTERM, SIGINT),
      hangups_(io_, SIGHUP) {}

Server::~Server() {
  if (drainer_.joinable()) drainer_.join();
  workers_.stop();
  workers_.join();
}

std::string Server::url() const {
  const tcp::endpoint at = acceptor_.local_endpoint();
  const std::string address = at.address().to_string();
  return fmt::format("{}://{}:{}", tls_ ? "https" : "http", at.address().is_v6() ? "[" + address + "]" : address,
                     at.port());
}

void Server::run(const std::function<void(Clock::time_point)>& drain, std::function<void()> reload) {
  drain_ = drain;
  reload_ = std::move(reload);
  // Neither may end in silence: without the one nobody is served any more, without the other no signal ends the
  // process.
  const auto end_with = [this](const std::exception_ptr& error) {
    if (!error) return;
    failure_ = error;
    io_.stop();
  };
  asio::co_spawn(control_, accept(), end_with);
  asio::co_spawn(control_, wait_for_signal(), end_with);
  asio::co_spawn(control_, wait_for_hangups(), end_with);
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < num_threads(1); ++i) threads.emplace_back([this] { run_io(); });
  run_io();
  for (std::thread& thread : threads) thread.join();
  // Bodies that still wait to be read have no connection any more.
  workers_.stop();
  workers_.join();
  if (failure_) std::rethrow_exception(failure_);
}

// What a library throws on this thread, beside any connection's coroutine, ends at most that connection.
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
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) co_return;
    if (error) {  // no descriptors left, for one
      spdlog::warn("a connection cannot be accepted: {}", error.message());
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::use_awaitable);
      continue;
    }
    // Not even the refusals may be any number.
    if (num_connections_ < state_.options.max_connections + kMaxRefusals) start(std::move(socket));
  }
}

void Server::start(tcp::socket socket) {
  forget_ended();
  const bool refused = ++num_connections_ > state_.options.max_connections;
  try {
    connections_.push_back(
        start_connection(std::move(socket), tls_ ? &*tls_ : nullptr, state_, refused, [this] { --num_connections_; }));
  } catch (const std::exception& error) {  // no memory, for one
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
    asio::post(workers_, reload_);
  }
}

asio::awaitable<void> Server::wait_for_signal() {
  co_await signals_.async_wait(asio::use_awaitable);
  signals_.clear();  // the next one finds the default action, which ends the process
  state_.draining = true;
  spdlog::info("draining: no more requests are taken");
  asio::steady_timer drained(io_, Clock::time_point::max());
  drainer_ = std::thread([this, &drained] {
    drain_(Clock::now() + state_.options.drain);
    asio::post(control_, [this, &drained] {
      state_.closing = true;
      drained.cancel();
    });
  });
  while (!state_.closing) {
    boost::system::error_code cancelled;
    co_await drained.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  acceptor_.close();
  // All of them are to have ended when this does: their streams need the engines, which end next.
  const Clock::time_point end = Clock::now() + kCloseTime;
  while (num_connections_ > 0) {
    const bool late = Clock::now() >= end;
    for (const auto& weak : connections_) {
      const auto connection = weak.lock();
      if (connection && late) connection->close();
      if (connection && !late) connection->close_if_idle();
    }
    drained.expires_after(std::chrono::milliseconds(20));
    co_await drained.async_wait(asio::use_awaitable);
  }
  io_.stop();
}

}  // namespace mortise
