#include "server/models.hpp"

#include <utility>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "loader/nearest.hpp"

namespace mortise {

Models::Models(std::vector<ServedModel> list, std::function<void(nlohmann::json&)> route)
    : list_(std::move(list)), route_(std::move(route)) {}

const ServedModel* Models::find(std::string_view name) const {
  for (const ServedModel& model : list_) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

const ServedModel& Models::of(const nlohmann::json& body) const {
  if (list_.size() == 1 || !body.is_object() || !body.contains("model") || body.at("model").is_null()) {
    return list_.front();
  }
  const nlohmann::json& name = body.at("model");
  const ServedModel* model = name.is_string() ? find(name.get_ref<const std::string&>()) : nullptr;
  if (model != nullptr) return *model;
  fail(ErrorCode::kNotFound, "model {} is none of this server's: {}",
       quote(name.is_string() ? name.get<std::string>() : name.dump()), names());
}

const ServedModel& Models::of_query(const std::optional<std::string>& name) const {
  if (list_.size() == 1) return list_.front();
  if (!name) fail("this server has several models; name one with ?model=NAME: {}", names());
  return of({{"model", *name}});
}

std::string Models::names() const {
  std::vector<std::string> names;
  for (const ServedModel& served : list_) names.push_back(served.name);
  return join_names(names);
}

}  // namespace mortise
