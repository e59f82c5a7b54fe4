#include "server/takeover.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "error.hpp"
#include "loader/host_services.hpp"
#include "server/takeover_message.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;
using State = TakeoverMessage::State;

// Sends a request and returns the offer that answers it.
TakeoverMessage request_offer(int peer, std::chrono::milliseconds time) {
  const nlohmann::json request = {
      {"takeover", {kTakeoverVersion}}, {"step", "request"}, {"pid", ::getpid()}, {"version", kVersion}};
  send_takeover_message(peer, request);  // a peer that has gone does not answer
  TakeoverMessage offer = receive_takeover_message(peer, kMaxTakeoverDescriptors, Clock::now() + time);
  if (offer.state == State::kLate)
    fail("it has not answered for {} s", std::chrono::ceil<std::chrono::seconds>(time).count());
  if (offer.state == State::kGone) fail("it ended the conversation without an answer");
  if (offer.step() == "refusal") fail("it refuses: {}", offer.text("reason"));
  if (offer.step() != "offer") fail("it answers '{}' instead of offering its socket", offer.step());
  if (offer.number("takeover") != kTakeoverVersion) {
    fail("it uses version {} of takeovers, but this program uses {}", offer.number("takeover"), kTakeoverVersion);
  }
  if (offer.descriptors.size() != kMaxTakeoverDescriptors) {
    fail("it sends {} file descriptors, but a server sends {}", offer.descriptors.size(), kMaxTakeoverDescriptors);
  }
  return offer;
}

}  // namespace

std::optional<Takeover> Takeover::ask(const std::string& path, Times times) {
  std::optional<FileDescriptor> peer = connect_to_takeover_socket(path);
  if (!peer) return std::nullopt;
  Takeover takeover;
  takeover.begin_ = Clock::now();
  takeover.path_ = path;
  takeover.times_ = times;
  try {
    TakeoverMessage offer = request_offer(peer->get(), times.offer);
    takeover.listener_ = std::move(offer.descriptors[0]);
    takeover.socket_ = std::move(offer.descriptors[1]);
    check_takeover_socket(takeover.socket_.get());
    takeover.pid_ = offer.number("pid");
    takeover.version_ = offer.text("version");
    takeover.generation_ = static_cast<int>(std::clamp<std::int64_t>(offer.number("generation"), 0, 1'000'000));
  } catch (const Error& error) {
    fail("--takeover-socket {}: nothing was taken over from the process there: {}", path, error.what());
  }
  takeover.peer_ = std::move(*peer);
  return takeover;
}

nlohmann::ordered_json Takeover::serving(const std::string& address) {
  const bool sent = send_takeover_message(peer_.get(), {{"step", "serving"}});
  TakeoverMessage answer;
  try {
    answer = receive_takeover_message(peer_.get(), 0, Clock::now() + times_.released);
  } catch (const Error& error) {
    answer.state = State::kHere;  // the peer is there, but its message is unreadable
  }
  if (answer.step() == "refusal") fail("process {} continues to serve: {}", pid_, answer.text("reason"));
  // If the other process has gone, this one must serve in any case.
  if (!sent || answer.state == State::kGone) {
    spdlog::warn("process {}, which served before, has ended without a message", pid_);
  } else if (answer.step() != "released") {
    spdlog::warn("process {}, which served before, does not say that it no longer accepts connections", pid_);
  }
  peer_.reset();
  return {
      {"event", "takeover"}, {"pid", ::getpid()},
      {"version", kVersion}, {"generation", generation()},
      {"from_pid", pid_},    {"from_version", version_},
      {"address", address},  {"duration_ms", std::chrono::duration<double, std::milli>(Clock::now() - begin_).count()}};
}

}  // namespace mortise
