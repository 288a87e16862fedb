// SPDX-License-Identifier: Apache-2.0
#pragma once
// Each key of a configuration against its row of the tables: known, of the right type, in range,
// not another system's. What keys mean together is not judged here.

#include <zero/config/fitted_value.hpp>
#include <zero/config/problem.hpp>
#include <zero/config/values.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace zero::detail {

/// One walk over a configuration.
class Judge {
 public:
  Judge(Findings& findings, ConfigValues& values) : findings_(findings), values_(values) {}

  void operator()(boost::json::object const& file) {
    section(file, "", "");
    translate("zero_optimization.cpu_offload", "zero_optimization.offload_optimizer");
    translate("zero_optimization.cpu_offload_param", "zero_optimization.offload_param");
  }

 private:
  using Json = boost::json::value;

  void section(boost::json::object const& object, std::string const& path, std::string_view type) {
    for (auto const& member : object) {
      if (findings_.full()) return;
      judge(path, member.key(), member.value(), type);
    }
  }

  void judge(std::string const& parent, std::string_view name, Json const& value,
             std::string_view type) {
    std::string const spelled =
        parent.empty() ? std::string(name) : parent + "." + std::string(name);
    // A point inside a name must not pass for a path.
    Key const* k = name.find('.') == std::string_view::npos ? find_key(spelled, type) : nullptr;
    if (k == nullptr) {
      findings_.refuse(spelled, "a key that is not known", expected_instead(spelled, type));
      return;
    }
    std::string path = spelled;
    if (!k->translated.empty()) {
      path = k->translated;
      if (k->deprecated) findings_.warn(spelled + ": deprecated, read as " + path);
      k = find_key(path, type);
    }
    if (values_.given(path)) {
      findings_.refuse(spelled, "another spelling of " + path + " beside it", "one of the two");
      return;
    }
    if (value.is_null()) {
      // DeepSpeed's own sections for offload, optimizer and scheduler are none by default.
      bool const optional_section =
          k->type == KeyType::section &&
          (k->path.starts_with("zero_optimization.") || path == "optimizer" || path == "scheduler");
      if (!k->may_be_null() && !optional_section) refuse(spelled, value, *k);
      return;
    }
    if (path == "optimizer" || path == "scheduler") return menu(path, value);
    if (path == "zero_optimization" && value.is_bool()) return old_form(value.get_bool());
    if (k->switched) return foreign(spelled, value, *k);
    if (k->type == KeyType::section) return inside(spelled, path, value, *k, type);
    leaf(spelled, path, value, *k);
  }

  void inside(std::string const& spelled, std::string const& path, Json const& value, Key const& k,
              std::string_view type) {
    if (!value.is_object()) return refuse(spelled, value, k);
    if (k.status == KeyStatus::accepted) accept(spelled, k);
    if (k.status != KeyStatus::refused) {
      values_.set(path, boost::json::object(), "file");
      return section(value.get_object(), path, type);
    }
    for (auto const& member : value.get_object()) {
      std::string const name = path + "." + std::string(member.key());
      if (find_key(name) != nullptr) {
        judge(path, member.key(), member.value(), type);
      } else {
        findings_.refuse(name, quoted_json(member.value()), "it absent: " + std::string(k.what));
      }
    }
  }

  void leaf(std::string const& spelled, std::string const& path, Json const& value, Key const& k) {
    if (value.is_string() && value.get_string() == "auto" && k.automatic != Auto::none)
      return values_.set_automatic(path);
    if (k.status == KeyStatus::refused) {
      if (!same_value(value, boost::json::parse(k.fallback)))
        findings_.refuse(spelled, quoted_json(value), neutral(k) + ": " + std::string(k.what));
      return;
    }
    std::optional<Json> fit = fitted(value, k);
    if (!fit) {
      values_.set_wrong(path);
      return refuse(spelled, value, k);
    }
    if (k.status == KeyStatus::accepted) accept(spelled, k);
    values_.set(path, std::move(*fit), "file");
  }

