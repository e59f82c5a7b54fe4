// runtime/openai/answer_stream.hpp: the answer to a body as server-sent events, while it is made. What a client has not
// taken is merged in the requests' channels, so a slow one never keeps more than its finished answer waiting.
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
  kWhole,  // the last event has come: "[DONE]"
  // The process ends before the answer does. The last event is no "[DONE]", and the connection is to break off as well:
  // then no client takes the part that it has for the whole, and one that has an event's id goes on elsewhere.
  kCut,
};

class AnswerStream {
 public:
  // Submits the requests. `head` is a chunk's JSON up to its choices. `have`: how much of each choice the client has of
  // an earlier stream; none for a new one. `wake` is called when take() has something to give, on any thread; it must
  // not block. Throws an Error when the engine refuses a request; then nothing of the body runs.
  AnswerStream(Engine& engine, Work work, StreamOrigin origin, std::string head, std::vector<ChoiceProgress> have,
               AnswerObserver* observer, std::function<void()> wake);
  ~AnswerStream();  // aborts what has not ended
  AnswerStream(const AnswerStream&) = delete;
  AnswerStream& operator=(const AnswerStream&) = delete;

  // Appends the events of all that has come since the last call. Not to be called again when the stream has ended.
  // [one thread at a time]
  StreamState take(std::string& events);

 private:
  struct Choice {
    ChoicePlace place;
    ChoiceProgress sent;  // what the client has
    ChoiceProgress seen;  // what the engine has made: behind `sent` while a broken stream is made again
    ChoiceTimes times;
    Usage usage;  // so far only the tokens, until the finish
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
  const std::string origin_;              // the first part of each event's id
  std::vector<ChoiceProgress> progress_;  // of all choices, for that id
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
