// runtime/server/peer_watch.hpp: notices that a client goes away while its answer is made. Nothing is read meanwhile,
// so a request that the client has sent already stays where it is.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

namespace mortise {

// A client that will send nothing more may still read (it has called shutdown()), or has ended. Only what is written to
// it tells: one that has ended answers with a reset.
class PeerWatch {
 public:
  struct State {
    bool sends_no_more = false;
    bool gone = false;
    boost::asio::cancellation_signal stop;
  };

  // Watches until it is destroyed. `socket` lives as long as `owner`; `changed` is called on the socket's strand when
  // one of the two becomes true.
  PeerWatch(boost::asio::ip::tcp::socket& socket, std::shared_ptr<void> owner, std::function<void()> changed);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  bool sends_no_more() const { return state_->sends_no_more; }
  bool gone() const { return state_->gone; }

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace mortise