  static std::string neutral(Key const& k) {
    return k.fallback == "null" || k.fallback == "{}" ? "it absent" : std::string(k.fallback);
  }
  void refuse(std::string const& path, Json const& value, Key const& k) {
    findings_.refuse(path, quoted_json(value), expected_instead_of(value, k));
  }
  void accept(std::string const& path, Key const& k) {
    findings_.warn(path + ": accepted without effect: " + std::string(k.what));
  }

  void old_form(bool on) {
    findings_.warn(std::string("zero_optimization: ") + (on ? "true" : "false") +
                   " is an old form, read as stage " + (on ? "1" : "0"));
    values_.set("zero_optimization", boost::json::object(), "file");
    values_.set("zero_optimization.stage", on ? 1 : 0, "file");
  }

  /// Off, its inside is not judged.
  void foreign(std::string const& path, Json const& value, Key const& k) {
    if (!value.is_object()) return refuse(path, value, k);
    boost::json::value const* const enabled = value.get_object().if_contains("enabled");
    if (enabled == nullptr || (enabled->is_bool() && !enabled->get_bool())) return;
    if (!enabled->is_bool()) {
      findings_.refuse(path + ".enabled", quoted_json(*enabled), "true or false");
    } else if (k.status == KeyStatus::refused) {
      findings_.refuse(path + ".enabled", "true", "false: " + std::string(k.what));
    } else {
      accept(path, k);
      for (auto const& member : value.get_object()) {
        std::string const name = path + "." + std::string(member.key());
        Key const* const row = find_key(name);
        if (row == nullptr) {
          findings_.refuse(name, "a key that is not known", expected_instead(name));
        } else if (!(member.value().is_null() && row->may_be_null()) &&
                   !fitted(member.value(), *row)) {
          refuse(name, member.value(), *row);
        }
      }
    }
  }

  /// The sections optimizer and scheduler: what they may hold depends on their type.
  void menu(std::string const& path, Json const& value) {
    bool const optimizer = path == "optimizer";
    std::string_view const types = optimizer ? keys::optimizer_types : keys::scheduler_types;
    values_.set(path, boost::json::object(), "file");
    if (!value.is_object()) {
      values_.set_wrong(path);
      return findings_.refuse(path, quoted_json(value), "an object with type and params");
    }
    boost::json::value const* const type = value.get_object().if_contains("type");
    std::string_view known;
    if (type == nullptr || type->is_null()) {
      findings_.refuse(path + ".type", "nothing", words_text(types));
    } else if (!type->is_string()) {
      findings_.refuse(path + ".type", quoted_json(*type), words_text(types));
    } else {
      known = same_word(text_of(*type), types);
      if (known.empty()) unknown_type(path, text_of(*type), types);
    }
    if (known.empty()) values_.set_wrong(path);
    (optimizer ? values_.optimizer_type : values_.scheduler_type) = known;
    for (auto const& member : value.get_object()) {
      std::string const name = path + "." + std::string(member.key());
      if (member.key() == "type") {
        if (!known.empty()) values_.set(name, boost::json::string(known), "file");
      } else if (member.key() == "params" && known.empty()) {
        continue;  // what it may hold is not known
      } else {
        judge(path, member.key(), member.value(), known);
      }
    }
  }
  void unknown_type(std::string const& path, std::string_view type, std::string_view types) {
    std::string expected = words_text(types);
    if (!same_word(type, keys::foreign_optimizer_types).empty() && path == "optimizer") {
      expected += ": " + std::string(type) + " is not built here";
    } else if (std::string_view const near = nearest_word(type, types); !near.empty()) {
      expected += "; nearest is " + std::string(near);
    }
    findings_.refuse(path + ".type", quoted_json(boost::json::value(type)), expected);
  }

  /// Old switches that stand for a section.
  void translate(std::string const& old, std::string const& section_path) {
    if (!values_.given(old) || values_.wrong(old)) return;
    findings_.warn(old + ": deprecated, read as " + section_path + ".device");
    if (values_.given(section_path)) {
      findings_.refuse(old, "section " + section_path + " beside it", "one of the two");
      return;
    }
    values_.set(section_path + ".device", values_.flag(old) ? "cpu" : "none", "file: " + old);
  }

  Findings& findings_;
  ConfigValues& values_;
};

}  // namespace zero::detail
