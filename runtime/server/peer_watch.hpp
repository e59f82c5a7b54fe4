// runtime/server/peer_watch.hpp: notices that a client goes away while its answer is made. It reads nothing, so a
// request that the client has already sent stays in the socket.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

namespace mortise {

// Watches one client. A client that sends no more may have ended, or may still read (after shutdown()). Only a write
// can tell: a client that has ended answers it with a reset. Used on the socket's strand. Invariant: once gone, the
// client stays gone.
class PeerWatch {
 public:
  enum class Peer { kSends, kSendsNoMore, kGone };
  struct State {
    Peer peer = Peer::kSends;
    boost::asio::cancellation_signal stop;
  };

  // Watches until this object is destroyed. `socket` lives as long as `owner`. `changed` is called on the socket's
  // strand when gone() or sends_no_more() becomes true.
  PeerWatch(boost::asio::ip::tcp::socket& socket, std::shared_ptr<void> owner, std::function<void()> changed);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  bool sends_no_more() const { return state_->peer != Peer::kSends; }
  bool gone() const { return state_->peer == Peer::kGone; }

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace mortise
