// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files that `accelerate config` writes. Needs yaml-cpp, and therefore stands outside
// zero/config.hpp.

#include <zero/config/accelerate_config.hpp>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace zero {

namespace detail {

/// YAML as JSON. Anchors may make a small text large, so values are counted.
class YamlToJson {
 public:
  explicit YamlToJson(Findings& findings) : findings_(findings) {}

  boost::json::value operator()(YAML::Node const& node, std::string const& path, int depth) {
    if (++count_ > 10'000 || depth > 16) {
      if (!refused_)
        findings_.refuse(path.empty() ? "the file" : path,
                         "more values, or deeper ones, than accelerate writes",
                         "at most 10000, 16 deep");
      refused_ = true;
      return nullptr;
    }
    if (node.IsMap()) {
      boost::json::object object;
      for (auto const& member : node) {
        if (refused_) break;
        std::string const name = member.first.IsScalar() ? member.first.Scalar() : "?";
        std::string const inner = path.empty() ? name : std::string(path).append(".").append(name);
        if (!member.first.IsScalar()) {
          findings_.refuse(inner, "a key that is no word", "a word");
        } else if (object.contains(name)) {
          findings_.refuse(inner, "this key twice in one object",
                           "it once: neither value may win silently");
        } else {
          object[name] = (*this)(member.second, inner, depth + 1);
        }
      }
      return object;
    }
    if (node.IsSequence()) {
      boost::json::array array;
      for (auto const& element : node) {
        if (refused_) break;
        array.push_back(
            (*this)(element, path + "[" + std::to_string(array.size()) + "]", depth + 1));
      }
      return array;
    }
    return node.IsScalar() ? scalar(node) : boost::json::value();
  }

 private:
  /// The plain scalars of YAML 1.1 that accelerate's own writer and people use.
  static boost::json::value scalar(YAML::Node const& node) {
    std::string const& text = node.Scalar();
    if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str")  // in quotes, or !!str
      return boost::json::string(text);
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
      return nullptr;
    for (char const* word : {"true", "True", "TRUE", "yes", "Yes", "on", "On"}) {
      if (text == word) return true;
    }
    for (char const* word : {"false", "False", "FALSE", "no", "No", "off", "Off"}) {
      if (text == word) return false;
    }
    char const* const end = text.data() + text.size();
    Index whole = 0;
    if (auto const read = std::from_chars(text.data(), end, whole);
        read.ec == std::errc() && read.ptr == end)
      return whole;
    double number = 0;
    bool const numeric = (text[0] >= '0' && text[0] <= '9') || text[0] == '-' || text[0] == '.';
    if (auto const read = std::from_chars(text.data(), end, number);
        numeric && read.ec == std::errc() && read.ptr == end)
      return number;
    return boost::json::string(text);
  }

  Findings& findings_;
  int count_ = 0;
  bool refused_ = false;
};

/// Takes the events of a document and keeps nothing of it.
struct YamlIgnored : YAML::EventHandler {
  using Mark = YAML::Mark;
  using Style = YAML::EmitterStyle::value;
  using Text = std::string;
  void OnDocumentStart(Mark const&) override {}
  void OnDocumentEnd() override {}
  void OnNull(Mark const&, YAML::anchor_t) override {}
  void OnAlias(Mark const&, YAML::anchor_t) override {}
  void OnScalar(Mark const&, Text const&, YAML::anchor_t, Text const&) override {}
  void OnSequenceStart(Mark const&, Text const&, YAML::anchor_t, Style) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(Mark const&, Text const&, YAML::anchor_t, Style) override {}
  void OnMapEnd() override {}
};

/// Whether anything stands behind the first document. (YAML::LoadAll never ends on a comma outside
/// of brackets, which is one more document to it each time it is looked at.)
inline bool has_another_document(std::string const& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  YamlIgnored ignored;
  return parser.HandleNextDocument(ignored) && parser.HandleNextDocument(ignored);
}

}  // namespace detail

/// Reads YAML text as one JSON object; nothing where it is none, which `findings` says.
/// @param text whole
/// @param findings gets problems
/// @param name of the file, in the paths of problems
inline std::optional<boost::json::object> read_yaml(std::string const& text, Findings& findings,
                                                    std::string const& name = "the file") {
  constexpr std::size_t longest = std::size_t{1} << 20;
  if (text.size() > longest) {
    findings.refuse(name, std::to_string(text.size()) + " bytes",
                    "at most " + std::to_string(longest));
    return std::nullopt;
  }
  try {
    if (detail::has_another_document(text)) {
      findings.refuse(name, "more behind the first document",
                      "one document: none may win silently");
      return std::nullopt;
    }
    boost::json::value value = detail::YamlToJson(findings)(YAML::Load(text), "", 0);
    if (value.is_object()) return std::move(value.get_object());
    findings.refuse(name, value.is_null() ? "nothing" : "no map", "what accelerate config writes");
  } catch (YAML::Exception const& e) {
    findings.refuse(name + ", line " + std::to_string(e.mark.line + 1) + ", column " +
                        std::to_string(e.mark.column + 1),
                    e.msg, "YAML");
  }
  return std::nullopt;
}

/// Resolves the configuration of a file that `accelerate config` has written.
/// @param path of the YAML
/// @param arguments as load_config
/// @param world as load_accelerate
/// @param form of the DeepSpeed file
/// @throws ConfigError with every problem
inline ResolvedConfig load_accelerate_file(std::filesystem::path const& path,
                                           JudgedArguments const& arguments, Index world = 0,
                                           JsonForm form = JsonForm::strict) {
  Findings findings = arguments.findings;
  auto const text = detail::read_config_file(path, findings);
  auto const object = text ? read_yaml(*text, findings, path.string()) : std::nullopt;
  if (!object) findings.raise();
  AccelerateConfig const accelerate = read_accelerate(*object, path.parent_path(), findings);
  return load_accelerate(accelerate, arguments.arguments ? &*arguments.arguments : nullptr, world,
                         form, std::move(findings));
}
/// With arguments of a program's own, or none.
inline ResolvedConfig load_accelerate_file(std::filesystem::path const& path,
                                           TrainingArguments const* arguments = nullptr,
                                           Index world = 0, JsonForm form = JsonForm::strict) {
  JudgedArguments judged;
  if (arguments != nullptr)
    judged.arguments = read_arguments(arguments_json(*arguments), judged.findings);
  return load_accelerate_file(path, judged, world, form);
}

}  // namespace zero
