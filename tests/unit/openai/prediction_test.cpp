// The field `prediction` of bodies.
#include <gmock/gmock.h>

#include "service_fixture.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;

class PredictionFieldTest : public ServiceTest {
 protected:
  std::string refusal_of(const Json& prediction) { return refusal(kChat, {{"prediction", prediction}}); }
};

Json text(const Json& answer) {
  return answer["choices"][0]["text"];
}

TEST_F(PredictionFieldTest, TextAndTokensAreVerifiedAndCounted) {
  const Json body = {{"max_tokens", 20}, {"ignore_eos", true}, {"return_token_ids", true}};
  const Json plain = complete(body);
  EXPECT_FALSE(plain["usage"].contains("completion_tokens_details"));
  const Json ids = plain["choices"][0]["token_ids"];

  Json predicted = body;
  predicted["prediction"] = {{"type", "tokens"}, {"token_ids", ids}};
  const Json right = complete(predicted);
  EXPECT_EQ(text(right), text(plain));
  EXPECT_EQ(right["usage"]["completion_tokens_details"],
            Json::parse(R"({"accepted_prediction_tokens":20,"rejected_prediction_tokens":0})"));

  Json wrong_ids = Json::array();
  for (const Json& id : ids) wrong_ids.push_back((id.get<int>() + 1) % kVocab);
  predicted["prediction"]["token_ids"] = wrong_ids;
  const Json wrong = complete(predicted);
  EXPECT_EQ(text(wrong), text(plain));
  const Json details = wrong["usage"]["completion_tokens_details"];
  EXPECT_EQ(details["accepted_prediction_tokens"].get<int>() + details["rejected_prediction_tokens"].get<int>(), 20);
  EXPECT_GT(details["rejected_prediction_tokens"], 10);
}

TEST_F(PredictionFieldTest, ContentIsATextOrItsParts) {
  for (const Json& content :
       {Json("hello"), Json::parse(R"([{"type":"text","text":"hel"},{"type":"text","text":"lo"}])")}) {
    const std::vector<Request> requests = service->requests(
        kCompletions, {{"prompt", "say: "}, {"prediction", {{"type", "content"}, {"content", content}}}});
    EXPECT_EQ(tokenizer().decode(requests.at(0).prediction, true), "hello");
    EXPECT_FALSE(requests.at(0).resumed);
  }
  EXPECT_EQ(refusal(kCompletions, {{"prompt", "a"}, {"prediction", nullptr}, {"max_tokens", 1}}), "accepted");
}

TEST_F(PredictionFieldTest, ShapesThatAreNoneAreRefusedWithTheFieldsName) {
  EXPECT_THAT(refusal_of("x"), HasSubstr("prediction: expected a JSON object, got \"x\""));
  EXPECT_EQ(refusal_of(Json::object()), "prediction.type is missing");
  EXPECT_THAT(refusal_of({{"type", 3}}), HasSubstr("prediction.type: expected a string, got 3"));
  EXPECT_EQ(refusal_of({{"type", "text"}}), "prediction.type is 'text'; it must be 'content' or 'tokens'");
  EXPECT_EQ(refusal_of({{"type", "content"}}), "prediction.content is missing");
  EXPECT_THAT(refusal_of({{"type", "content"}, {"content", 3}}),
              HasSubstr("prediction.content: expected a text or a list of parts of type text, got 3"));
  EXPECT_THAT(refusal_of({{"type", "content"}, {"content", Json::parse(R"([{"type":"image_url"}])")}}),
              HasSubstr("prediction.content[0]: expected type \"text\", got"));
  EXPECT_EQ(refusal_of({{"type", "content"}, {"content", Json::parse(R"([{"type":"text"}])")}}),
            "prediction.content[0].text is missing");
  EXPECT_EQ(refusal_of({{"type", "tokens"}}), "prediction.token_ids is missing");
  EXPECT_THAT(refusal_of({{"type", "tokens"}, {"token_ids", "x"}}), HasSubstr("prediction.token_ids: expected"));
  EXPECT_THAT(refusal_of({{"type", "tokens"}, {"token_ids", {kVocab}}}),
              HasSubstr("the prediction has token id 97; ids are from 0 to 96"));
  EXPECT_THAT(refusal_of({{"type", "tokens"}, {"token_ids", std::vector<int>(100, 1)}}),
              HasSubstr("prediction of 100 tokens exceeds max_model_len 64; no answer can be that long"));
  EXPECT_THAT(
      refusal(kCompletions, {{"prompt", {{1}, {2}}}, {"prediction", {{"type", "content"}, {"content", "x"}}}}),
      HasSubstr(
          "it is the expected answer to one prompt, but prompt is a list of 2; send each prompt in its own body"));
}

}  // namespace
}  // namespace mortise::test
