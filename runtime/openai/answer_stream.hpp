// runtime/openai/answer_stream.hpp: answers a body as server-sent events while the engine runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "error.hpp"
#include "openai/event_id.hpp"
#include "openai/observer.hpp"
#include "openai/work.hpp"

namespace mortise {

enum class StreamState {
  kOpen,   // more will come
  kWhole,  // the last event is "[DONE]"
  // The process ends before the answer does. The last event is not "[DONE]", and the connection must be closed as well:
  // a client then does not take its part for the whole answer, and a client that has an event's id resumes elsewhere.
  kCut,
};

// The stream of one body: owns its requests from their submission to their end. Deltas that the client has not taken
// are merged in the requests' channels, so a slow client never holds more than its finished answer in memory. Used by
// one thread at a time. Invariant: num_open_ counts the choices without a finish.
class AnswerStream {
 public:
  // Submits the requests. `head` is the JSON of a chunk up to its choices. `have` says how much of each choice the
  // client has from a broken stream; empty for a new stream. `wake` is called on any thread when take() has something
  // to return; it must not block. Throws an Error if the engine refuses a request; then no request of the body runs.
  AnswerStream(Engine& engine, Work work, StreamOrigin origin, std::string head, std::vector<ChoiceProgress> have,
               AnswerObserver* observer, std::function<void()> wake);
  ~AnswerStream();  // aborts the requests that have not ended
  AnswerStream(const AnswerStream&) = delete;
  AnswerStream& operator=(const AnswerStream&) = delete;

  // Appends all events since the last call.
  // REQUIRES: no call has returned kWhole or kCut. [one thread at a time]
  StreamState take(std::string& events);

 private:
  struct Choice {
    ChoicePlace place;
    ChoiceProgress sent;  // what the client has
    ChoiceProgress seen;  // what the engine has generated; less than `sent` while a broken stream is generated again
    ChoiceTimes times;
    Usage usage;  // only token counts until the finish
    bool open = true;
  };
  struct Prompt {
    RequestId request = 0;
    std::shared_ptr<PulledChannel> channel;
    std::vector<Choice> choices;
  };
  void take(Prompt& prompt, std::string& events);
  void take(Choice& choice, Delta&& delta, std::string& events);
  void write(Choice& choice, const Delta& delta, bool begins, std::string& events);
  void add_event(const nlohmann::ordered_json& choice, std::string& events);
  void end_early(const Delta& delta, std::string& events);
  void add_error(const Error& error, std::string& events) const;
  nlohmann::ordered_json usage() const;
  void abort();
  void close_choices();

  Engine& engine_;
  Work work_;
  const std::string head_;
  const std::string origin_;              // the common part of all event ids
  std::vector<ChoiceProgress> progress_;  // of all choices, for the event ids
  std::unique_ptr<ChunkWriter> writer_;
  AnswerObserver* const observer_;
  std::vector<Prompt> prompts_;
  std::size_t num_open_ = 0;
  bool is_cut_ = false;
  std::int64_t prompt_tokens_ = 0;
  std::vector<Delta> deltas_;
  std::vector<ChunkChoice> chunks_;
};

}  // namespace mortise
