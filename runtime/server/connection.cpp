#include "server/connection.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/algorithm/string/predicate.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <utility>

#include "json/bounded_json.hpp"
#include "server/body_room.hpp"
#include "server/peer_watch.hpp"
#include "server/transport.hpp"

namespace mortise {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Clock = std::chrono::steady_clock;
using ErrorCodeOf = boost::system::error_code;

// How long a closing connection reads and drops data, so that its client reads the answer before it gets a reset.
constexpr std::chrono::seconds kLinger{2};
constexpr std::chrono::seconds kTlsTimeout{10};

std::string view(beast::string_view text) {
  return {text.data(), text.size()};
}

// The answer to a request whose head or body could not be read. nullopt: no client is there to read it.
std::optional<HttpAnswer> read_error(const ErrorCodeOf& error, const ServerOptions& options) {
  if (error == http::error::end_of_stream) return std::nullopt;
  if (error == beast::error::timeout) return error_answer(408, "the request did not arrive in time", "timeout");
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return error_answer(431, fmt::format("the headers have more than {} bytes", options.max_header_bytes));
  }
  if (error == http::error::body_limit) {
    return error_answer(
        413, fmt::format("the body has more than {} bytes; send several, or start the server with a larger --max-body",
                         options.max_body_bytes));
  }
  if (error.category() == make_error_code(http::error::bad_method).category() &&
      error != http::error::partial_message) {
    return error_answer(400, fmt::format("not HTTP: {}", error.message()));
  }
  return std::nullopt;
}

// Whether the origin is a page of this machine, such as "http://localhost:8000". A name that merely begins like an
// address, such as 127.0.0.1.example.org, can belong to anybody.
bool is_local_origin(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  std::string_view host = scheme == origin.npos ? origin : origin.substr(scheme + 3);
  host = host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  if (host == "localhost" || host == "[::1]") return true;
  ErrorCodeOf error;
  const auto address = asio::ip::make_address_v4(std::string(host), error);
  return !error && address.is_loopback();
}

