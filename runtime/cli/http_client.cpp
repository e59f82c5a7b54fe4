#include "cli/http_client.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <charconv>
#include <chrono>
#include <future>
#include <optional>
#include <string_view>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kMinBytesPerSecond = 1024;  // a slower server is given up, once `patience` has passed

struct Address {
  bool is_tls = false;
  std::string host, port;
};

Address parse_url(const std::string& url) {
  Address address;
  address.is_tls = url.starts_with("https://");
  if (!address.is_tls && !url.starts_with("http://")) fail("{}: expected http://HOST:PORT or https://HOST:PORT", url);
  std::string rest = url.substr(url.find("://") + 3);
  rest.resize(std::min(rest.find('/'), rest.size()));
  // The port follows the last colon. A text that ends in ']' has no port: all its colons belong to an IPv6 address.
  const std::size_t colon = rest.ends_with(']') ? std::string::npos : rest.rfind(':');
  address.host = rest.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (rest.find('@') != std::string::npos) fail("user names and passwords in a url are not supported");
  address.port = colon != std::string::npos ? rest.substr(colon + 1) : address.is_tls ? "443" : "80";
  int number = 0;
  const auto read = std::from_chars(address.port.data(), address.port.data() + address.port.size(), number);
  if (address.host.empty() || read.ptr != address.port.data() + address.port.size() || number < 1 || number > 65535) {
    fail("{}: it has no host, or a port that is not a number from 1 to 65535", quote(url));
  }
  return address;
}

asio::ssl::context trusted(const std::string& ca_file) {
  asio::ssl::context tls(asio::ssl::context::tls_client);
  error_code error;
  if (ca_file.empty()) {
    tls.set_default_verify_paths(error);
  } else {
    tls.load_verify_file(ca_file, error);
  }
  if (error) fail("--cacert {}: it has no certificates in PEM form that can be read: {}", ca_file, error.message());
  return tls;
}

// Makes the stream fail if the server sends nothing for this long.
void be_patient(beast::tcp_stream& stream, std::chrono::seconds patience) {
  if (patience.count() > 0) {
    stream.expires_after(patience);
  } else {
    stream.expires_never();
  }
}

auto into(error_code& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

asio::awaitable<void> connect(beast::tcp_stream& stream, const Address& address, const HttpQuestion& question) {
  error_code error;
  tcp::resolver resolver(stream.get_executor());
  const auto found = co_await resolver.async_resolve(address.host, address.port, into(error));
  be_patient(stream, question.patience);
  if (!error) co_await stream.async_connect(found, into(error));
  if (error)
    fail(ErrorCode::kUnavailable, "{} cannot be reached: {}; is the server running?", question.url, error.message());
}

// Makes the TLS handshake, and checks that the certificate is for the url's host.
asio::awaitable<void> shake_hands(asio::ssl::stream<beast::tcp_stream>& stream, const Address& address,
                                  const std::string& url) {
  error_code error;
  SSL* const tls = stream.native_handle();
  asio::ip::make_address(address.host, error);
  if (error) {  // the host is a name and no address
    SSL_set_tlsext_host_name(tls, address.host.c_str());
    SSL_set1_host(tls, address.host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), address.host.c_str());
  }
  stream.set_verify_mode(asio::ssl::verify_peer);
  co_await stream.async_handshake(asio::ssl::stream_base::client, into(error));
  if (!error) co_return;
  const long result = SSL_get_verify_result(tls);
  if (result != X509_V_OK) {
    fail(ErrorCode::kUnavailable,
         "{}: its certificate is not trusted: {}; give --cacert the file of the authority that signed it, and name the "
         "server as its certificate does",
         url, X509_verify_cert_error_string(result));
  }
  fail(ErrorCode::kUnavailable, "{}: a TLS connection failed: {}; does it serve https?", url, error.message());
}

template <class Stream>
asio::awaitable<HttpReply> exchange(Stream& stream, http::request<http::string_body>& request,
                                    const HttpQuestion& question) {
  error_code error;
  co_await http::async_write(stream, request, into(error));
  beast::flat_buffer buffer;
  using Parser = http::response_parser<http::string_body>;
  std::optional<Parser> parser;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t received = 0;
  do {
    parser.emplace();
    parser->body_limit(question.max_bytes);
    while (!error && !parser->is_done()) {
      be_patient(beast::get_lowest_layer(stream), question.patience);
      received += co_await http::async_read_some(stream, buffer, *parser, into(error));
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin - question.patience;
      if (question.patience.count() > 0 && passed.count() * kMinBytesPerSecond > static_cast<double>(received)) {
        fail(ErrorCode::kUnavailable, "{} sends less than {} bytes a second", question.url, kMinBytesPerSecond);
      }
    }
  } while (!error && parser->get().result_int() < 200);  // 100 Continue and the like come before the answer
  if (error == http::error::body_limit) {
    fail(ErrorCode::kUnavailable, "{}{} has more than {} bytes, which is too large for its purpose", question.url,
         question.path, question.max_bytes);
  }
  if (error) fail(ErrorCode::kUnavailable, "{} has not answered: {}", question.url, error.message());
  http::response<http::string_body> response = parser->release();
  co_return HttpReply{response.result_int(), std::move(response.body()), std::string(response[http::field::location])};
}

asio::awaitable<HttpReply> ask_server(const HttpQuestion& question, const Address& address) {
  http::request<http::string_body> request(http::string_to_verb(question.method), question.path, 11);
  request.set(http::field::host, address.host + ":" + address.port);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!question.key.empty()) request.set(http::field::authorization, "Bearer " + question.key);
  request.body() = question.body;
  if (request.method() == http::verb::post) request.prepare_payload();
  const auto executor = co_await asio::this_coro::executor;
  if (!address.is_tls) {
    beast::tcp_stream stream(executor);
    co_await connect(stream, address, question);
    co_return co_await exchange(stream, request, question);
  }
  asio::ssl::context tls = trusted(question.ca_file);
  asio::ssl::stream<beast::tcp_stream> stream(executor, tls);
  co_await connect(stream.next_layer(), address, question);
  co_await shake_hands(stream, address, question.url);
  co_return co_await exchange(stream, request, question);
}

}  // namespace

HttpReply ask_http(const HttpQuestion& question) {
  const std::string whole = question.url + question.path;
  if (std::ranges::any_of(whole, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
    fail("{}: a url has no spaces and no control characters", quote(whole));
  }
  const Address address = parse_url(question.url);
  if (!address.is_tls && !question.ca_file.empty()) fail("--cacert is only for https, but --url is {}", question.url);
  asio::io_context io;
  std::future<HttpReply> reply = asio::co_spawn(io, ask_server(question, address), asio::use_future);
  io.run();
  return reply.get();
}

std::pair<std::string, std::string> split_url(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t path = std::min(url.find('/', host), url.size());
  return {url.substr(0, path), path == url.size() ? "/" : url.substr(path)};
}

}  // namespace mortise
