#include "cli/repl/draft_marks.hpp"

#include "test_support.hpp"

namespace mortise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Tokenizer& tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  return tokenizer;
}

// The tokens of " there was a girl" and how they came.
class Answer {
 public:
  void add(const std::string& text, DraftOutcome draft) {
    for (const std::int32_t id : tokenizer().encode(text, false)) {
      TokenInfo info;
      info.id = id;
      info.draft = draft;
      delta.tokens.push_back(info);
    }
    delta.text += text;
  }
  Delta delta;
};

DraftMarks marks() {
  static const std::vector<std::int32_t> prompt = tokenizer().encode("Once upon a time", true);
  return DraftMarks(tokenizer(), true, prompt);
}

TEST(DraftMarks, EachTokenHasItsOrigin) {
  Answer answer;
  answer.add(" there", DraftOutcome::kNone);
  answer.add(" was", DraftOutcome::kAccepted);
  answer.add(" a", DraftOutcome::kNone);  // after an accepted draft: the bonus token
  answer.add(" girl", DraftOutcome::kRecovered);
  answer.add(" named", DraftOutcome::kAccepted);
  answer.add(" Clara", DraftOutcome::kRecovered);
  answer.add(".", DraftOutcome::kNone);
  const std::vector<MarkedText> pieces = marks().add(answer.delta);
  EXPECT_EQ(bracketed(pieces), " there[ was]< a>{ girl}[ named]{ Clara}.");
}

TEST(DraftMarks, TextThatIsWithheldKeepsItsOrigin) {
  DraftMarks marks = mortise::marks();
  Answer first, second;
  first.add(" there", DraftOutcome::kAccepted);
  first.add(" was", DraftOutcome::kNone);
  first.delta.text = " there w";  // the rest may become a stop string
  EXPECT_EQ(bracketed(marks.add(first.delta)), "[ there]< w>");
  second.add(" a", DraftOutcome::kNone);
  second.delta.text = "as a";
  EXPECT_EQ(bracketed(marks.add(second.delta)), "<as> a");
}

TEST(DraftMarks, AnEndTokenHasNoTextAndAStopStringCutsIt) {
  DraftMarks marks = mortise::marks();
  Answer answer;
  answer.add(" there", DraftOutcome::kAccepted);
  answer.add(" was", DraftOutcome::kAccepted);
  answer.delta.text = " there";
  answer.delta.stop_token = answer.delta.tokens.back().id;
  answer.delta.finish = FinishReason::kStop;
  EXPECT_EQ(bracketed(marks.add(answer.delta)), "[ there]");
}

TEST(DraftMarks, TextThatNoTokenExplainsIsPlain) {
  Answer answer;
  answer.add(" there", DraftOutcome::kAccepted);
  answer.delta.text = "elsewhere";
  EXPECT_THAT(marks().add(answer.delta), ElementsAre(MarkedText{"elsewhere", TokenOrigin::kPlain}));
  EXPECT_THAT(marks().add(Delta()), IsEmpty());
}

TEST(Shaded, EachOriginHasAColourThatEndsWithTheLine) {
  const MarkedText pieces[] = {{"a", TokenOrigin::kPlain},      {"b", TokenOrigin::kAccepted},
                               {"c\n", TokenOrigin::kAccepted}, {"\nd", TokenOrigin::kBonus},
                               {"e", TokenOrigin::kRecovered},  {"", TokenOrigin::kPlain}};
  EXPECT_EQ(shaded(pieces), "a\033[30;42mbc\033[0m\n\n\033[30;46md\033[0m\033[30;43me\033[0m");
  EXPECT_EQ(shaded({}), "");
}

}  // namespace
}  // namespace mortise
