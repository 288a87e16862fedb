// SPDX-License-Identifier: Apache-2.0
#include <archetypes/rig.hpp>

#include <sstream>

namespace rig {

template <>
std::unique_ptr<Trainer> make_stage<0>(Setup const&, Ranks, zero::CollectiveLog&);
template <>
std::unique_ptr<Trainer> make_stage<1>(Setup const&, Ranks, zero::CollectiveLog&);
template <>
std::unique_ptr<Trainer> make_stage<2>(Setup const&, Ranks, zero::CollectiveLog&);
template <>
std::unique_ptr<Trainer> make_stage<3>(Setup const&, Ranks, zero::CollectiveLog&);

std::unique_ptr<Trainer> make(Setup const& setup, Ranks ranks, zero::CollectiveLog& log) {
  switch (setup.stage) {
    case 0:
      return make_stage<0>(setup, std::move(ranks), log);
    case 1:
      return make_stage<1>(setup, std::move(ranks), log);
    case 2:
      return make_stage<2>(setup, std::move(ranks), log);
    case 3:
      return make_stage<3>(setup, std::move(ranks), log);
    default:
      throw zero::InvalidArgument("rig: stage " + std::to_string(setup.stage));
  }
}

zero::Schedule schedule_of(Setup const& setup) {
  if (!setup.schedule.empty()) return setup.schedule;
  return zero::default_schedule(static_cast<int>(setup.units.size()));
}

zero::Facts facts_of(Setup const& setup) {
  zero::Index const bytes = setup.bf16 ? 2 : 4;
  return {setup.stage >= 1, setup.stage >= 2,       setup.stage >= 3, bytes, bytes,
          setup.bf16,       zero::AdamW::num_states};
}

std::string describe(Setup const& setup) {
  zero::Options const& o = setup.options;
  std::ostringstream out;
  out << "stage " << setup.stage << (setup.bf16 ? ", bf16, " : ", fp32, ") << setup.units.size()
      << " units, accumulation " << o.accumulation;
  if (o.reduction)
    out << (*o.reduction == zero::Reduction::boundary ? ", boundary" : ", micro-batch");
  out << ", prefetch " << o.prefetch << ", bucket " << o.bucket << ", threshold "
      << o.persistence_threshold << (o.release_after_forward ? "" : ", kept after forward")
      << ", clip " << o.clip;
  return out.str();
}

}  // namespace rig
