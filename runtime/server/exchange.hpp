// runtime/server/exchange.hpp: the answer to one request, on its way from the handler to the connection that sends it.
// The handler runs on another thread than the connection. It gives a whole answer, at once or later, or a stream.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <optional>

#include "openai/answer_stream.hpp"
#include "server/http.hpp"

namespace mortise {

// One request and the answer to it. Invariant: at most one answer or stream is accepted. Thread-safe; the strand of the
// connection takes the answer.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // `executor`: the connection's strand.
  Exchange(boost::asio::any_io_executor executor, HttpRequest request);

  HttpRequest request;  // the body is empty after take_body()
  // Keeps the objects that make the answer alive until the exchange ends. The handler sets it before it gives an
  // answer.
  std::shared_ptr<const void> serving;

  // --- for the handler [any thread] ---

  // The body, and its share of the server's memory for bodies. The handler frees `room` when it has read the body.
  struct RequestBody {
    std::string text;
    std::shared_ptr<void> room;
  };
  RequestBody take_body() { return {std::move(request.message.body()), std::move(request.body_room)}; }
  // Gives the whole answer. Later calls are ignored.
  void answer(HttpAnswer answer);
  // Announces that the answer comes later. `abort` ends the work if the client goes away first.
  void pending(Abort abort);
  // The function that a stream calls when it has events. It may outlive the exchange.
  std::function<void()> wake();
  // Gives a stream as the answer, with additional headers.
  void stream(std::unique_ptr<AnswerStream> stream, HeaderList headers);
  // Whether the client has gone, so that no work should begin.
  bool abandoned() const;

  // --- for the connection [its strand] ---

  // Waits until the handler gives something, a stream has events, notify() is called, or `deadline` passes. Returns
  // false after the deadline.
  boost::asio::awaitable<bool> wait_until(std::chrono::steady_clock::time_point deadline);
  void notify();  // ends the wait
  std::optional<HttpAnswer> take_answer();
  struct Stream {
    std::unique_ptr<AnswerStream> events;
    HeaderList headers;
  };
  std::optional<Stream> take_stream();
  // Called when the client has gone.
  void abandon();

 private:
  void post_news();

  const boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  bool news_ = false;  // since the last wait

  mutable std::mutex mutex_;  // guards the members below
  std::optional<HttpAnswer> answer_;
  std::optional<Stream> stream_;
  Abort abort_;
  bool answered_ = false, abandoned_ = false;
};

// Reads the request's body as JSON and frees its text. Throws an Error if it is not JSON.
nlohmann::json read_json_body(Exchange& exchange);

}  // namespace mortise
