// SPDX-License-Identifier: Apache-2.0
#pragma once
// zero-config init: asks what `accelerate config` asks for DeepSpeed and writes a DeepSpeed JSON
// and accelerate's YAML that names it.

#include <zero/config.hpp>

#include <zero_config/command_line.hpp>

#include <cmath>
#include <fstream>
#include <iostream>

namespace zero_config {

/// Questions on the error stream, answers from the input; an empty answer takes what stands in
/// brackets.
class Questions {
 public:
  explicit Questions(std::istream& in) : in_(in) {}

  std::string word(std::string const& question, std::vector<std::string> const& words,
                   std::string const& fallback) {
    std::string all;
    for (std::string const& w : words) all += (all.empty() ? "" : "|") + w;
    for (;;) {
      std::string const answer = ask(question + " (" + all + ")", fallback);
      if (std::ranges::find(words, answer) != words.end()) return answer;
      std::cerr << "  one of " << all << ", please\n";
    }
  }
  Index number(std::string const& question, Index low, Index high, Index fallback) {
    for (;;) {
      std::string const answer = ask(question, std::to_string(fallback));
      Index value = 0;
      auto const [end, error] =
          std::from_chars(answer.data(), answer.data() + answer.size(), value);
      if (error == std::errc() && end == answer.data() + answer.size() && value >= low &&
          value <= high)
        return value;
      std::cerr << "  a whole number from " << low << " to " << high << ", please\n";
    }
  }
  std::string text(std::string const& question, std::string const& fallback) {
    return ask(question, fallback);
  }
  bool yes(std::string const& question, bool fallback) {
    return word(question, {"yes", "no"}, fallback ? "yes" : "no") == "yes";
  }

 private:
  std::string ask(std::string const& question, std::string const& fallback) {
    std::cerr << question << " [" << fallback << "]: " << std::flush;
    std::string answer;
    if (!std::getline(in_, answer)) {
      if (ended_) throw WrongCommand("zero-config init: the answers end at: " + question);
      ended_ = true;  // the rest takes what stands in brackets, once each
    }
    while (!answer.empty() && (answer.back() == '\r' || answer.back() == ' ')) answer.pop_back();
    return answer.empty() ? fallback : answer;
  }

  std::istream& in_;
  bool ended_ = false;
};

inline void judge_new(std::string const& path, bool force) {
  if (!force && std::ifstream(path).is_open())
    throw WrongCommand("zero-config init: " + path + " is there already; --force writes over it");
}

inline void write(std::string const& path, std::string const& text) {
  std::ofstream out(path);
  out << text << std::flush;
  if (!out) throw WrongCommand("zero-config init: " + path + " cannot be written");
  std::cerr << "wrote " << path << "\n";
}

/// A text as YAML takes it, whatever is in it.
inline std::string quoted_yaml(std::string const& text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

/// What is not asked stands as "auto": the arguments say it.
inline int init(std::span<char const* const> arguments) {
  CommandLine const line("init", arguments, false,
                         {{"json", "FILE.json"}, {"yaml", "FILE.yaml"}, {"force", ""}});
  std::string const json_file = line.has("json") ? line.text("json") : "ds_config.json";
  std::string const yaml_file = line.has("yaml") ? line.text("yaml") : "accelerate.yaml";
  for (std::string const& file : {json_file, yaml_file}) judge_new(file, line.has("force"));
  Questions ask(std::cin);
  Index const machines = ask.number("How many machines?", 1, 100000, 1);
  Index const rank = machines > 1 ? ask.number("The rank of this machine?", 0, machines - 1, 0) : 0;
  Index const processes =
      ask.number("How many processes on all machines together?", machines, 1 << 30, machines);
  Index const stage = ask.number("Which ZeRO stage?", 0, 3, 2);
  boost::json::object config{{"train_batch_size", "auto"},
                             {"train_micro_batch_size_per_gpu", "auto"},
                             {"gradient_accumulation_steps", "auto"}};
  boost::json::object zero_section{{"stage", stage}};
  for (std::string const which : {"optimizer", "param"}) {
    if (stage < (which == "param" ? 3 : 1)) continue;
    std::string const device = ask.word(
        "Where does the " + std::string(which == "param" ? "parameters" : "optimizer state") +
            " lie, off the device?",
        {"none", "cpu", "nvme"}, "none");
    if (device == "none") continue;
    boost::json::object section{{"device", device}};
    if (device == "nvme") section["nvme_path"] = ask.text("The folder on NVMe?", "/local_nvme");
    zero_section["offload_" + which] = std::move(section);
  }
  if (stage == 3) {
    for (char const* key : {"reduce_bucket_size", "stage3_prefetch_bucket_size",
                            "stage3_param_persistence_threshold"})
      zero_section[key] = "auto";
    zero_section["stage3_gather_16bit_weights_on_model_save"] =
        ask.yes("Save whole 16-bit weights at stage 3?", true);
  }
  std::string const clip =
      ask.text("The largest gradient norm (0: none, auto: the arguments say it)?", "auto");
  std::string const precision = ask.word("Mixed precision?", {"no", "bf16", "fp16"}, "bf16");
  if (clip == "auto") {
    config["gradient_clipping"] = "auto";
  } else {
    double norm = 0;
    auto const [end, error] = std::from_chars(clip.data(), clip.data() + clip.size(), norm);
    if (error != std::errc() || end != clip.data() + clip.size() || !(norm >= 0) ||
        std::isinf(norm))
      throw WrongCommand("zero-config init: '" + clip + "' is no norm");
    config["gradient_clipping"] = norm;
  }
  if (precision != "no") config[precision] = boost::json::object{{"enabled", true}};
  config["zero_optimization"] = std::move(zero_section);
  write(json_file, zero::json_text(config) + "\n");
  write(yaml_file,
        "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\ndeepspeed_config:\n"
        "  deepspeed_config_file: " +
            quoted_yaml(json_file) + "\nmachine_rank: " + std::to_string(rank) +
            "\nnum_machines: " + std::to_string(machines) + "\nnum_processes: " +
            std::to_string(processes) + "\nmixed_precision: '" + precision + "'\n");
  return 0;
}

}  // namespace zero_config
