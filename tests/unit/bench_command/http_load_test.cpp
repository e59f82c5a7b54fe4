#include "bench_command/http_load.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "bench_command/load.hpp"
#include "test_support.hpp"

namespace mortise::bench {
namespace {

using namespace test;
using testing::HasSubstr;

constexpr int kAsked = 6;

// A server on a free port that answers one request with the given parts, and then closes the connection.
class OneAnswer {
 public:
  explicit OneAnswer(std::vector<std::string> parts) : listening_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof at;
    ::bind(listening_, reinterpret_cast<sockaddr*>(&at), size);
    ::listen(listening_, 1);
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&at), &size);
    address_ = {"127.0.0.1", std::to_string(ntohs(at.sin_port))};
    thread_ = std::thread([this, parts = std::move(parts)] { serve(parts); });
  }
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
    ::close(listening_);
  }

  const HttpAddress& address() const { return address_; }
  std::string request() {
    thread_.join();
    return request_;
  }

 private:
  void serve(const std::vector<std::string>& parts) {
    const int client = ::accept(listening_, nullptr, nullptr);
    while (!request_.ends_with("}")) {  // it is small and comes in one part
      char buffer[4096];
      const ssize_t got = ::recv(client, buffer, sizeof buffer, 0);
      if (got <= 0) break;
      request_.append(buffer, static_cast<std::size_t>(got));
    }
    for (const std::string& part : parts) ::send(client, part.data(), part.size(), MSG_NOSIGNAL);
    ::close(client);
  }

  const int listening_;
  HttpAddress address_;
  std::string request_;
  std::thread thread_;
};

const std::string kHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const std::string kToken = R"(data: {"choices":[{"text":" say \"completion_tokens\": 9"}],"usage":null})"
                           "\n\n";
const std::string kDone = "data: [DONE]\n\n";

void run(OneAnswer& server) {
  run_streams(server.address(), "demo", make_requests({{3, kAsked, 0}}, 1000, 1));
}

std::string failure(std::vector<std::string> parts) {
  OneAnswer server(std::move(parts));
  return error_of([&] { run(server); });
}

TEST(BenchHttpLoad, AsksForTheNumberOfTokensAndNoEarlyEnd) {
  OneAnswer server({kHead, kToken, R"(data: {"choices":[],"usage":{"completion_tokens":6}})", "\n\n", kDone});
  run(server);
  const std::string request = server.request();
  EXPECT_THAT(request, HasSubstr(R"("stream_options":{"include_usage":true})"));
  EXPECT_THAT(request, HasSubstr(R"("ignore_eos":true)"));
}

TEST(BenchHttpLoad, TakesTheUsageOfOtherServers) {
  // Spaces, and fields after it, as llama.cpp's; cut at any place.
  const std::string whole = kHead + kToken + kToken +
                            R"(data: {"choices": [], "usage": {"completion_tokens" : 6, "prompt_tokens": 64, )"
                            R"("completion_tokens_details": {"reasoning_tokens": 0}}, "timings": {"x": ")" +
                            std::string(500, 'x') + "\"}}\n\n" + kDone;
  for (std::size_t cut = kHead.size(); cut < whole.size(); cut += 7) {
    EXPECT_EQ(failure({whole.substr(0, cut), whole.substr(cut)}), "") << cut;
  }
}

TEST(BenchHttpLoad, AnEarlyEndIsAFailure) {
  EXPECT_EQ(failure({kHead, kToken, "data: {\"usage\":{\"completion_tokens\":5}}\n\n", kDone}),
            "bench: a stream ended with 5 tokens, but 6 were asked for; the server must support ignore_eos");
  EXPECT_EQ(failure({kHead, kToken, kDone}),  // the number in the text is not the server's
            "bench: a stream ended without its number of tokens; the server must support stream_options.include_usage");
  EXPECT_EQ(failure({kHead, kToken}), "bench: the server ended a stream before its [DONE]");
}

TEST(BenchHttpLoad, AnErrorEventIsAFailureWhateverComesBehindIt) {
  const std::string usage = "data: {\"usage\":{\"completion_tokens\":6}}\n\n";
  const std::string error = R"(data: {"error":{"message":"the engine died"}})"
                            "\n\n";
  const std::string expected = R"(bench: a stream failed: {"error":{"message":"the engine died"}})";
  EXPECT_THAT(failure({kHead, kToken, error, kDone}), HasSubstr(expected.substr(0, 30)));
  EXPECT_THAT(failure({kHead + kToken + error + usage + kDone}), HasSubstr(expected));
  EXPECT_THAT(failure({"HTTP/1.1 429 Too Many Requests\r\n\r\n{}"}), HasSubstr("refused a request: HTTP/1.1 429"));
}

}  // namespace
}  // namespace mortise::bench
