// SPDX-License-Identifier: Apache-2.0
// expected-error: conversion from 'zero::View<float, archetype::Device<float, float> >'
// expected-error: to non-scalar type

#include <archetypes/device.hpp>

#ifdef ZERO_XFAIL_PASS
#include <zero/device/host.hpp>
using Device = zero::Host;
#else
using Device = archetype::Device<float, float>;
#endif

float first(zero::View<float, Device> weights) {
  std::span<float> const readable = weights;
  return readable[0];
}
