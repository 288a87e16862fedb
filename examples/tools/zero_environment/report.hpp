// SPDX-License-Identifier: Apache-2.0
#pragma once
// The facts and the faults as text, a fact a line, and as one line of JSON. Both have the same
// names in the same order, and every name always, but for those of GPUs, ports and files.

#include <zero/core/version.hpp>
#include <zero/report/json.hpp>

#include <zero_environment/faults.hpp>

#include <variant>

namespace zero_environment {

/// A fact's name and value: text, a number, bytes that may be without limit, or yes and no.
struct Entry {
  std::string name;
  std::variant<std::string, Index, bool> value;
};

/// What is said of what there is not.
inline constexpr char const* not_built = "not built with";
inline constexpr char const* not_found = "not found";

/// All facts, in the order in which they are shown.
inline std::vector<Entry> entries(Facts const& f) {
  std::vector<Entry> all;
  auto const text = [&](std::string name, std::optional<std::string> const& value,
                        char const* otherwise) {
    all.push_back({std::move(name), value.value_or(otherwise)});
  };
  auto const version = [&](std::string name, std::optional<int> number, auto said,
                           char const* otherwise) {
    all.push_back({std::move(name), number ? said(*number) : std::string(otherwise)});
  };
  auto const bytes = [&](std::string name, std::optional<Index> value, char const* otherwise) {
    if (value) {
      all.push_back({std::move(name), *value});
    } else {
      all.push_back({std::move(name), std::string(otherwise)});
    }
  };
  auto const package = [&](std::string const& name, Package const& p) {
    text(name + ".built", p.built, not_built);
    text(name + ".loaded", p.found, p.built ? not_found : not_built);
  };
  text("zero", std::string(zero::version), "");
  text("compiler", f.compiler, "");
  text("nvcc.built", f.nvcc.built, not_built);
  text("nvcc.found", f.nvcc.found, not_found);
  version("cuda.built", f.cuda_header, cuda_text, not_built);
  version("cuda.runtime", f.cuda_runtime, cuda_text, not_found);
  version("cuda.driver", f.cuda_driver, cuda_text, not_found);
  text("cuda.visible_devices", f.visible_devices, "not set");
  version("nccl.built", f.nccl_header, nccl_text, not_built);
  version("nccl.loaded", f.nccl, nccl_text, not_found);
  all.push_back({"gpus", static_cast<Index>(f.gpus.size())});
  for (std::size_t i = 0; i < f.gpus.size(); ++i) {
    Gpu const& gpu = f.gpus[i];
    std::string const name = "gpu." + std::to_string(i);
    std::string peers;
    for (int peer : gpu.peers) peers += (peers.empty() ? "" : " ") + std::to_string(peer);
    text(name + ".name", gpu.name, "");
    all.push_back({name + ".memory_bytes", gpu.memory_bytes});
    text(name + ".capability",
         std::to_string(gpu.capability / 10) + "." + std::to_string(gpu.capability % 10), "");
    text(name + ".peers", peers.empty() ? "none" : peers, "");
  }
  package("mpi", f.mpi);
  text("mpi.mpirun", f.mpirun, not_found);
  text("launcher", f.launcher.empty() ? "none" : f.launcher, "");
  for (Port const& port : f.ports) {
    text(port.nccl ? "port.nccl" : "port.torchrun",
         std::to_string(port.number) + (port.taken ? ", taken" : ", free"), "");
  }
  if (f.id_file) text("nccl.id_file", f.id_file->path, "");
  text("io_uring.built", f.uring_header, not_built);
  text("io_uring.kernel", f.uring_refused.empty() ? "allowed" : f.uring_refused, "");
  bytes("memlock.limit_bytes", f.memlock_bytes, "unlimited");
  bytes("memlock.most_bytes", f.memlock_most_bytes, "unlimited");
  bytes("memlock.need_bytes", f.memlock_need_bytes, "not said (--lock BYTES)");
  all.push_back({"infiniband", f.infiniband});
  all.push_back({"cores", Index{f.cores}});
  all.push_back({"numa_nodes", Index{f.numa_nodes}});
  all.push_back({"memory_bytes", f.memory_bytes});
  package("openblas", f.openblas);
  text("boost.built", f.boost.built, not_built);
  package("xxhash", f.xxhash);
  text("yaml_cpp.built", f.yaml.built, not_built);
  return all;
}

/// "name<tab>value" a line, then "wrong<tab>sentence" a line, and "nothing is wrong" where nothing
/// is.
inline std::string report_text(Facts const& facts, std::vector<Fault> const& faults) {
  std::string text;
  for (Entry const& entry : entries(facts)) {
    text += entry.name + "\t";
    if (auto const* const number = std::get_if<Index>(&entry.value)) {
      text += std::to_string(*number);
      if (entry.name.ends_with("_bytes")) text += " (" + zero::human_bytes(*number) + ")";
    } else if (auto const* const yes = std::get_if<bool>(&entry.value)) {
      text += *yes ? "yes" : "no";
    } else {
      text += std::get<std::string>(entry.value);
    }
    text += "\n";
  }
  for (Fault const& fault : faults) text += "wrong\t" + fault.text() + "\n";
  if (faults.empty()) text += "nothing is wrong\n";
  return text;
}

/// {"facts":{...},"wrong":[{"what":...,"found":...,"expected":...,"do":...},...]}
inline std::string report_json(Facts const& facts, std::vector<Fault> const& faults) {
  zero::JsonLine line;
  for (Entry const& entry : entries(facts))
    std::visit([&](auto const& value) { line.add(entry.name, value); }, entry.value);
  std::string wrong;
  for (Fault const& fault : faults) {
    wrong += (wrong.empty() ? "" : ",") + zero::JsonLine()
                                              .add("what", fault.problem.path)
                                              .add("found", fault.problem.found)
                                              .add("expected", fault.problem.expected)
                                              .add("do", fault.remedy)
                                              .text();
  }
  return "{\"facts\":" + line.text() + ",\"wrong\":[" + wrong + "]}\n";
}

}  // namespace zero_environment
