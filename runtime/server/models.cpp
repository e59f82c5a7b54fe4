#include "server/models.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "loader/nearest.hpp"

namespace mortise {
namespace {

ServedModelRef find_in(const std::vector<ServedModelRef>& list, std::string_view name) {
  const auto at = std::ranges::find(list, name, [](const ServedModelRef& model) { return model->name; });
  return at == list.end() ? nullptr : *at;
}

std::string names_of(const std::vector<ServedModelRef>& list) {
  std::vector<std::string> names;
  for (const ServedModelRef& served : list) names.push_back(served->name);
  return join_names(names);
}

}  // namespace

Models::Models(std::vector<ServedModelRef> list, std::function<void(nlohmann::json&)> route)
    : list_(std::move(list)), route_(std::move(route)) {}

std::vector<ServedModelRef> Models::list() const {
  const std::lock_guard lock(mutex_);
  return list_;
}

std::vector<ServedModelRef> Models::leaving() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServedModelRef> left;
  for (const auto& weak : leaving_) {
    if (ServedModelRef model = weak.lock()) left.push_back(std::move(model));
  }
  return left;
}

bool Models::replace(const ServedModel& old, ServedModelRef next) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(list_, &old, &ServedModelRef::get);
  if (at == list_.end()) return false;
  std::erase_if(leaving_, [](const auto& weak) { return weak.expired(); });
  leaving_.push_back(*at);
  *at = std::move(next);
  return true;
}

ServedModelRef Models::find(std::string_view name) const {
  return find_in(list(), name);
}

ServedModelRef Models::of(const nlohmann::json& body) const {
  const std::vector<ServedModelRef> list = this->list();
  if (list.size() == 1 || !body.is_object() || !body.contains("model") || body.at("model").is_null()) {
    return list.front();
  }
  const nlohmann::json& name = body.at("model");
  ServedModelRef model = name.is_string() ? find_in(list, name.get_ref<const std::string&>()) : nullptr;
  if (model != nullptr) return model;
  fail(ErrorCode::kNotFound, "model {} is not one of this server's: {}",
       quote(name.is_string() ? name.get<std::string>() : name.dump()), names_of(list));
}

ServedModelRef Models::of_query(const std::optional<std::string>& name) const {
  const std::vector<ServedModelRef> list = this->list();
  if (list.size() == 1) return list.front();
  if (!name) fail("this server has several models; name one with ?model=NAME: {}", names_of(list));
  return of({{"model", *name}});
}

}  // namespace mortise
