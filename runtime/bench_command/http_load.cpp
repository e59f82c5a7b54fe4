#include "bench_command/http_load.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "error.hpp"

namespace mortise::bench {
namespace {

constexpr std::string_view kEvent = "data: ", kEnd = "data: [DONE]", kError = "{\"error\"";
// The bytes of a stream that are kept: its last event has the number of tokens, and other servers add fields after it.
constexpr std::size_t kMaxTail = 1024;

int open_connection(const HttpAddress& address) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found) != 0) {
    fail("bench: {} is not an address; give a url such as http://127.0.0.1:8000", address.host);
  }
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = socket >= 0 && ::connect(socket, found->ai_addr, found->ai_addrlen) == 0;
  const int error = errno;
  ::freeaddrinfo(found);
  if (connected) return socket;
  if (socket >= 0) ::close(socket);
  fail("bench: {}:{} cannot be reached: {}; is the server running?", address.host, address.port, std::strerror(error));
}

std::string request_text(const HttpAddress& address, const std::string& model, const Request& request) {
  const nlohmann::json body = {{"model", model},
                               {"prompt", request.prompt},
                               {"max_tokens", request.sampling.max_tokens},
                               {"temperature", request.sampling.temperature},
                               {"ignore_eos", request.sampling.ignore_eos},
                               {"stream", true},
                               {"stream_options", {{"include_usage", true}}}};
  const std::string text = body.dump();
  return fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      address.host, address.port, text.size(), text);
}

// Returns N of the last "completion_tokens": N, with any spaces. (In a generated text, these quotes would be escaped.)
std::optional<std::int64_t> num_completed(std::string_view events) {
  constexpr std::string_view kKey = "\"completion_tokens\"";
  const std::size_t key = events.rfind(kKey);
  if (key == events.npos) return std::nullopt;
  const std::size_t begin = events.find_first_not_of(" :", key + kKey.size());
  if (begin == events.npos) return std::nullopt;
  std::int64_t count = 0;
  const auto read = std::from_chars(events.data() + begin, events.data() + events.size(), count);
  return read.ec == std::errc() ? std::optional(count) : std::nullopt;
}

// A connection: the request to send, and the state of its answer.
class Stream {
 public:
  Stream(const HttpAddress& address, const std::string& model, const Request& request)
      : socket_(open_connection(address)),
        text_(request_text(address, model, request)),
        num_asked_(request.sampling.max_tokens) {}
  ~Stream() { ::close(socket_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int socket() const { return socket_; }
  bool begun() const { return begun_; }
  bool ended() const { return ended_; }

  void send() const {
    std::string_view rest = text_;
    while (!rest.empty()) {
      const ssize_t sent = ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) fail("bench: the server accepted no request: {}", std::strerror(errno));
      if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Reads the available data. Throws an Error if the server ends the stream early in any way.
  void receive() {
    char buffer[65536];
    const ssize_t got = ::recv(socket_, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) return;
    const std::size_t num_searched = tail_.size();
    if (got > 0) tail_.append(buffer, static_cast<std::size_t>(got));
    if (!begun_) check_status();
    if (got <= 0) fail("bench: the server ended a stream before its [DONE]");
    // The search begins a little earlier, because the marker may have come in two parts.
    const std::size_t from = num_searched - std::min(num_searched, kEnd.size());
    const std::size_t error = tail_.find(kError, from);
    if (error != tail_.npos) fail("bench: a stream failed: {}", tail_.substr(error, 400));
    begun_ = begun_ || tail_.find(kEvent) != tail_.npos;
    ended_ = tail_.find(kEnd, from) != tail_.npos;
    if (ended_) check_count();
    if (begun_ && tail_.size() > kMaxTail) tail_.erase(0, tail_.size() - kMaxTail);
  }

 private:
  void check_status() const {
    if (tail_.size() < 12 || tail_.starts_with("HTTP/1.1 200")) return;
    const std::size_t body = tail_.find("\r\n\r\n");
    fail("bench: the server refused a request: {}{}", tail_.substr(0, tail_.find("\r\n")),
         body == tail_.npos ? "" : ": " + tail_.substr(body + 4, 400));
  }

  // Throws an Error if the number of tokens is wrong, because a stream that ends early would count as a fast one.
  void check_count() const {
    const std::optional<std::int64_t> count = num_completed(tail_);
    if (!count) {
      fail("bench: a stream ended without its number of tokens; the server must support stream_options.include_usage");
    }
    if (*count == num_asked_) return;
    fail("bench: a stream ended with {} tokens, but {} were asked for; the server must support ignore_eos", *count,
         num_asked_);
  }

  const int socket_;
  const std::string text_;
  const std::int64_t num_asked_;
  std::string tail_;
  bool begun_ = false, ended_ = false;
};

}  // namespace

HttpAddress parse_address(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const std::string rest = url.starts_with(kScheme) ? url.substr(kScheme.size()) : "";
  const std::size_t colon = rest.rfind(':');
  if (colon == rest.npos || colon == 0) fail("--url {}: expected http://HOST:PORT", url);
  return {rest.substr(0, colon), rest.substr(colon + 1, rest.find('/') - colon - 1)};
}

StreamTimes run_streams(const HttpAddress& address, const std::string& model, const std::vector<Request>& requests) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (const Request& request : requests) streams.push_back(std::make_unique<Stream>(address, model, request));
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (const auto& stream : streams) stream->send();
  std::vector<pollfd> waiting;
  for (const auto& stream : streams) waiting.push_back({stream->socket(), POLLIN, 0});
  StreamTimes times;
  std::size_t num_begun = 0, num_ended = 0;
  while (num_ended < streams.size()) {
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;  // interrupted by a signal
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const bool had_begun = streams[i]->begun();
      streams[i]->receive();
      if (!had_begun && streams[i]->begun() && ++num_begun == streams.size()) times.all_first_s = seconds();
      if (!streams[i]->ended()) continue;
      waiting[i].fd = -1;  // poll ignores it
      ++num_ended;
    }
  }
  times.end_s = seconds();
  return times;
}

}  // namespace mortise::bench
