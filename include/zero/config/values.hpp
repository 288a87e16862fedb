// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a configuration says, key by key, with where each value came from. It starts as what the
// file gives; rules, arguments and defaults fill it until nothing is open.

#include <zero/config/keys.hpp>
#include <zero/core/size.hpp>

#include <boost/json.hpp>

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace zero::detail {

/// The value of one key.
struct ConfigValue {
  boost::json::value json;
  std::string origin;      ///< "file", "default", "arguments: learning_rate", a rule, ...
  bool automatic = false;  ///< still "auto"
  bool wrong = false;      ///< refused already: nothing more is said about it
};

/// Values by canonical path.
class ConfigValues {
 public:
  std::string optimizer_type{};  ///< canonical spelling; "" where there is no optimizer
  std::string scheduler_type{};

  /// The file or a rule says it, or was refused for it.
  bool given(std::string_view path) const { return values_.contains(path); }
  /// It has a value, from the file, a rule or the table.
  bool known(std::string_view path) const {
    auto const i = values_.find(path);
    if (i != values_.end()) return !i->second.wrong && !i->second.automatic;
    Key const* const k = find(path);
    return k != nullptr && k->has_default();
  }
  bool wrong(std::string_view path) const {
    auto const i = values_.find(path);
    return i != values_.end() && i->second.wrong;
  }
  bool automatic(std::string_view path) const {
    auto const i = values_.find(path);
    return i != values_.end() && i->second.automatic && !i->second.wrong;
  }
  void set(std::string_view path, boost::json::value json, std::string origin) {
    values_[std::string(path)] = {std::move(json), std::move(origin), false, false};
  }
  void set_automatic(std::string_view path) {
    values_[std::string(path)] = {"auto", "file", true, false};
  }
  void set_wrong(std::string_view path) {
    values_[std::string(path)] = {nullptr, "file", false, true};
  }

  /// The value, else the default; null where there is neither.
  boost::json::value json(std::string_view path) const {
    if (auto const i = values_.find(path); i != values_.end() && !i->second.wrong)
      return i->second.json;
    Key const* const k = find(path);
    return k != nullptr && k->has_default() ? boost::json::parse(k->fallback)
                                            : boost::json::value();
  }
  std::string origin(std::string_view path) const {
    auto const i = values_.find(path);
    return i != values_.end() ? i->second.origin : "default";
  }
  bool is_null(std::string_view path) const { return json(path).is_null(); }
  bool flag(std::string_view path) const {
    boost::json::value const v = json(path);
    return v.is_bool() && v.get_bool();
  }
  /// 0 where there is none.
  Index whole(std::string_view path) const {
    boost::json::value const v = json(path);
    if (v.is_int64()) return v.get_int64();
    return v.is_double() ? static_cast<Index>(v.get_double()) : 0;
  }
  double number(std::string_view path) const {
    boost::json::value const v = json(path);
    if (v.is_int64()) return static_cast<double>(v.get_int64());
    return v.is_double() ? v.get_double() : 0;
  }
  /// "" where there is none.
  std::string text(std::string_view path) const {
    boost::json::value const v = json(path);
    return v.is_string() ? std::string(v.get_string()) : std::string();
  }

  /// The row that holds for a path, by the type of the optimizer or scheduler in use.
  Key const* find(std::string_view path) const {
    return find_key(path, path.starts_with("scheduler.") ? scheduler_type : optimizer_type);
  }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::map<std::string, ConfigValue, std::less<>> values_;
};

/// Sets a value at a path of objects: put(o, "a.b", 1) makes {"a": {"b": 1}}.
inline void put_at(boost::json::object& object, std::string_view path, boost::json::value value) {
  boost::json::object* here = &object;
  for (std::size_t point = path.find('.'); point != std::string_view::npos;
       point = path.find('.')) {
    boost::json::value& inner = (*here)[path.substr(0, point)];
    if (!inner.is_object()) inner = boost::json::object();
    here = &inner.get_object();
    path.remove_prefix(point + 1);
  }
  (*here)[path] = std::move(value);
}

}  // namespace zero::detail
