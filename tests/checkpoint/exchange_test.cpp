// SPDX-License-Identifier: Apache-2.0
// The files of transformers, and single tensors by name: whole at every stage, whoever keeps what.
#include <zero/launch/threads.hpp>
#include <zero/step/trainer.hpp>

#include <cases/given_gradients.hpp>
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <cstring>

namespace {

using namespace checkpoints;

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

zero::ModelOptions model_options(MemoryFiles& files, int stage) {
  return {.stage3_gather_16bit_weights_on_model_save = stage == 3, .files = &files};
}

std::vector<float> floats(std::vector<std::uint32_t> const& bits) {
  std::vector<float> values;
  for (std::uint32_t x : bits) values.push_back(std::bit_cast<float>(x));
  return values;
}

/// The tensors of a safetensors file, as floats, read here byte by byte.
std::map<std::string, std::vector<float>> tensors_of(MemoryFiles& files, std::string const& path) {
  std::vector<std::byte> const& all = files.data(path);
  zero::SafetensorsHeader const header = zero::read_safetensors_header(
      [&](Index offset, std::span<std::byte> to) {
        std::memcpy(to.data(), all.data() + offset, to.size());
      },
      std::ssize(all), path);
  CHECK(header.metadata.at("format") == "pt");
  std::map<std::string, std::vector<float>> tensors;
  for (zero::SafetensorsEntry const& e : header.entries) {
    std::vector<float>& to = tensors[e.name];
    Index const width = e.type == "F32" ? 4 : 2;
    for (Index i = 0; i < e.bytes; i += width) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, all.data() + e.begin + i, at(width));
      to.push_back(e.type == "F32" ? std::bit_cast<float>(bits)
                   : e.type == "BF16"
                       ? std::bit_cast<float>(bits << 16)
                       : float(std::bit_cast<zero::fp16>(static_cast<std::uint16_t>(bits))));
    }
  }
  return tensors;
}

}  // namespace

TEST_CASE("a model is written whole at every stage and world, in 16 and 32 bits") {
  for (Storage storage : {Storage::floats, Storage::mixed}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (int world : {1, 3}) {
        MemoryFiles files;
        Setup const setup{.stage = stage, .world = world, .storage = storage};
        std::map<std::string, std::vector<float>> seen;
        Canonical const state = state_after(setup, [&](AnyTrainer& trainer) {
          for (int s = 0; s < 2; ++s) trainer.step(s);
          auto const parameters = trainer.seen();
          if (trainer.rank() == 0) seen = parameters;
          zero::ModelOptions options = model_options(files, stage);
          trainer.save_model("own", options);
          options.type = "F32";
          trainer.save_model("whole", options);
        });
        CHECK(tensors_of(files, "own/model.safetensors") == seen);
        auto const whole = tensors_of(files, "whole/model.safetensors");
        CHECK(whole.size() == seen.size());
        for (auto const& [key, bits] : state) {
          if (key.starts_with("master/")) CHECK(whole.at(key.substr(7)) == floats(bits));
          if (key.starts_with("parameter/"))
            CHECK(whole.at(key.substr(10)) == seen.at(key.substr(10)));
        }
      }
    }
  }
}

TEST_CASE("above a size a model is cut into shards with an index, and reads back") {
  MemoryFiles files;
  Setup const setup{.stage = 3, .world = 2};
  Canonical const saved = state_after(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    zero::ModelOptions options = model_options(files, 3);
    options.max_shard_bytes = 1000;
    auto const names = trainer.save_model("model", options).names;
    if (trainer.rank() == 0) {
      CHECK(names.size() > 3);
      CHECK(names.back() == "model.safetensors.index.json");
      CHECK(names[0] == "model-00001-of-0000" + std::to_string(names.size() - 1) + ".safetensors");
    }
  });
  for (int stage : {0, 2}) {
    Canonical const found = state_after({.stage = stage, .world = 3}, [&](AnyTrainer& trainer) {
      trainer.load_model("model", {.files = &files});
    });
    for (auto const& [key, bits] : saved)
      if (!key.starts_with("state.")) CHECK(found.at(key) == bits);
  }
  // A shard that is gone, and one that the index does not have.
  std::vector<std::string> names;
  files.list("model", names);
  files.rename("model/" + names[0], "elsewhere");
  auto const load = [&] {
    std::string error;
    on_ranks({.stage = 1, .world = 1}, [&](AnyTrainer& trainer) {
      error = error_of([&] { trainer.load_model("model", {.files = &files}); });
    });
    return error;
  };
  CHECK(has(load(), names[0]));
}

