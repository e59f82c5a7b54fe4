#include "kv_events/publisher.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "kv_events/cached_blocks.hpp"
#include "kv_events/change_log.hpp"
#include "kv_events/frames.hpp"
#include "kv_events/publish_socket.hpp"
#include "kv_events/replay_buffer.hpp"
#include "kv_events/replay_socket.hpp"

namespace mortise {
namespace {

constexpr std::size_t kMaxReplayBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxEvents = 1000;  // in a message, which readers apply as a whole
// The shortest time between two messages with the whole tree, so that readers that come and go do not keep the thread
// busy.
constexpr std::chrono::milliseconds kTellAllGap{1000};

Payload payload_of(CachedBlocks::Json events) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto batch =
      CachedBlocks::Json::array({std::chrono::duration<double>(now).count(), std::move(events), nullptr});
  std::string payload;
  CachedBlocks::Json::to_msgpack(batch, payload);
  return std::make_shared<const std::string>(std::move(payload));
}

}  // namespace

// The sockets, and the thread that uses them.
struct KvEventPublisher::Publishing {
  Publishing(const KvEventOptions& given, KvChangeLog& from)
      : options(given),
        log(from),
        blocks(from.num_blocks(), from.block_size()),
        sent(given.max_kept, kMaxReplayBytes),
        pub(context, given.endpoint, given.topic) {
    options.endpoint = pub.endpoint();
    if (options.replay.empty()) return;
    replay.emplace(context, options.replay, options.topic);
    options.replay = replay->endpoint();
  }

  void run();
  void publish_changes();
  void tell_new_readers();
  void publish(CachedBlocks::Json events);
  void answer_replay();
  std::vector<ReplayBuffer::Message> replay_from(std::uint64_t seq);

  KvEventOptions options;
  KvChangeLog& log;
  std::atomic<bool> stops = false;

  // The members below are used by the thread only.
  CachedBlocks blocks;
  ReplayBuffer sent;
  std::uint64_t next_seq = 0;
  ReplayBuffer::Message everything;  // the whole tree in one message, as of message `everything.seq`
  KvChanges changes;
  zmq::context_t context;
  PublishSocket pub;
  bool has_new_reader = false;
  std::chrono::steady_clock::time_point told_all_at{};
  std::optional<ReplaySocket> replay;
  std::thread thread;
};

KvEventPublisher::KvEventPublisher(const KvEventOptions& options, std::size_t num_blocks, std::int32_t block_size)
    : options_(options), log_(num_blocks, block_size) {}

KvEventPublisher::~KvEventPublisher() {
  stop();
}

void KvEventPublisher::listen() {
  auto publishing = std::make_unique<Publishing>(options_, log_);
  publishing->thread = std::thread([state = publishing.get()] { state->run(); });
  options_ = publishing->options;
  publishing_ = std::move(publishing);
}

void KvEventPublisher::stop() {
  if (!publishing_) return;
  publishing_->stops = true;
  log_.wake();
  publishing_->thread.join();
  publishing_.reset();  // ZeroMQ's context ends when all of its sockets are closed
}

bool KvEventPublisher::listens() const {
  return publishing_ != nullptr;
}

KvObserver& KvEventPublisher::observer() {
  return log_;
}

const KvEventOptions& KvEventPublisher::at() const {
  return options_;
}

void KvEventPublisher::Publishing::run() {
  // Blocks signals on this thread, where they would interrupt a wait with an error. Other threads handle them.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  try {
    publish(CachedBlocks::Json::array({CachedBlocks::Json::object({{"type", "AllBlocksCleared"}})}));
    while (true) {
      // The publish socket's handle changes when it listens again.
      std::vector<zmq::pollitem_t> items = {{nullptr, log.ready_fd(), ZMQ_POLLIN, 0}, {pub.handle(), 0, ZMQ_POLLIN, 0}};
      if (replay) items.push_back({replay->handle(), 0, ZMQ_POLLIN, 0});
      zmq::poll(items, has_new_reader ? kTellAllGap : std::chrono::milliseconds(-1));
      if (stops) return;
      if (items[0].revents != 0) publish_changes();
      if (items[1].revents != 0 && pub.receive()) has_new_reader = true;
      if (has_new_reader) tell_new_readers();
      if (replay && items[2].revents != 0) answer_replay();
    }
  } catch (const std::exception& error) {
    // The server goes on without events, which are only hints for routers.
    spdlog::error("KV events at {} end here: {}; routers keep an outdated view of this server's cache",
                  options.endpoint, error.what());
  }
}

void KvEventPublisher::Publishing::publish_changes() {
  log.take(changes);
  CachedBlocks::Json events = blocks.apply(changes);
  if (events.empty()) return;
  for (auto at = events.begin(); at != events.end();) {
    const auto count = std::min<std::ptrdiff_t>(kMaxEvents, events.end() - at);
    publish(CachedBlocks::Json(std::vector<CachedBlocks::Json>(at, at + count)));
    at += count;
  }
}

// Sends the whole tree for new readers. Routers do not ask for earlier messages, and would never learn of blocks that
// are cached already. Other readers lose nothing: the message clears the tree and describes it again.
void KvEventPublisher::Publishing::tell_new_readers() {
  const auto now = std::chrono::steady_clock::now();
  if (now - told_all_at < kTellAllGap) return;
  told_all_at = now;
  has_new_reader = false;
  publish(blocks.all());
}

void KvEventPublisher::Publishing::publish(CachedBlocks::Json events) {
  const Payload payload = payload_of(std::move(events));
  pub.send(next_seq, payload);
  sent.add(next_seq++, payload);
}

void KvEventPublisher::Publishing::answer_replay() {
  if (const auto request = replay->receive()) replay->answer(*request, replay_from(request->from));
}

std::vector<ReplayBuffer::Message> KvEventPublisher::Publishing::replay_from(std::uint64_t seq) {
  if (!sent.reaches_back_to(seq)) {
    const bool is_current = everything.payload && everything.seq == next_seq - 1;
    if (!is_current) everything = {next_seq - 1, payload_of(blocks.all())};
    return {everything};
  }
  std::vector<ReplayBuffer::Message> messages;
  for (const ReplayBuffer::Message& message : sent.messages()) {
    if (message.seq >= seq) messages.push_back(message);
  }
  return messages;
}

}  // namespace mortise
