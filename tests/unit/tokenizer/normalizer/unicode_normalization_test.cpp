// Against examples of Unicode Standard Annex 15; tokenizer/golden_test.cpp compares whole tokenizers with the package.
#include "tokenizer/normalizer/unicode_normalization.hpp"

#include <gtest/gtest.h>

namespace mortise::tokenizer {
namespace {

struct Forms {
  const char *text, *nfc, *nfd, *nfkc, *nfkd;
};

TEST(Normalize, GivesTheFormsOfTheAnnex) {
  const Forms examples[] = {
      {"", "", "", "", ""},
      {"plain", "plain", "plain", "plain", "plain"},
      {"\u00e9", "\u00e9", "e\u0301", "\u00e9", "e\u0301"},
      {"e\u0301", "\u00e9", "e\u0301", "\u00e9", "e\u0301"},
      {"\u212b", "\u00c5", "A\u030a", "\u00c5", "A\u030a"},  // no form has the Angstrom sign
      {"\ufb01\u00b2", "\ufb01\u00b2", "\ufb01\u00b2", "fi2", "fi2"},
      {"\u1e9b\u0323", "\u1e9b\u0323", "\u017f\u0323\u0307", "\u1e69", "s\u0323\u0307"},
      {"q\u0307\u0323", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307"},  // marks in their order
      {"\u1100\u1161\u11a8", "\uac01", "\u1100\u1161\u11a8", "\uac01", "\u1100\u1161\u11a8"},
      {"\uac00", "\uac00", "\u1100\u1161", "\uac00", "\u1100\u1161"},
      {"\u0958", "\u0915\u093c", "\u0915\u093c", "\u0915\u093c", "\u0915\u093c"},  // excluded from composition
      {"\u0301e", "\u0301e", "\u0301e", "\u0301e", "\u0301e"}};                    // a mark without a letter
  for (const Forms& example : examples) {
    EXPECT_EQ(normalize(example.text, NormalForm::kNfc), example.nfc) << example.text;
    EXPECT_EQ(normalize(example.text, NormalForm::kNfd), example.nfd) << example.text;
    EXPECT_EQ(normalize(example.text, NormalForm::kNfkc), example.nfkc) << example.text;
    EXPECT_EQ(normalize(example.text, NormalForm::kNfkd), example.nfkd) << example.text;
  }
}

TEST(Normalize, TwiceIsOnce) {
  const std::string text = "\u1e9b\u0323 \ufb01 \uac01\u11a8 a\u0315\u0300\u05ae\u0062";
  for (const NormalForm form : {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
    const std::string once = normalize(text, form);
    EXPECT_EQ(normalize(once, form), once);
  }
}

// A quadratic implementation would take minutes here.
TEST(Normalize, AMegabyteOfMarksIsOrdered) {
  constexpr int kPairs = 250'000;
  std::string text = "a", ordered = "a";
  for (int i = 0; i < kPairs; ++i) text += "\u0301\u0323";
  for (int i = 0; i < kPairs; ++i) ordered += "\u0323";
  for (int i = 0; i < kPairs; ++i) ordered += "\u0301";
  EXPECT_TRUE(normalize(text, NormalForm::kNfd) == ordered);
}

TEST(ToLowerCase, MapsEachCharacterAlone) {
  EXPECT_EQ(to_lower_case(""), "");
  EXPECT_EQ(to_lower_case("ÄÖÜ ẞ ABC123"), "äöü ß abc123");
  EXPECT_EQ(to_lower_case("ΑΣ"), "ασ");           // no final sigma: neighbours do not count
  EXPECT_EQ(to_lower_case("\u0130"), "i\u0307");  // one becomes two
  EXPECT_EQ(to_lower_case("中😀"), "中😀");
}

}  // namespace
}  // namespace mortise::tokenizer
