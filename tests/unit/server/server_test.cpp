// A server whose listening socket another one takes over, with connections that were open before.
// Covers: runtime/server/{connection,listen}
#include "server/server.hpp"

#include <gmock/gmock.h>
#include <prometheus/registry.h>
#include <signal.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <thread>

#include "server/listen.hpp"
#include "server/metrics.hpp"
#include "sockets.hpp"

namespace mortise::test {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = boost::asio::ip::tcp;

// Serves the url /name at a socket, on a thread of its own.
class NamedServer {
 public:
  NamedServer(const std::string& name, FileDescriptor listening)
      : server_(ServerOptions(), router_of(name), answers_, std::move(listening)),
        thread_([this] { server_.run({.drain = [](auto) {}}); }) {}
  ~NamedServer() { join(); }

  Server& server() { return server_; }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  static Router router_of(const std::string& name) {
    Router router;
    router.add({.method = "GET",
                .path = "/name",
                .access = Route::Access::kOpen,
                .cost = Route::Cost::kCheap,
                .handle = [name](const auto& exchange) { exchange->answer({.body = name}); }});
    return router;
  }

  prometheus::Registry registry_;
  HttpAnswers answers_{registry_};
  Server server_;
  std::thread thread_;
};

class Client {
 public:
  explicit Client(const std::string& url) : socket_(io_) {
    const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port});
  }

  // The body and whether the connection stays open.
  std::pair<std::string, bool> ask() {
    http::request<http::empty_body> request(http::verb::get, "/name", 11);
    http::write(socket_, request);
    http::response<http::string_body> response;
    http::read(socket_, buffer_, response);
    return {response.body(), response.keep_alive()};
  }
  bool is_closed() {
    boost::system::error_code error;
    char byte = 0;
    socket_.read_some(boost::asio::buffer(&byte, 1), error);
    return error == boost::asio::error::eof;
  }

 private:
  boost::asio::io_context io_;
  tcp::socket socket_;
  beast::flat_buffer buffer_;
};

TEST(Server, HandsItsSocketOverAndServesOpenConnectionsToTheirEnd) {
  using Answer = std::pair<std::string, bool>;
  auto old = std::make_unique<NamedServer>("old", listen_at("127.0.0.1", 0));
  const std::string url = old->server().url();
  std::optional<Client> open(url);
  EXPECT_EQ(open->ask(), Answer("old", true));
  EXPECT_FALSE(old->server().draining());
  NamedServer next("next", old->server().listener());
  old->server().hand_over();
  EXPECT_TRUE(old->server().draining());
  EXPECT_FALSE(old->server().listener());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Client(url).ask(), Answer("next", true));  // "old": it accepts on
  EXPECT_EQ(open->ask(), Answer("old", false));
  EXPECT_TRUE(open->is_closed());
  open.reset();
  old->join();
  old->server().hand_over();  // after the end: nothing is left to do, and nobody to wait for
  EXPECT_FALSE(old->server().listener());
  old.reset();
  EXPECT_EQ(Client(url).ask(), Answer("next", true));  // refused: the end of the one closed the other's socket
  ::raise(SIGTERM);
}

}  // namespace
}  // namespace mortise::test
