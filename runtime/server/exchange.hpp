// runtime/server/exchange.hpp: one request's answer on its way from whoever makes it to the connection that sends it.
// A handler works on another thread than the connection; it gives a whole answer, now or later, or a stream.
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

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // `executor`: the connection's strand.
  Exchange(boost::asio::any_io_executor executor, HttpRequest of);

  HttpRequest request;  // its body is the handler's, and empty behind take_body()
  // What the answer is made with, kept until the exchange is over. The handler sets it, before it gives an answer.
  std::shared_ptr<const void> serving;

  // The handler's side. [any thread]

  // The body, and the end of the memory that it takes of the server's when the handler has read it.
  struct RequestBody {
    std::string text;
    std::shared_ptr<void> room;
  };
  RequestBody take_body() { return {std::move(request.message.body()), std::move(request.body_room)}; }
  // The whole answer; what comes after the first is ignored.
  void answer(HttpAnswer answer);
  // The answer comes later; `abort` ends the work when the client goes away first.
  void pending(Abort abort);
  // What a stream's events are woken with; the exchange may be gone by then.
  std::function<void()> wake();
  // The answer is a stream, with these headers besides the usual ones.
  void stream(std::unique_ptr<AnswerStream> stream, HeaderList headers);
  // The client has gone: nothing is worth beginning any more.
  bool abandoned() const;

  // The connection's side. [its strand]

  // Waits until something was given, a stream has news, notify() was called, or `deadline` has passed. False: it has.
  boost::asio::awaitable<bool> wait_until(std::chrono::steady_clock::time_point deadline);
  void notify();  // ends the wait
  std::optional<HttpAnswer> take_answer();
  struct Stream {
    std::unique_ptr<AnswerStream> events;
    HeaderList headers;
  };
  std::optional<Stream> take_stream();
  // Nobody waits for the answer any more.
  void abandon();

 private:
  void post_news();

  const boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  bool news_ = false;  // since the last wait

  mutable std::mutex mutex_;  // guards what follows
  std::optional<HttpAnswer> answer_;
  std::optional<Stream> stream_;
  Abort abort_;
  bool answered_ = false, abandoned_ = false;
};

// The request's body as JSON; its text is gone. Throws an Error when it is none.
nlohmann::json read_json_body(Exchange& exchange);

}  // namespace mortise
