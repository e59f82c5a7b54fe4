// runtime/server/transport.hpp: reads and writes a connection's bytes, with or without TLS. An AsyncStream for Beast.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/container/static_vector.hpp>
#include <optional>
#include <utility>

namespace mortise {

// The socket of a connection. Invariant: is_tls() does not change once the handshake has begun. Used on the
// connection's strand.
class Transport {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  // `tls` null: no TLS. Otherwise it outlives this object.
  Transport(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls) : tcp_(std::move(socket)) {
    if (tls != nullptr) tls_.emplace(tcp_, *tls);
  }
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  bool is_tls() const { return tls_.has_value(); }
  boost::beast::tcp_stream& tcp() { return tcp_; }  // for time limits, which close the socket
  boost::asio::ip::tcp::socket& socket() { return tcp_.socket(); }
  const boost::asio::ip::tcp::socket& socket() const { return tcp_.socket(); }
  executor_type get_executor() { return tcp_.get_executor(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return tls_ ? tls_->async_read_some(buffers, std::forward<Token>(token))
                : tcp_.async_read_some(buffers, std::forward<Token>(token));
  }
  // Converts every sequence of buffers to one type first, so that the operations of Asio and OpenSSL behind it, which
  // take most of the compiler's time, are compiled once. The next write sends the buffers that do not fit.
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    constexpr std::size_t kMaxBuffers = 16;
    boost::container::static_vector<boost::asio::const_buffer, kMaxBuffers> all;
    for (const boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
      if (all.size() < kMaxBuffers) all.push_back(buffer);
    }
    return tls_ ? tls_->async_write_some(all, std::forward<Token>(token))
                : tcp_.async_write_some(all, std::forward<Token>(token));
  }
  // Begins TLS. `buffer` has the bytes that were already read.
  // REQUIRES: is_tls().
  template <class Buffer>
  boost::asio::awaitable<void> handshake(Buffer& read, boost::system::error_code& error) {
    const std::size_t used =
        co_await tls_->async_handshake(boost::asio::ssl::stream_base::server, read.data(),
                                       boost::asio::redirect_error(boost::asio::use_awaitable, error));
    read.consume(used);
  }
  // Continues without TLS, because the client does not speak it.
  // REQUIRES: no handshake has begun.
  void go_plain() { tls_.reset(); }
  // Ends TLS. Does nothing without TLS.
  boost::asio::awaitable<void> shut_down(boost::system::error_code& error) {
    if (tls_) co_await tls_->async_shutdown(boost::asio::redirect_error(boost::asio::use_awaitable, error));
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
};

}  // namespace mortise
