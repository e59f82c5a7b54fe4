#include "server/takeover_offer.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "error.hpp"
#include "loader/host_services.hpp"
#include "server/listen.hpp"
#include "server/takeover_message.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;
using State = TakeoverMessage::State;

// Whether the request lists the version of this process. A later program may list several versions.
bool speaks_this_version(const TakeoverMessage& request) {
  const auto versions = request.fields.find("takeover");
  return versions != request.fields.end() && versions->is_array() &&
         std::ranges::any_of(*versions, [](const auto& version) { return version == kTakeoverVersion; });
}

}  // namespace

TakeoverOffer::TakeoverOffer(TakeoverSocket socket, int generation, Server server, Times times)
    : socket_(std::move(socket)),
      generation_(generation),
      server_(std::move(server)),
      times_(times),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) fail("no file descriptor is left to end takeovers with: {}", std::strerror(errno));
  thread_ = std::thread([this] { run(); });
}

TakeoverOffer::~TakeoverOffer() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void TakeoverOffer::run() {
  try {
    while (wait_until_readable(socket_.fd(), Clock::time_point::max(), stop_.get()) != Wait::kStopped) {
      const FileDescriptor peer(::accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!peer && errno != EAGAIN && errno != EINTR) {  // for instance, no descriptors are left
        spdlog::warn("a takeover cannot be answered: {}", std::strerror(errno));
        if (wait_until_readable(stop_.get(), Clock::now() + std::chrono::seconds(1), -1) != Wait::kLate) return;
      }
      if (peer && serve(peer.get())) return;
    }
  } catch (const std::exception& error) {
    spdlog::error("no process can take over from this one anymore: {}", error.what());
  }
}

bool TakeoverOffer::serve(int peer) {
  try {
    const pid_t pid = peer_of_this_user(peer);
    const auto begin = Clock::now();
    TakeoverMessage request = receive_takeover_message(peer, 0, begin + times_.request, stop_.get());
    // It only checked whether a server is here.
    if (request.state == State::kGone || request.state == State::kStopped) return false;
    if (request.state == State::kLate) fail("process {} connected and asked for nothing", pid);
    if (request.step() != "request") fail("a takeover does not begin with '{}'", request.step());
    if (!speaks_this_version(request)) {
      fail(
          "this process uses version {} of takeovers, but process {} asks for others; end this process, then start the "
          "new one",
          kTakeoverVersion, pid);
    }
    return hand_over(peer, pid, request.text("version"), begin);
  } catch (const std::exception& error) {
    spdlog::warn("a takeover was refused, and this process continues to serve: {}", error.what());
    send_takeover_refusal(peer, error.what());
    return false;
  }
}

bool TakeoverOffer::hand_over(int peer, pid_t pid, const std::string& version, Clock::time_point begin) {
  const FileDescriptor listener = server_.listener();
  if (!listener) fail("this process is about to end and no longer listens");
  const int descriptors[] = {listener.get(), socket_.fd()};
  const nlohmann::json offer = {{"takeover", kTakeoverVersion},
                                {"step", "offer"},
                                {"pid", ::getpid()},
                                {"version", kVersion},
                                {"generation", generation_}};
  send_takeover_message(peer, offer, descriptors);
  const TakeoverMessage answer = receive_takeover_message(peer, 0, Clock::now() + times_.serving, stop_.get());
  if (answer.state == State::kStopped) {  // this process ends; the other one has everything that it needs
    socket_.handed_over();
    return true;
  }
  if (answer.state == State::kLate) fail("process {} got the listening socket and did not serve in time", pid);
  if (answer.state == State::kGone) fail("process {} ended before it served", pid);
  if (answer.step() == "refusal") fail("process {} gave up: {}", pid, answer.text("reason"));
  if (answer.step() != "serving") fail("process {} sent '{}' instead of saying that it serves", pid, answer.step());
  server_.hand_over();
  send_takeover_message(peer, {{"step", "released"}});
  socket_.handed_over();
  server_.event({{"event", "handed over"},
                 {"pid", ::getpid()},
                 {"version", kVersion},
                 {"generation", generation_},
                 {"to_pid", pid},
                 {"to_version", version},
                 {"address", listening_address(listener.get())},
                 {"duration_ms", std::chrono::duration<double, std::milli>(Clock::now() - begin).count()}});
  return true;
}

}  // namespace mortise
