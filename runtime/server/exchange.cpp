#include "server/exchange.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {

namespace asio = boost::asio;

Exchange::Exchange(asio::any_io_executor executor, HttpRequest request)
    : request(std::move(request)), executor_(std::move(executor)), timer_(executor_) {}

void Exchange::answer(HttpAnswer answer) {
  {
    const std::lock_guard lock(mutex_);
    if (answered_) return;
    answered_ = true;
    answer_ = std::move(answer);
    abort_ = nullptr;
  }
  post_news();
}

void Exchange::pending(Abort abort) {
  {
    const std::lock_guard lock(mutex_);
    if (answered_) return;
    if (!abandoned_) {
      abort_ = std::move(abort);
      return;
    }
  }
  if (abort) abort();
}

std::function<void()> Exchange::wake() {
  return [weak = weak_from_this()] {
    if (const auto exchange = weak.lock()) exchange->post_news();
  };
}

void Exchange::stream(std::unique_ptr<AnswerStream> stream, HeaderList headers) {
  {
    const std::lock_guard lock(mutex_);
    if (answered_ || abandoned_) return;  // a stream that is destroyed aborts its requests
    answered_ = true;
    stream_ = Stream{std::move(stream), std::move(headers)};
  }
  post_news();
}

bool Exchange::abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

void Exchange::post_news() {
  asio::post(executor_, [self = shared_from_this()] { self->notify(); });
}

void Exchange::notify() {
  news_ = true;
  timer_.cancel();
}

asio::awaitable<bool> Exchange::wait_until(std::chrono::steady_clock::time_point deadline) {
  timer_.expires_at(deadline);
  while (!news_ && std::chrono::steady_clock::now() < deadline) {
    boost::system::error_code cancelled;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  co_return std::exchange(news_, false);
}

std::optional<HttpAnswer> Exchange::take_answer() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answer_, std::nullopt);
}

std::optional<Exchange::Stream> Exchange::take_stream() {
  const std::lock_guard lock(mutex_);
  return std::exchange(stream_, std::nullopt);
}

void Exchange::abandon() {
  Abort abort;
  std::optional<Stream> stream;  // destroying it aborts its requests
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    abort = std::exchange(abort_, nullptr);
    stream = std::exchange(stream_, std::nullopt);
  }
  if (abort) abort();
}

nlohmann::json read_json_body(Exchange& exchange) {
  const Exchange::RequestBody body = exchange.take_body();
  try {
    return parse_json(body.text);
  } catch (const Error& error) {
    fail(error.code(), "body: {}", error.what());
  }
}

}  // namespace mortise