TEST_CASE("T02: at stage 3 a model is gathered or refused, never written in part") {
  MemoryFiles files;
  for (int stage = 0; stage < 4; ++stage) {
    on_ranks({.stage = stage, .world = 2}, [&](AnyTrainer& trainer) {
      std::string const error =
          error_of([&] { trainer.save_model("model" + std::to_string(stage), {.files = &files}); });
      CHECK(has(error, "stage3_gather_16bit_weights_on_model_save") == (stage == 3));
      zero::ModelOptions options{.stage3_gather_16bit_weights_on_model_save = true,
                                 .files = &files};
      auto const saved = trainer.save_model("all" + std::to_string(stage), options);
      CHECK(saved.warnings.size() == (stage == 3 ? 0 : 1));
    });
    CHECK((files.size("model" + std::to_string(stage) + "/model.safetensors") > 0) == (stage < 3));
    for (auto const& [name, values] :
         tensors_of(files, "all" + std::to_string(stage) + "/model.safetensors")) {
      for (zero::Unit const& unit : Setup{}.units)
        for (zero::Tensor const& t : unit.tensors)
          if (t.name == name) CHECK(std::ssize(values) == t.elements());
    }
  }
}

TEST_CASE("a model is read under other names, and what does not fit is listed") {
  MemoryFiles files;
  Setup const setup{.stage = 2, .world = 2};
  Canonical saved = state_after(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save_model("model", model_options(files, 2));
  });
  Setup other = setup;
  for (zero::Unit& unit : other.units)
    for (zero::Tensor& t : unit.tensors) t.name = "x." + t.name;
  Canonical const found = state_after(other, [&](AnyTrainer& trainer) {
    trainer.step(3);
    trainer.load_model("model",
                       {.rename = [](std::string const& n) { return "x." + n; }, .files = &files});
    CHECK(trainer.steps() == 0);
  });
  for (auto const& [key, bits] : saved) {
    std::size_t const slash = key.find('/') + 1;
    std::string const renamed = key.substr(0, slash) + "x." + key.substr(slash);
    if (!key.starts_with("state.")) CHECK(found.at(renamed) == bits);
  }
  on_ranks(other, [&](AnyTrainer& trainer) {
    std::string const error = error_of([&] {
      trainer.load_model(
          "model",
          {.rename = [](std::string const& n) { return n == "wte" ? std::string() : "x." + n; },
           .files = &files});
    });
    CHECK(has(error, "tensor 'x.wte' is not in the checkpoint"));
  });
}

TEST_CASE("one tensor by name: weights, states and gradients, the same at every stage and world") {
  for (Storage storage : {Storage::floats, Storage::mixed}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (int world : {1, 2, 3}) {
        CAPTURE(stage);
        CAPTURE(world);
        Setup const setup{
            .stage = stage, .world = world, .storage = storage, .options = {.clip = 0.01f}};
        std::vector<std::map<std::string, std::vector<float>>> found(at(world));
        Canonical const state = state_after(setup, [&](AnyTrainer& trainer) {
          trainer.step(0);
          auto& mine = found[at(trainer.rank())];
          for (std::string const name : {"wte", "small.w", "mixed.e", "large.w", "mixed.f"}) {
            mine["weight " + name] = trainer.gather(name, "weight");
            if (name == "mixed.f") continue;
            mine["exp_avg_sq " + name] = trainer.gather(name, "exp_avg_sq");
            mine["gradient " + name] = trainer.gather(name, "gradient");
          }
        });
        for (auto const& one : found) CHECK(one == found[0]);
        CHECK(found[0].at("weight wte") == floats(state.at("master/wte")));
        CHECK(found[0].at("weight mixed.e").empty());
        CHECK(found[0].at("exp_avg_sq large.w") == floats(state.at("state.exp_avg_sq/large.w")));
        // The gradients that every rank was given, before clipping; 16-bit ones are rounded thrice.
        std::vector<float> const& g = found[0].at("gradient wte");
        REQUIRE(g.size() == 143);
        for (std::size_t i = 0; i < g.size(); ++i) {
          double const given = 0.01 * zero::noise_normal(5, 0, static_cast<Index>(i));
          CHECK(std::abs(static_cast<double>(g[i]) - given) <=
                std::abs(given) * (storage == Storage::mixed ? 0x1p-6 : 0x1p-21));
        }
      }
    }
  }
}

