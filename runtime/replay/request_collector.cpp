#include "replay/request_collector.hpp"

#include <memory>
#include <utility>

namespace mortise {

struct RequestCollector::Record {
  RecordedRequest request;
  std::size_t num_open = 0;
};

RequestCollector::RequestCollector(std::string pipeline, std::function<void(RecordedRequest)> take,
                                   std::function<void()> before)
    : pipeline_(std::move(pipeline)), take_(std::move(take)), before_(std::move(before)) {}

Tap RequestCollector::watch(Request& request) {
  if (before_) before_();
  auto record = std::make_shared<Record>();
  record->request.pipeline = pipeline_;
  record->request.request = request;
  record->request.choices.resize(static_cast<std::size_t>(request.sampling.n));
  record->num_open = record->request.choices.size();
  const bool hide = !request.logprobs;
  if (hide) request.logprobs = 0;
  return [this, record, hide](Delta& delta) {
    take(*record, delta);
    if (!hide) return;
    for (TokenInfo& token : delta.tokens) {
      token.logprob = 0;
      token.rank = 0;
    }
  };
}

void RequestCollector::take(Record& record, const Delta& delta) {
  RecordedChoice& choice = record.request.choices[static_cast<std::size_t>(delta.choice)];
  choice.tokens.insert(choice.tokens.end(), delta.tokens.begin(), delta.tokens.end());
  choice.prompt.insert(choice.prompt.end(), delta.prompt.begin(), delta.prompt.end());
  if (delta.finish == FinishReason::kNone) return;
  choice.finish = delta.finish;
  choice.stop_token = delta.stop_token;
  choice.error = delta.error;
  if (--record.num_open > 0) return;
  record.request.id = delta.request;
  take_(std::move(record.request));
}

}  // namespace mortise
