#include "kv_events/publisher.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "error.hpp"
#include "kv_events/cached_blocks.hpp"
#include "kv_events/change_log.hpp"
#include "kv_events/replay_buffer.hpp"

namespace mortise {
namespace {

constexpr int kMaxWaiting = 100'000;  // messages for a slow reader before it misses some: vLLM's default
constexpr std::size_t kMaxReplayBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxEvents = 1000;        // of a message: readers apply one as a whole
constexpr std::int64_t kMaxRequestBytes = 256;  // at the replay socket, to which anybody may write
// Between two messages that tell everything: readers that come and go must not keep the thread busy.
constexpr std::chrono::milliseconds kTellAllGap{1000};
constexpr std::uint64_t kEndSeq = ~std::uint64_t{0};

std::string seq_bytes(std::uint64_t seq) {
  std::string bytes(8, '\0');
  for (int i = 7; i >= 0; --i, seq >>= 8) bytes[static_cast<std::size_t>(i)] = static_cast<char>(seq & 0xff);
  return bytes;
}

std::uint64_t read_seq(std::string_view bytes) {
  std::uint64_t seq = 0;
  for (const char byte : bytes) seq = seq << 8 | static_cast<unsigned char>(byte);
  return seq;
}

std::string payload_of(CachedBlocks::Json events) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto batch =
      CachedBlocks::Json::array({std::chrono::duration<double>(now).count(), std::move(events), nullptr});
  std::string payload;
  CachedBlocks::Json::to_msgpack(batch, payload);
  return payload;
}

void send(zmq::socket_t& socket, std::initializer_list<std::string_view> frames) {
  std::size_t left = frames.size();
  for (const std::string_view frame : frames) {
    const auto more = --left > 0 ? zmq::send_flags::sndmore : zmq::send_flags::none;
    // Neither socket waits: PUB drops for readers that are behind, ROUTER for those that are gone.
    static_cast<void>(socket.send(zmq::buffer(frame), more | zmq::send_flags::dontwait));
  }
}

void listen(zmq::socket_t& socket, std::string& endpoint, const char* option) {
  try {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::sndhwm, kMaxWaiting);
    socket.bind(endpoint);
    endpoint = socket.get(zmq::sockopt::last_endpoint);
  } catch (const zmq::error_t& error) {
    fail(
        "{} {}: cannot listen there: {}; give an address of this machine and a port that is free, like "
        "tcp://127.0.0.1:5557",
        option, endpoint, error.what());
  }
}

}  // namespace

struct KvEventPublisher::State {
  State(const KvEventOptions& given, std::size_t num_blocks, std::int32_t block_size)
      : options(given),
        log(num_blocks, block_size),
        blocks(num_blocks, block_size),
        sent(given.max_kept, kMaxReplayBytes) {
    pub.set(zmq::sockopt::xpub_verbose, true);  // of every reader, not of the first of a topic alone
    listen(pub, options.endpoint, "--kv-events");
    if (options.replay.empty()) return;
    replay.emplace(context, zmq::socket_type::router);
    replay->set(zmq::sockopt::maxmsgsize, kMaxRequestBytes);
    listen(*replay, options.replay, "--kv-events-replay");
  }

  void run();
  void publish_changes();
  void take_subscriptions();
  void tell_new_readers();
  void publish(CachedBlocks::Json events);
  void answer_replay();
  void answer_replay(std::string_view reader, std::uint64_t from);

  KvEventOptions options;
  KvChangeLog log;
  std::atomic<bool> stops = false;

  // The thread's own from here on.
  CachedBlocks blocks;
  ReplayBuffer sent;
  std::uint64_t next_seq = 0;
  KvChanges changes;
  zmq::context_t context;
  zmq::socket_t pub{context, zmq::socket_type::xpub};  // PUB to readers; here it says who subscribes
  bool has_new_reader = false;
  std::chrono::steady_clock::time_point told_all_at{};
  std::optional<zmq::socket_t> replay;
  std::thread thread;
};