TEST_CASE("a trainer without gradients() has none by name, and its weights all the same") {
  using Whole = zero::Trainer<cases::GivenGradients, zero::ThreadCommunicator<zero::Host>,
                              zero::AdamW, zero::Policies<zero::Sharded<1>, zero::Fp32>>;
  struct Parts {
    Whole& whole;
    void synchronize() { whole.synchronize(); }
    auto& context() { return whole.context(); }
    auto& parameters() { return whole.parameters(); }
    auto& optimizer_state() { return whole.optimizer_state(); }
  };
  zero::Units const units{{"a", {zero_test::weight("a.w", {3, 50})}}};
  zero::launch<zero::Threads>(2, [&](zero::ThreadCommunicator<zero::Host> ranks) {
    Whole whole(cases::GivenGradients{units}, ranks, zero::AdamW{}, zero::Options{});
    Parts parts{whole};
    CHECK(zero::gather(parts, "a.w", "weight") == zero::gather(whole, "a.w", "weight"));
    for (auto const& call : {std::function<void()>([&] { zero::gather(parts, "a.w", "gradient"); }),
                             std::function<void()>([&] {
                               zero::assign(parts, "a.w", std::vector<float>(150), "gradient");
                             })})
      CHECK(has(error_of(call), "the trainer has no gradients()"));
  });
}

TEST_CASE("one tensor is set by name, its parameters on every rank with it") {
  for (Storage storage : {Storage::floats, Storage::mixed}) {
    for (int stage = 0; stage < 4; ++stage) {
      Setup const setup{.stage = stage, .world = 3, .storage = storage};
      std::vector<float> values(23 * 31);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>(i);
      on_ranks(setup, [&](AnyTrainer& trainer) {
        trainer.step(0);
        std::vector<float> const other = trainer.gather("wte", "weight");
        trainer.assign("large.w", values, "weight");
        trainer.assign("large.w", values, "exp_avg");
        trainer.assign("large.w", values, "gradient");
        CHECK(trainer.gather("large.w", "weight") == values);
        CHECK(trainer.gather("large.w", "exp_avg") == values);
        std::vector<float> const gradient = trainer.gather("large.w", "gradient");
        for (std::size_t i = 0; i < values.size(); ++i)
          CHECK(std::abs(gradient[i] - values[i]) <= values[i] * 0x1p-7f);
        CHECK(trainer.gather("wte", "weight") == other);
        auto const seen = trainer.seen().at("large.w");
        for (std::size_t i = 0; i < values.size(); ++i) {
          CHECK(seen[i] == (storage == Storage::mixed ? float(zero::bf16(values[i])) : values[i]));
        }
        std::vector<float> const frozen(69, 0.5f);
        trainer.assign("mixed.f", frozen, "weight");
        CHECK(trainer.seen().at("mixed.f") == frozen);
        CHECK(has(error_of([&] { trainer.gather("nothing", "weight"); }), "no tensor 'nothing'"));
        CHECK(has(error_of([&] { trainer.gather("wte", "momentum"); }),
                  "expected 'weight', 'gradient', 'exp_avg', 'exp_avg_sq'"));
        CHECK(has(error_of([&] { trainer.gather("mixed.f", "gradient"); }), "frozen"));
        CHECK(has(error_of([&] {
                    trainer.assign("wte", {1, 2}, "weight");
                  }),
                  "2 values for tensor 'wte'; expected 143"));
      });
    }
  }
}
