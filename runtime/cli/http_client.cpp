#include "cli/http_client.hpp"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <string_view>

#include "error.hpp"

namespace mortise {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

struct Address {
  bool is_tls = false;
  std::string host, port;
};

Address parse_url(const std::string& url) {
  Address address{url.starts_with("https://")};
  if (!address.is_tls && !url.starts_with("http://"))
    fail("--url {}: expected http://HOST:PORT or https://HOST:PORT", url);
  std::string rest = url.substr(url.find("://") + 3);
  rest.resize(std::min(rest.find('/'), rest.size()));
  // The port follows the last colon. A text that ends in ']' has no port: all its colons belong to an IPv6 address.
  const std::size_t colon = rest.ends_with(']') ? std::string::npos : rest.rfind(':');
  address.host = rest.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  address.port = colon != std::string::npos ? rest.substr(colon + 1) : address.is_tls ? "443" : "80";
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

void connect(tcp::socket& socket, const Address& address, const std::string& url) {
  error_code error;
  const auto found = tcp::resolver(socket.get_executor()).resolve(address.host, address.port, error);
  if (!error) asio::connect(socket, found, error);
  if (error) fail(ErrorCode::kUnavailable, "{} cannot be reached: {}; is the server running?", url, error.message());
}

// Makes the TLS handshake, and checks that the certificate is for the url's host.
void shake_hands(asio::ssl::stream<tcp::socket>& stream, const Address& address, const std::string& url) {
  error_code error;
  SSL* const tls = stream.native_handle();
  asio::ip::make_address(address.host, error);
  if (error) {  // the host is a name, not an address
    SSL_set_tlsext_host_name(tls, address.host.c_str());
    SSL_set1_host(tls, address.host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), address.host.c_str());
  }
  stream.set_verify_mode(asio::ssl::verify_peer);
  stream.handshake(asio::ssl::stream_base::client, error);
  if (!error) return;
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
HttpReply exchange(Stream& stream, const http::request<http::string_body>& request, const std::string& url) {
  error_code error;
  http::write(stream, request, error);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  if (!error) http::read(stream, buffer, parser, error);
  if (error) fail(ErrorCode::kUnavailable, "{} has not answered: {}", url, error.message());
  return {parser.get().result_int(), std::move(parser.get().body())};
}

}  // namespace

HttpReply ask_http(const HttpQuestion& question) {
  const Address address = parse_url(question.url);
  if (!address.is_tls && !question.ca_file.empty()) fail("--cacert is only for https, but --url is {}", question.url);
  http::request<http::string_body> request(http::string_to_verb(question.method), question.path, 11);
  request.set(http::field::host, address.host + ":" + address.port);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!question.key.empty()) request.set(http::field::authorization, "Bearer " + question.key);
  request.body() = question.body;
  if (request.method() == http::verb::post) request.prepare_payload();
  asio::io_context io;
  if (!address.is_tls) {
    tcp::socket socket(io);
    connect(socket, address, question.url);
    return exchange(socket, request, question.url);
  }
  asio::ssl::context tls = trusted(question.ca_file);
  asio::ssl::stream<tcp::socket> stream(io, tls);
  connect(stream.next_layer(), address, question.url);
  shake_hands(stream, address, question.url);
  return exchange(stream, request, question.url);
}

}  // namespace mortise