// Do not use co_await in a condition or in ?: here: GCC 12 then loses `this` and crashes in the next member function.
class HttpConnection : public Connection, public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(asio::ip::tcp::socket socket, asio::ssl::context* tls, ServerState& state)
      : stream_(std::move(socket), tls),
        executor_(stream_.get_executor()),
        state_(state),
        buffer_(std::max<std::size_t>(64 << 10, state.options.max_header_bytes + 4096)) {}

  void close_if_idle() override {
    asio::post(executor_, [self = shared_from_this()] {
      ErrorCodeOf ignored;
      if (!self->idle_ || self->stream_.socket().available(ignored) > 0) return;  // a request has just come
      self->stream_.socket().close(ignored);
    });
  }

  void close() override {
    asio::post(executor_, [self = shared_from_this()] {
      self->closed_ = true;
      ErrorCodeOf ignored;
      self->stream_.socket().close(ignored);
      if (const auto exchange = self->exchange_.lock()) exchange->notify();
    });
  }

  asio::awaitable<void> run(bool refused) {
    const bool begun = co_await begin();
    if (begun && refused) {
      co_await refuse(error_answer(503, "the server has too many connections; try again later", "overloaded"),
                      draw_request_id());
    }
    bool goes_on = begun && !refused;
    while (goes_on) goes_on = co_await serve_one();
    co_await end();
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  auto into(ErrorCodeOf& error) { return asio::redirect_error(asio::use_awaitable, error); }

  asio::awaitable<bool> begin() {
    ErrorCodeOf error;
    stream_.socket().set_option(asio::ip::tcp::no_delay(true), error);
    if (!stream_.is_tls()) co_return true;
    stream_.tcp().expires_after(kTlsTimeout);
    const bool speaks_tls = co_await beast::async_detect_ssl(stream_.tcp(), buffer_, into(error));
    if (error) co_return false;
    if (!speaks_tls) {
      stream_.go_plain();
      co_return co_await refuse(error_answer(400, "plain HTTP was sent to an HTTPS port: ask for https://"),
                                draw_request_id());
    }
    co_await stream_.handshake(buffer_, error);
    co_return !error;
  }

  // Serves one request. Returns false if the connection must end.
  asio::awaitable<bool> serve_one() {
    const bool begun = co_await wait_for_request();
    if (!begun) co_return false;
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(state_.options.max_header_bytes));
    parser.body_limit(state_.options.max_body_bytes);
    ErrorCodeOf error;
    co_await read_within(state_.options.header_timeout, error,
                         [&] { return http::async_read_header(stream_, buffer_, parser, into(error)); });
    HttpRequest request;
    request.arrival = Clock::now();
    request.id = draw_request_id();
    ErrorCodeOf unknown;
    request.peer = stream_.socket().remote_endpoint(unknown).address().to_string();
    if (error) co_return co_await refuse_unread(error, request.id);
    const Route* route = nullptr;
    std::optional<HttpAnswer> early = check_head(parser, request, route);
    if (early) {
      // The connection ends after an answer that is sent before the body has come, because the rest of the body is not
      // a request. The same holds after a malformed head.
      const bool last = !parser.is_done() || early->status == 400;
      co_return co_await send_whole(parser.get(), request, std::move(*early), last);
    }
    if (!parser.is_done()) {
      if (boost::algorithm::iequals(view(parser.get()[http::field::expect]), "100-continue")) {
        const bool sent = co_await send_interim();
        if (!sent) co_return false;
      }
      bool has_room = true;
      co_await read_within(state_.options.body_timeout, error,
                           [&] { return read_body(parser, request, has_room, error); });
      if (!has_room) {
        HttpAnswer full = error_answer(503, "the server has no memory left for bodies; try again later", "overloaded");
        full.headers.emplace_back("Retry-After", "1");
        co_await send_whole(parser.get(), request, std::move(full), /*last=*/true);
        co_return false;
      }
      if (error) co_return co_await refuse_unread(error, request.id);
    }
    request.message = parser.release();
    co_return co_await answer(*route, std::move(request));
  }

  struct ReadLimit {
    asio::steady_timer timer;
    enum class State { kReading, kLate, kEnded } state = State::kReading;
  };

  // Reads with a time limit; sets `error` to timeout. Not the stream's own time limit, which closes the socket: the
  // client must still get an answer.
  template <class Read>
  asio::awaitable<void> read_within(std::chrono::seconds time, ErrorCodeOf& error, Read read) {
    stream_.tcp().expires_never();
    const auto limit = std::make_shared<ReadLimit>(asio::steady_timer(executor_, time));
    cancel_when_late(limit);
    co_await read();
    if (std::exchange(limit->state, ReadLimit::State::kEnded) == ReadLimit::State::kLate) error = beast::error::timeout;
    limit->timer.cancel();
  }

  // Cancels repeatedly, because a read that consists of several pieces continues if the cancel comes between two of
  // them.
  void cancel_when_late(const std::shared_ptr<ReadLimit>& limit) {
    limit->timer.async_wait([self = shared_from_this(), limit](const ErrorCodeOf&) {
      if (limit->state == ReadLimit::State::kEnded) return;
      limit->state = ReadLimit::State::kLate;
      ErrorCodeOf ignored;
      self->stream_.socket().cancel(ignored);
      limit->timer.expires_after(std::chrono::milliseconds(50));
      self->cancel_when_late(limit);
    });
  }

  // Reads the rest of a request whose head is there. Reserves the memory of the body as it comes.
  asio::awaitable<void> read_body(Parser& parser, HttpRequest& request, bool& has_room, ErrorCodeOf& error) {
    const auto room = std::make_shared<BodyRoom>(state_);
    has_room = room->grow_to(parser.content_length().get_value_or(0));
    while (has_room && !error && !parser.is_done()) {
      co_await http::async_read_some(stream_, buffer_, parser, into(error));
      has_room = room->grow_to(parser.get().body().size());
    }
    request.body_room = room;
  }

  asio::awaitable<bool> wait_for_request() {
    if (buffer_.size() > 0) co_return true;
    if (state_.closing) co_return false;
    idle_ = true;
    ErrorCodeOf error;
    stream_.tcp().expires_after(state_.options.idle_timeout);
    buffer_.commit(co_await stream_.async_read_some(buffer_.prepare(4096), into(error)));
    idle_ = false;
    co_return !error;
  }

  // Refuses other transfer codings than chunked: the end of such a body is unknown, and the rest could be taken for a
  // request.
  static std::optional<HttpAnswer> check_codings(const Parser& parser) {
    const auto& head = parser.get();
    const std::string transfer = view(head[http::field::transfer_encoding]);
    if (!transfer.empty() && (!boost::algorithm::iequals(transfer, "chunked") || head.version() < 11)) {
      return error_answer(400, fmt::format("Transfer-Encoding {} is not supported; send chunked over HTTP/1.1, or a "
                                           "Content-Length",
                                           quote(transfer)));
    }
    const std::string content = view(head[http::field::content_encoding]);
    if (!content.empty() && !boost::algorithm::iequals(content, "identity")) {
      return error_answer(
          415, fmt::format("Content-Encoding {} is not supported; send the body uncompressed", quote(content)));
    }
    return std::nullopt;
  }

  // Whether a page of this origin may use the server. A page whose host name was changed to mean this machine (DNS
  // rebinding) runs in the browser of a permitted user, but its requests have its own origin. With API keys the page
  // would need a key, too.
  bool origin_may_ask(const std::string& origin) const {
    if (origin.empty() || !state_.api_keys.empty() || state_.cors.allows(origin)) return true;
    ErrorCodeOf error;
    const auto here = stream_.socket().local_endpoint(error);
    return error || !here.address().is_loopback() || is_local_origin(origin);
  }

  // Checks requests that change the server for all clients. Without an admin key only programs on this machine may send
  // them, but no browser page of another origin, and no client behind a proxy on this machine.
  std::optional<HttpAnswer> check_admin(const http::request_header<>& head) const {
    if (!state_.admin_keys.empty()) {
      if (state_.admin_keys.allow(view(head[http::field::authorization]))) return std::nullopt;
      HttpAnswer unknown = error_answer(401, "this url needs an admin key: send the header 'Authorization: Bearer KEY'",
                                        "invalid_admin_key");
      unknown.headers.emplace_back("WWW-Authenticate", "Bearer");
      return unknown;
    }
    ErrorCodeOf error;
    const auto peer = stream_.socket().remote_endpoint(error);
    const std::string origin = view(head[http::field::origin]);
    const bool is_passed_on = head.count("Forwarded") + head.count("X-Forwarded-For") > 0;
    if (!error && peer.address().is_loopback() && !is_passed_on && (origin.empty() || is_local_origin(origin))) {
      return std::nullopt;
    }
    return error_answer(
        403,
        "without an admin key the urls below /admin are for programs on the server's own machine; start "
        "the server with --admin-key-file",
        "admin_only");
  }

  // Checks everything that is known before the body has been read.
  std::optional<HttpAnswer> check_head(const Parser& parser, HttpRequest& request, const Route*& route) {
    const auto& head = parser.get();
    if (const auto id = usable_request_id(view(head["X-Request-Id"]))) request.id = *id;
    const std::optional<std::string> path = path_of(view(head.target()));
    if (!path) return error_answer(400, "the url has a '%' that is not followed by two hexadecimal digits");
    request.path = *path;
    if (auto refused = check_codings(parser)) return refused;
    const std::string methods = state_.router.methods_of(*path);
    if (methods.empty()) return error_answer(404, fmt::format("there is no url {}", quote(*path)), "not_found");
    if (head.method() == http::verb::options) {
      return state_.cors.preflight(view(head[http::field::origin]),
                                   view(head[http::field::access_control_request_headers]), methods);
    }
    route = state_.router.find(view(head.method_string()), *path);
    if (route == nullptr) {
      HttpAnswer wrong = error_answer(405, fmt::format("{} takes {}", quote(*path), methods));
      wrong.headers.emplace_back("Allow", methods);
      return wrong;
    }
    if (route->method == "GET" && (parser.chunked() || parser.content_length().get_value_or(0) > 0)) {
      return error_answer(413, fmt::format("GET of {} must have no body", quote(*path)));
    }
    if (!origin_may_ask(view(head[http::field::origin]))) {
      return error_answer(403,
                          "a page of another origin may not use a server without API keys; start it with --cors ORIGIN "
                          "or with keys");
    }
    if (route->access == Route::Access::kAdmin) {
      if (auto refused = check_admin(head)) return refused;
    }
    if (route->access == Route::Access::kWithKey && !state_.api_keys.allow(view(head[http::field::authorization]))) {
      HttpAnswer unknown = error_answer(
          401, "this server needs an API key: send the header 'Authorization: Bearer KEY'", "invalid_api_key");
      unknown.headers.emplace_back("WWW-Authenticate", "Bearer");
      return unknown;
    }
    if (state_.draining && route->cost != Route::Cost::kCheap) {
      HttpAnswer draining = error_answer(503, "the server is about to end and accepts no more requests", "unavailable");
      draining.headers.emplace_back("Retry-After", "1");
      return draining;
    }
    return std::nullopt;
  }

  asio::awaitable<bool> answer(const Route& route, HttpRequest request) {
    const auto exchange = std::make_shared<Exchange>(executor_, std::move(request));
    exchange_ = exchange;
    if (route.cost == Route::Cost::kCheap) {
      call_handler(route, exchange);
    } else {
      asio::thread_pool& threads = route.cost == Route::Cost::kWait ? state_.waiters : state_.workers;
      asio::post(threads, [&route, exchange] { call_handler(route, exchange); });
    }
    PeerWatch watch(stream_.socket(), shared_from_this(), [weak = std::weak_ptr(exchange)] {
      if (const auto waiting = weak.lock()) waiting->notify();
    });
    bool asked = false;  // whether an interim answer has tested that a client which sends no more is still there
    while (true) {
      co_await exchange->wait_until(Clock::time_point::max());
      if (is_gone(watch) || closed_) {
        exchange->abandon();
        log(exchange->request, 499);
        co_return false;
      }
      if (std::optional<HttpAnswer> whole = exchange->take_answer()) {
        co_return co_await send_whole(exchange->request.message, exchange->request, std::move(*whole),
                                      watch.sends_no_more());
      }
      if (auto stream = exchange->take_stream()) co_return co_await send_stream(*exchange, std::move(*stream), watch);
      if (watch.sends_no_more() && !std::exchange(asked, true) && exchange->request.message.version() >= 11) {
        const bool sent = co_await send_interim();
        if (sent) continue;
        exchange->abandon();
        co_return false;
      }
    }
  }

  // With TLS, a client that ends its side has ended the connection.
  bool is_gone(const PeerWatch& watch) const { return watch.gone() || (stream_.is_tls() && watch.sends_no_more()); }

  asio::awaitable<bool> send_interim() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_return co_await send(asio::buffer(kContinue));
  }

  template <class Buffers>
  asio::awaitable<bool> send(Buffers all) {
    beast::buffers_suffix<Buffers> rest(all);
    ErrorCodeOf error;
    while (!error && beast::buffer_bytes(rest) > 0) {
      stream_.tcp().expires_after(state_.options.write_timeout);
      rest.consume(co_await stream_.async_write_some(rest, into(error)));
    }
    co_return !error;
  }

  // Sends the whole message, or only its head.
  template <class Serializer>
  asio::awaitable<bool> send_message(Serializer& serializer, bool head_alone) {
    serializer.split(head_alone);
    ErrorCodeOf error;
    while (!error && (head_alone ? !serializer.is_header_done() : !serializer.is_done())) {
      stream_.tcp().expires_after(state_.options.write_timeout);
      co_await http::async_write_some(stream_, serializer, into(error));
    }
    co_return !error;
  }

  template <class Message>
  void add_headers(Message& message, const http::request<http::string_body>& to, const HttpRequest& request,
                   const HeaderList& headers, bool last) {
    HeaderList all = headers;
    state_.cors.add_headers(view(to[http::field::origin]), all);
    for (const auto& [name, value] : all) message.set(name, value);
    message.set(http::field::server, "mortise");
    message.set("X-Request-Id", request.id);
    message.keep_alive(to.keep_alive() && !last && !state_.closing && !state_.handed_over);
  }

  // Sends a complete answer. Returns false if the connection must end.
  asio::awaitable<bool> send_whole(const http::request<http::string_body>& to, const HttpRequest& request,
                                   HttpAnswer answer, bool last) {
    http::response<http::string_body> message(static_cast<http::status>(answer.status), to.version());
    add_headers(message, to, request, answer.headers, last);
    if (!answer.content_type.empty()) message.set(http::field::content_type, answer.content_type);
    message.body() = std::move(answer.body);
    if (answer.status != 204) message.content_length(message.body().size());
    if (to.method() == http::verb::head) message.body().clear();
    http::response_serializer<http::string_body> serializer(message);
    // The answer to HEAD has the length, but no body.
    const bool sent = co_await send_message(serializer, to.method() == http::verb::head);
    log(request, answer.status);
    co_return sent&& message.keep_alive();
  }

  asio::awaitable<bool> send_stream(Exchange& exchange, Exchange::Stream stream, const PeerWatch& watch) {
    const auto& to = exchange.request.message;
    const bool chunked = to.version() >= 11;
    http::response<http::empty_body> head(http::status::ok, to.version());
    add_headers(head, to, exchange.request, stream.headers, watch.sends_no_more() || !chunked);
    head.set(http::field::content_type, "text/event-stream; charset=utf-8");
    head.set(http::field::cache_control, "no-cache");
    head.set("X-Accel-Buffering", "no");  // nginx then forwards each event at once
    if (chunked) head.chunked(true);
    http::response_serializer<http::empty_body> serializer(head);
    bool is_open = co_await send_message(serializer, /*head_alone=*/true);
    bool asked = watch.sends_no_more();
    StreamState state = StreamState::kOpen;
    std::string events;
    while (is_open && state == StreamState::kOpen) {
      events.clear();
      state = stream.events->take(events);
      if (events.empty() && state == StreamState::kOpen) {
        const bool news = co_await exchange.wait_until(Clock::now() + state_.options.ping_interval);
        if (is_gone(watch) || closed_) break;
        const bool ask = watch.sends_no_more() && !std::exchange(asked, true);
        if (news && !ask) continue;
        events = ": ping\n\n";
      }
      if (events.empty()) continue;  // the stream ended without further events
      if (chunked) {
        is_open = co_await send(http::make_chunk(asio::buffer(events)));
      } else {
        is_open = co_await send(asio::buffer(events));
      }
    }
    stream.events.reset();  // aborts the requests that have not ended
    if (is_open && state == StreamState::kCut) {
      log(exchange.request, 503);
      co_return false;  // no last chunk, so the client sees that the body is incomplete
    }
    const bool is_whole = state == StreamState::kWhole;
    if (is_open && is_whole && chunked) is_open = co_await send(http::make_chunk_last());
    log(exchange.request, is_open && is_whole ? 200 : 499);
    co_return is_open&& is_whole&& head.keep_alive();
  }

  // Answers a request whose head or body could not be read completely.
  asio::awaitable<bool> refuse_unread(ErrorCodeOf error, const std::string& id) {
    std::optional<HttpAnswer> answer = read_error(error, state_.options);
    if (!answer) co_return false;
    co_return co_await refuse(std::move(*answer), id);
  }

  asio::awaitable<bool> refuse(HttpAnswer answer, const std::string& id) {
    http::request<http::string_body> unknown;
    unknown.version(11);
    HttpRequest request;
    request.id = id;
    request.arrival = Clock::now();
    co_await send_whole(unknown, request, std::move(answer), /*last=*/true);
    co_return false;
  }

  asio::awaitable<void> end() {
    ErrorCodeOf error;
    if (!stream_.socket().is_open()) co_return;
    stream_.tcp().expires_after(kLinger);
    co_await stream_.shut_down(error);
    if (!stream_.socket().is_open()) co_return;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    char dropped[16384];
    stream_.tcp().expires_after(kLinger);
    while (!error) co_await stream_.tcp().async_read_some(asio::buffer(dropped), into(error));
    stream_.socket().close(error);
  }

  void log(const HttpRequest& request, int status) const {
    state_.answers.sent(status);
    spdlog::info("{} {} {:.1f} ms {}", request.path.empty() ? "(no url)" : quote(request.path), status,
                 std::chrono::duration<double, std::milli>(Clock::now() - request.arrival).count(), request.id);
  }

  Transport stream_;
  const asio::any_io_executor executor_;
  ServerState& state_;
  beast::flat_buffer buffer_;
  std::weak_ptr<Exchange> exchange_;  // of the request in progress
  bool idle_ = false, closed_ = false;
};

}  // namespace

std::shared_ptr<Connection> start_connection(asio::ip::tcp::socket socket, asio::ssl::context* tls, ServerState& state,
                                             bool refused, std::function<void()> ended) {
  const asio::any_io_executor executor = socket.get_executor();
  const auto connection = std::make_shared<HttpConnection>(std::move(socket), tls, state);
  const auto finished = [connection, ended = std::move(ended)](const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::exception& thrown) {
      spdlog::error("a connection has failed: {}", thrown.what());
    }
    ended();
  };
  asio::co_spawn(executor, connection->run(refused), finished);
  return connection;
}

}  // namespace mortise
