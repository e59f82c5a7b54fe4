#include "server/peer_watch.hpp"

#include <poll.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

namespace mortise {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

short events_of(tcp::socket& socket) {
  pollfd polled{socket.native_handle(), POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) == 1 ? polled.revents : short{0};
}

asio::awaitable<void> watch(tcp::socket& socket, std::shared_ptr<void> /*owner*/,
                            std::shared_ptr<PeerWatch::State> state, std::function<void()> changed) {
  boost::system::error_code error;
  const auto into = [](boost::system::error_code& code) { return asio::redirect_error(asio::use_awaitable, code); };
  co_await socket.async_wait(tcp::socket::wait_read, into(error));
  asio::steady_timer timer(socket.get_executor());
  while (!error && socket.is_open() && (events_of(socket) & (POLLRDHUP | POLLERR | POLLHUP)) == 0) {
    // The next request has come. Its bytes hide the end of the connection from wait_read.
    timer.expires_after(std::chrono::milliseconds(100));
    co_await timer.async_wait(into(error));
  }
  if (error || !socket.is_open()) co_return;
  state->peer = PeerWatch::Peer::kSendsNoMore;
  if ((events_of(socket) & (POLLERR | POLLHUP)) == 0) {
    changed();
    co_await socket.async_wait(tcp::socket::wait_error, into(error));
    if (error) co_return;
  }
  state->peer = PeerWatch::Peer::kGone;
  changed();
}

}  // namespace

PeerWatch::PeerWatch(tcp::socket& socket, std::shared_ptr<void> owner, std::function<void()> changed)
    : state_(std::make_shared<State>()) {
  asio::co_spawn(socket.get_executor(), watch(socket, std::move(owner), state_, std::move(changed)),
                 asio::bind_cancellation_slot(state_->stop.slot(), [state = state_](const std::exception_ptr&) {}));
}

PeerWatch::~PeerWatch() {
  state_->stop.emit(asio::cancellation_type::terminal);
}

}  // namespace mortise