KvEventPublisher::KvEventPublisher(const KvEventOptions& options, std::size_t num_blocks, std::int32_t block_size)
    : state_(std::make_unique<State>(options, num_blocks, block_size)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

KvEventPublisher::~KvEventPublisher() {
  state_->stops = true;
  state_->log.wake();
  state_->thread.join();
}

KvObserver& KvEventPublisher::observer() {
  return state_->log;
}

const KvEventOptions& KvEventPublisher::at() const {
  return state_->options;
}

void KvEventPublisher::State::run() {
  // The process's signals are other threads': here one would break off a wait with an error.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::vector<zmq::pollitem_t> items = {{nullptr, log.ready_fd(), ZMQ_POLLIN, 0}, {pub.handle(), 0, ZMQ_POLLIN, 0}};
  if (replay) items.push_back({replay->handle(), 0, ZMQ_POLLIN, 0});
  try {
    publish(CachedBlocks::Json::array({CachedBlocks::Json::object({{"type", "AllBlocksCleared"}})}));
    while (true) {
      zmq::poll(items, has_new_reader ? kTellAllGap : std::chrono::milliseconds(-1));
      if (stops) return;
      if (items[0].revents != 0) publish_changes();
      if (items[1].revents != 0) take_subscriptions();
      if (has_new_reader) tell_new_readers();
      if (replay && items[2].revents != 0) answer_replay();
    }
  } catch (const std::exception& error) {
    // Requests are served all the same: events are advice.
    spdlog::error("KV events at {} end here: {}; routers see this server's cache as it was", options.endpoint,
                  error.what());
  }
}

void KvEventPublisher::State::publish_changes() {
  log.take(changes);
  CachedBlocks::Json events = blocks.apply(changes);
  if (events.empty()) return;
  for (auto at = events.begin(); at != events.end();) {
    const auto count = std::min<std::ptrdiff_t>(kMaxEvents, events.end() - at);
    publish(CachedBlocks::Json(std::vector<CachedBlocks::Json>(at, at + count)));
    at += count;
  }
}

void KvEventPublisher::State::take_subscriptions() {
  zmq::message_t message;  // 1 and a topic, or 0 and a topic of a reader that goes
  while (pub.recv(message, zmq::recv_flags::dontwait)) {
    if (message.size() > 0 && *message.data<unsigned char>() == 1) has_new_reader = true;
  }
}

// Routers do not ask for what was before them, and would never hear of what is cached already. Who knows it loses
// nothing: the message clears and tells in one.
void KvEventPublisher::State::tell_new_readers() {
  const auto now = std::chrono::steady_clock::now();
  if (now - told_all_at < kTellAllGap) return;
  told_all_at = now;
  has_new_reader = false;
  publish(blocks.all());
}

void KvEventPublisher::State::publish(CachedBlocks::Json events) {
  std::string payload = payload_of(std::move(events));
  send(pub, {options.topic, seq_bytes(next_seq), payload});
  sent.add(next_seq++, std::move(payload));
}

void KvEventPublisher::State::answer_replay() {
  std::vector<std::string> frames;
  do {
    zmq::message_t frame;
    if (!replay->recv(frame, zmq::recv_flags::dontwait)) return;
    frames.push_back(frame.to_string());
  } while (replay->get(zmq::sockopt::rcvmore));
  // The reader's name, an empty frame that REQ sockets add, and the number.
  const bool is_good = frames.size() == 3 && frames[1].empty() && frames[2].size() == 8;
  if (is_good) return answer_replay(frames[0], read_seq(frames[2]));
  spdlog::warn("{}: a replay request that is not an empty frame and a number of 8 bytes was ignored", options.replay);
}

void KvEventPublisher::State::answer_replay(std::string_view reader, std::uint64_t from) {
  const auto answer = [&](std::uint64_t seq, std::string_view payload) {
    send(*replay, {reader, "", options.topic, seq_bytes(seq), payload});
  };
  if (!sent.reaches_back_to(from)) {
    answer(next_seq - 1, payload_of(blocks.all()));
  } else {
    for (const ReplayBuffer::Message& message : sent.messages()) {
      if (message.seq >= from) answer(message.seq, message.payload);
    }
  }
  send(*replay, {reader, "", "", seq_bytes(kEndSeq), ""});
}

}  // namespace mortise
