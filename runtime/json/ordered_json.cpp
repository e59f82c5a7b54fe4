#include "json/ordered_json.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "json/bounded_json.hpp"

namespace mortise {
namespace {

using Json = nlohmann::ordered_json;

// Merges entries with equal keys.
void finish(Json::object_t& entries) {
  std::vector<std::size_t> order(entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto at = [&](std::size_t i) -> auto& {
    return entries.begin()[static_cast<std::ptrdiff_t>(i)];
  };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return at(a).first < at(b).first; });
  std::vector<bool> repeats(entries.size(), false);
  bool any = false;
  for (std::size_t i = 1, first = 0; i < order.size(); ++i) {
    if (at(order[i]).first != at(order[first]).first) {
      first = i;
      continue;
    }
    at(order[first]).second = std::move(at(order[i]).second);
    repeats[order[i]] = any = true;
  }
  if (!any) return;
  Json::object_t kept;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!repeats[i]) kept.push_back(std::move(at(i)));
  }
  entries = std::move(kept);
}

// Receives the events of nlohmann's parser.
class Builder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    finish(open_.back()->get_ref<Json::object_t&>());
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  Json take() { return std::move(whole_); }

 private:
  Json* add(Json value) {
    if (open_.empty()) return &(whole_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    auto& entries = open_.back()->get_ref<Json::object_t&>();
    entries.push_back({std::move(key_), std::move(value)});
    return &entries.back().second;
  }
  bool put(Json value) {
    add(std::move(value));
    return true;
  }
  // An open value does not move until it is closed, because the values around it grow only then.
  bool open(Json value) {
    open_.push_back(add(std::move(value)));
    return true;
  }

  Json whole_;
  std::vector<Json*> open_;
  std::string key_;
};

}  // namespace

std::optional<nlohmann::ordered_json> find_ordered_json(std::string_view text) {
  if (too_deep_at(text)) return std::nullopt;
  Builder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take();
}

}  // namespace mortise
